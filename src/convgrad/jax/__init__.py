"""The JAX door: convolutions and their gradients as a product computes them, inside jit, grad, vmap and jvp.

    convgrad.jax.convolution(x, w, b, padding=1, product="A2", math="hf32")      differentiable, to any order
    convgrad.jax.conv_backward(g, x, w, padding=1)                               the gradients themselves

`import convgrad` never imports jax; importing this package does.
"""

try:
    import jax  # noqa: F401
except ImportError as error:
    raise ImportError("convgrad.jax needs JAX: pip install 'convgrad[jax]' (jax>=0.7)") from error

from convgrad.jax.functional import conv_backward, conv_tbc, conv_tbc_backward, convolution

__all__ = ["conv_backward", "conv_tbc", "conv_tbc_backward", "convolution"]
