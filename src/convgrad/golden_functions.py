"""Reference functions a test kit can load: the operators under their own names, with the header's parameter names.

    from convgrad.golden_functions import aclnnConvolutionBackward, aclnnConvTbcBackward

They return the expected gradients (`None` where the mask says no) as float64 sums of operands rounded as the product
rounds them, with the planned result casts. Output tensors may follow the header's other parameters; their shapes and
dtypes count, their values do not. torch tensors in give torch tensors out, NumPy arrays give NumPy arrays.

Of a kit's keywords these count: `short_soc_version`, `full_soc_version` (the product), `tensor_formats`,
`tensor_dtypes`; at the kernel level the shapes, formats and dtypes of inputs and outputs. Our own are `product` (goes
before a SoC name), `conformance` and `wide` (float64 sums without the result casts). Others are ignored: kits pass
along whatever a case holds. Without a SoC name the product is `CONVGRAD_PRODUCT`, else A2.

Operands that a kit widened before the call (float32 given as float64, 16 bits as float32) are recognised by their
values: they are rounded as the narrow call's plan says, and the sums come back unrounded in the dtype received.
"""

from __future__ import annotations

from convgrad.lab.kits.calls import aclnnConvolutionBackward, aclnnConvTbcBackward, convolution_backward
from convgrad.lab.kits.kernel_level import conv3d_backprop_filter_v2, conv3d_backprop_input_v2

__all__ = [
    "aclnnConvTbcBackward", "aclnnConvolutionBackward", "conv3d_backprop_filter_v2", "conv3d_backprop_input_v2",
    "convolution_backward", "golden_conv_backward", "golden_convtbc_backward",
]  # fmt: skip

# The names the kits' own case files use for their references.
golden_conv_backward = aclnnConvolutionBackward
golden_convtbc_backward = aclnnConvTbcBackward
