"""The PyTorch door: emulate a product under a model's backward pass, scan a model, measure what a dtype does to it.

    with convgrad.torch.emulate(product="A2") as record: ...      convolution gradients as that product computes them
    convgrad.torch.scan(model, inputs)                            what each product says to each convolution
    convgrad.torch.impact(model, loss, batch)                     what each compute dtype does to each gradient
    convgrad.torch.conv_backward(...), convolution(...) ...       the functional API on torch tensors

`import convgrad` never imports torch; importing this package does.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("convgrad.torch needs PyTorch: pip install 'convgrad[torch]' (torch>=2.10)") from error

from convgrad.torch.emulation import Call, Emulation, Record, emulate
from convgrad.torch.functional import conv_backward, conv_tbc, conv_tbc_backward, convolution
from convgrad.torch.layer_impact import Impact, impact
from convgrad.torch.scanning import Answer, Convolution, Finding, Scan, scan

__all__ = [
    "Answer",
    "Call",
    "Convolution",
    "Emulation",
    "Finding",
    "Impact",
    "Record",
    "Scan",
    "conv_backward",
    "conv_tbc",
    "conv_tbc_backward",
    "convolution",
    "emulate",
    "impact",
    "scan",
]
