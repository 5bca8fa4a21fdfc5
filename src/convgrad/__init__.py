"""Convolution gradients on any CPU, as an Ascend NPU's operators would be asked to compute them."""

import logging

from convgrad.core.determinism import tree_sum
from convgrad.core.plan import Plan
from convgrad.core.request import Request
from convgrad.core.status import ConvGradError, Status
from convgrad.core.tensor import Tensor
from convgrad.engines import EngineInfo
from convgrad.engines import info as engine_info
from convgrad.functional import (
    Gradients,
    conv_backward,
    conv_tbc,
    conv_tbc_backward,
    convolution,
    plan,
    sample_gradients,
)
from convgrad.rules.check import Verdict, check
from convgrad.rules.explain import Explanation, explain

__all__ = [
    "ConvGradError",
    "EngineInfo",
    "Explanation",
    "Gradients",
    "Plan",
    "Request",
    "Status",
    "Tensor",
    "Verdict",
    "check",
    "conv_backward",
    "conv_tbc",
    "conv_tbc_backward",
    "convolution",
    "engine_info",
    "explain",
    "plan",
    "sample_gradients",
    "tree_sum",
]

__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())
