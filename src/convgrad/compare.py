"""Judging results: metrics, named standards, error maps, error anatomy."""

from __future__ import annotations

from collections.abc import Iterable

from convgrad.core import arguments, standards
from convgrad.core.standards import Standard
from convgrad.core.status import ConvGradError
from convgrad.core.tensor import read_dtype, read_tensor
from convgrad.lab.judging.findings import Findings, find

__all__ = ["Findings", "compare"]


def compare(
    actual: object, golden: object, dtype: str | None = None, *,
    standard: str | Iterable[str | Standard] = standards.DEFAULT, partner: object | None = None, name: str = "result",
) -> Findings:
    """Judges one array against its reference.

    `dtype` is the number format the result is judged in; by default its own. `golden` may be float64.

    >>> import numpy as np
    >>> golden = np.linspace(1, 2, 5)
    >>> compare(golden.astype(np.float16), golden, standard="mixed,exact").passed
    True
    """
    result, reference = read_tensor("actual", actual), read_tensor("golden", golden)
    if result.shape != reference.shape:
        message = f"the result has shape {result.shape}, the reference {reference.shape}"
        raise ConvGradError(message, rule="golden.shape", value=reference.shape)
    other = None if partner is None else read_tensor("partner", partner)
    if other is not None and other.shape != reference.shape:
        message = f"the partner has shape {other.shape}, the reference {reference.shape}"
        raise ConvGradError(message, rule="partner.shape", value=other.shape)
    judged_in = result.dtype if dtype is None else read_dtype("dtype", dtype)
    return find(
        arguments.text("name", name), result.values(), reference.values(), judged_in.name, _standards(standard),
        partner=None if other is None else other.values(),
    )


def _standards(named: object) -> tuple[Standard, ...]:
    try:
        words = named if isinstance(named, (str, Standard)) else arguments.listed("standard", named)
        return standards.find_all([words] if isinstance(words, Standard) else words)
    except (AttributeError, TypeError):
        raise arguments.wrong_type("standard", "names of standards", named) from None
    except ConvGradError:
        raise
    except ValueError as error:
        raise ConvGradError(str(error), rule="standard.name", value=named) from None
