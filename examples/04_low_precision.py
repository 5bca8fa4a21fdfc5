"""What a shorter dtype does to a gradient: the same layer in every math type and storage dtype, against float64."""

import numpy as np

import convgrad

rng = np.random.default_rng(0)
g, x, w = rng.normal(size=(4, 32, 14, 14)), rng.normal(size=(4, 16, 14, 14)), rng.normal(size=(32, 16, 3, 3))
exact = convgrad.conv_backward(g, x, w, padding=1)


def error(gradient, truth):
    """Largest difference relative to the largest gradient."""
    return np.abs(convgrad.Tensor(gradient).values() - truth).max() / np.abs(truth).max()


def row(label, tensors, **numerics):
    got = convgrad.conv_backward(*tensors, padding=1, **numerics)
    print(f"{label:32} {error(got.input, exact.input):10.1e} {error(got.weight, exact.weight):12.1e}")


print(f"{'':32} {'grad_input':>10} {'grad_weight':>12}")
single = [t.astype(np.float32) for t in (g, x, w)]
row("float32", single)
row("float32, HF32 on A2 (11 bits)", single, math="hf32", product="A2")
row("float32, HF32 on 950 (10 bits)", single, math="hf32", product="950")
row("float32, float16 on 910", single, math="allow_down", product="910")
for dtype in ("float16", "bfloat16", "hifloat8", "float8_e4m3fn", "float8_e5m2"):
    row(dtype, [convgrad.Tensor(t, dtype) for t in (g, x, w)])
