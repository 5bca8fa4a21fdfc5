"""Which product a kit's call is about: the SoC name it passes, else `CONVGRAD_PRODUCT`, else A2 with a warning."""

from __future__ import annotations

import os
import warnings
from typing import Any, cast

from convgrad.core import products
from convgrad.core.arguments import told
from convgrad.core.status import ConvGradError

VARIABLE = "CONVGRAD_PRODUCT"
FALLBACK = "A2"
_warned: list[str] = []


def product_of(*names: object) -> str:
    """The key of the first name that says anything; a name without rules is a refusal that says so."""
    for name in names:
        if name is not None and not (isinstance(name, str) and not name.strip()):
            return _key(name)
    told_by_variable = os.environ.get(VARIABLE, "").strip()
    if told_by_variable:
        return _key(told_by_variable)
    if not _warned:
        _warned.append(FALLBACK)
        warnings.warn(
            f"no SoC name and no {VARIABLE}: golden values are those of product {FALLBACK}", stacklevel=3
        )
    return FALLBACK


def _key(name: object) -> str:
    try:
        return products.find(cast(Any, name)).key
    except ValueError:
        pass
    message = f"SoC {told(name)}: no convolution gradient rules are known for it; use one of {', '.join(products.KEYS)}"
    raise ConvGradError(message, rule="product.name", value=name)
