"""Which product answers, in which conformance; and the vendor's system parameters."""

from __future__ import annotations

import os

from convgrad.core import products
from convgrad.core.arguments import number, told
from convgrad.core.determinism import SYSTEM_PARAMETERS, SystemParameter
from convgrad.core.request import CONFORMANCES, DEFAULT_CONFORMANCE
from convgrad.core.status import ConvGradError

DEFAULT_PRODUCT = "A2"
ACL_OPT_DETERMINISTIC = 0
ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET = 100000, 107021

_chosen: dict[str, str] = {}
_parameters: dict[int, int] = {}


def set_product(name: str | None) -> None:
    """The product of every following call, by key or any known spelling; `None` goes back to the environment."""
    if name is None:
        _chosen.pop("product", None)
    else:
        _chosen["product"] = products.find(name).key


def product() -> str:
    """Key of the product that answers; a ValueError when `CONVGRAD_PRODUCT` is no known name."""
    return _chosen.get("product") or products.find(os.environ.get("CONVGRAD_PRODUCT") or DEFAULT_PRODUCT).key


def set_conformance(name: str | None) -> None:
    """`document` or `runtime` for every following call; `None` goes back to the environment."""
    if name is None:
        _chosen.pop("conformance", None)
    else:
        _chosen["conformance"] = _known_conformance(name)


def conformance() -> str:
    """The conformance in force; a ValueError when `CONVGRAD_CONFORMANCE` is no known name."""
    asked = os.environ.get("CONVGRAD_CONFORMANCE") or DEFAULT_CONFORMANCE
    return _chosen.get("conformance") or _known_conformance(asked)


def _known_conformance(name: str) -> str:
    if not isinstance(name, str) or name not in CONFORMANCES:
        raise ValueError(f"unknown conformance {told(name)}: use document or runtime")
    return name


def aclrtSetSysParamOpt(opt: int, value: int) -> int:
    """Sets an option of the process: ACL_OPT_DETERMINISTIC is the determinism level, 0 to 3, of the calls whose phase 1
    comes after it; the others are remembered. docs/generated/determinism.md lists them.
    """
    option, setting = _option(opt), _whole(value)
    if option is None or setting is None or not 0 <= setting <= option.largest:
        return ACL_ERROR_INVALID_PARAM
    _parameters[option.number] = setting
    return 0


def deterministic() -> int:
    """The determinism level in force."""
    return _parameters.get(ACL_OPT_DETERMINISTIC, 0)


def aclrtCtxSetSysParamOpt(opt: int, value: int) -> int:
    """The same: the public runtime stores both in one place."""
    return aclrtSetSysParamOpt(opt, value)


def aclrtGetSysParamOpt(opt: int) -> tuple[int, int]:
    """(value, status); an option never set is 0."""
    option = _option(opt)
    return (0, ACL_ERROR_INVALID_PARAM) if option is None else (_parameters.get(option.number, 0), 0)


def aclrtCtxGetSysParamOpt(opt: int) -> tuple[int, int]:
    """(value, status); an option never set is an error here."""
    option = _option(opt)
    if option is None:
        return 0, ACL_ERROR_INVALID_PARAM
    known = option.number in _parameters
    return _parameters.get(option.number, 0), 0 if known else ACL_ERROR_RT_SYSPARAMOPT_NOT_SET


def _option(opt: object) -> SystemParameter | None:
    number = _whole(opt)
    return next((row for row in SYSTEM_PARAMETERS if row.number == number), None)


def _whole(value: object) -> int | None:
    try:
        return number("value", value)
    except ConvGradError:
        return None
