"""Status codes of the two-phase protocol, and the one exception of the functional doors."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What a two-phase call answers; the values are the vendor's."""

    SUCCESS = 0
    PARAM_NULLPTR = 161001
    PARAM_INVALID = 161002
    RUNTIME_ERROR = 361001
    INNER = 561000
    INNER_CREATE_EXECUTOR = 561101
    INNER_NULLPTR = 561103


class ConvGradError(ValueError):
    """A refused call: which rule, which value, and a problem line that reproduces it.

    `status` is what the two-phase door would have returned; `rule` is the broken row's id;
    `value` is what was got; `line` parses back with `Request.parse`; `message` is the text without all these.
    """

    def __init__(
        self, message: str, *, status: Status = Status.PARAM_INVALID, rule: str = "", value: object = None,
        line: str = "",
    ) -> None:
        self.message = message
        self.status = status
        self.rule = rule
        self.value = value
        self.line = line
        text = f"{message} [{status.name} {int(status)}" + (f", rule {rule}]" if rule else "]")
        super().__init__(f"{text}\n  reproduce: {line}" if line else text)


class ConvGradTypeError(ConvGradError, TypeError):
    """A refused call because an argument is of a kind that cannot be read at all."""
