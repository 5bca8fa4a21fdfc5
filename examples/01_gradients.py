"""Gradients of one layer, from NumPy arrays; a wrong call says what is wrong; the plan says what is computed."""

import numpy as np

import convgrad

rng = np.random.default_rng(0)
x = rng.normal(size=(2, 8, 14, 14)).astype(np.float32)
w = rng.normal(size=(16, 8, 3, 3)).astype(np.float32)
y = convgrad.convolution(x, w, padding=1)
gradients = convgrad.conv_backward(np.ones_like(y), x, w, padding=1)
for name, array in gradients._asdict().items():
    print(f"grad_{name:7} {array.dtype} {array.shape}")

# A transposed convolution takes the same call; output padding only explains the larger grad_output.
up = rng.normal(size=(8, 4, 4, 4)).astype(np.float32)
tall = convgrad.convolution(x, up, stride=2, padding=1, output_padding=1, transposed=True)
gradients = convgrad.conv_backward(tall, x, up, stride=2, padding=1, output_padding=1, transposed=True)
print("transposed  ", gradients.input.shape, gradients.weight.shape, gradients.bias.shape)

# Buffers are written in place, only what is asked for is computed.
buffer = np.empty_like(x)
convgrad.conv_backward(y, x, w, padding=1, output_mask=(True, False, False), out=(buffer, None, None))

try:
    convgrad.conv_backward(y, x, w, padding=2)
except convgrad.ConvGradError as error:
    print(error)

print(convgrad.plan(convgrad.Request.parse("conv n2 c8>16 i14x14 k3x3 p1 fp32 math=hf32 on=A2")))
