"""The JAX door: the engine's own bits inside jit, derivatives of both orders in both directions, batches, refusals."""

import subprocess
import sys

import numpy as np
import pytest

import convgrad

jax = pytest.importorskip("jax")
door = pytest.importorskip("convgrad.jax")
jnp = jax.numpy

CASES = {
    "1d": ((2, 4, 9), (6, 2, 3), {"padding": 1, "groups": 2}),
    "2d": ((2, 3, 6, 5), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    "one-sided": ((1, 2, 4, 4), (3, 2, 3, 3), {"padding": ((0, 2), (1, 1))}),
    "transposed": ((2, 4, 3, 4), (4, 3, 3, 3), {"stride": 2, "padding": 1, "transposed": True, "output_padding": (1, 0),
                                               "groups": 2}),
    "3d": ((1, 2, 3, 4, 4), (2, 2, 2, 3, 3), {"padding": 1}),
}  # fmt: skip
DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def integers(shape, seed, dtype="float32"):
    return jnp.asarray(np.random.default_rng(seed).integers(-2, 3, shape), dtype)


def operands(case, dtype="float32"):
    x, w, how = CASES[case]
    channels = w[1] * how.get("groups", 1) if how.get("transposed") else w[0]
    return integers(x, 1, dtype), integers(w, 2, dtype), integers((channels,), 3, dtype), how


def same(found, wanted):
    """Equal in shape, dtype and every bit."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_engines_own_bits(case, dtype):
    """Forward pass and gradients, compiled or not, are those of `convgrad` on the same arrays, bit for bit."""
    x, w, b, how = operands(case, dtype)
    y = convgrad.convolution(np.asarray(x), np.asarray(w), np.asarray(b), **how)
    same(jax.jit(lambda *t: door.convolution(*t, **how))(x, w, b), y)
    same(door.convolution(x, w, **how), convgrad.convolution(np.asarray(x), np.asarray(w), **how))
    g = integers(y.shape, 4, dtype)
    wanted = convgrad.conv_backward(*(np.asarray(t) for t in (g, x, w)), **how)
    for made in (door.conv_backward(g, x, w, **how), jax.jit(lambda *t: door.conv_backward(*t, **how))(g, x, w)):
        for one, other in zip(made, wanted, strict=True):
            same(one, other)
    pulled = jax.vjp(lambda *t: door.convolution(*t, **how), x, w, b)[1](g)
    for one, other in zip(pulled, wanted, strict=True):
        same(one, other)


def test_time_batch_channel():
    """The other operator likewise, and its derivatives."""
    x, w, b = integers((7, 2, 3), 1), integers((3, 3, 4), 2), integers((4,), 3)
    y, pull = jax.vjp(lambda *t: door.conv_tbc(*t, pad=1), x, w, b)
    same(y, convgrad.conv_tbc(np.asarray(x), np.asarray(w), np.asarray(b), pad=1))
    g = integers(y.shape, 4)
    wanted = convgrad.conv_tbc_backward(np.asarray(g), np.asarray(x), np.asarray(w), pad=1)
    for one, two, other in zip(pull(g), door.conv_tbc_backward(g, x, w, pad=1), wanted, strict=True):
        same(one, other)
        same(two, other)


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_both_orders(case):
    """jax.test_util.check_grads: forward and backward, first and second order, in float64."""
    from jax.test_util import check_grads

    x, w, b, how = operands(case)
    with jax.enable_x64(True):
        given = [jnp.asarray(np.asarray(t), "float64") / 3 for t in (x, w, b)]
        check_grads(lambda *t: door.convolution(*t, **how), given, order=2, atol=1e-5, rtol=1e-5)
        g = jnp.ones(door.convolution(*given, **how).shape)
        check_grads(lambda *t: door.conv_backward(*t, **how), (g, *given[:2]), order=1, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("axes", [(0, None, None), (1, 0, None), (None, 0, 0), (0, None, 0), (None, None, 0)])
@pytest.mark.parametrize("case", ["2d", "transposed"])
def test_batches_are_calls_one_by_one(case, axes):
    """vmap over any operands, alone and around a gradient: the calls of its entries, exactly (integers)."""
    x, w, b, how = operands(case)
    many = [t if d is None else jnp.stack([t, t + 1, 2 * t], d) for t, d in zip((x, w, b), axes, strict=True)]
    def call(*t):
        return door.convolution(*t, **how)

    def gradients(*t):
        return jax.grad(lambda *t: call(*t).sum(), (0, 1, 2))(*t)

    for function in (call, gradients):
        found = jax.jit(jax.vmap(function, axes))(*many)
        for i in range(3):
            wanted = function(*(t if d is None else jnp.take(t, i, d) for t, d in zip(many, axes, strict=True)))
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                assert np.array_equal(one[i], other)


def test_batches_of_the_time_batch_channel_operator():
    """Its samples lie in the middle axis."""
    x, w = integers((5, 2, 3), 1), integers((3, 3, 4), 2)
    found = jax.vmap(lambda t: door.conv_tbc(t, w, pad=1))(jnp.stack([x, 2 * x]))
    assert np.array_equal(found[1], 2 * door.conv_tbc(x, w, pad=1))


@pytest.mark.parametrize("how", [{"product": "A2", "math": "hf32"}, {"product": "910", "math": "fp16"},
                                 {"product": "950", "math": "allow_down"}, {"algorithm": "fast"}])  # fmt: skip
def test_products_and_algorithms(how):
    """A product's rounding and an algorithm's sums reach the derivative."""
    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(s).astype("f4") for s in ((2, 16, 20, 20), (16, 16, 3, 3), (2, 16, 20, 20)))
    wanted = convgrad.conv_backward(g, x, w, padding=1, **how)
    pulled = jax.vjp(lambda x, w: door.convolution(x, w, padding=1, **how), x, w)[1](jnp.asarray(g))
    same(pulled[0], wanted.input)
    same(pulled[1], wanted.weight)


LEVELS = {
    "conv": ((7, 6, 9, 9), (5, 6, 3, 3), {"stride": 2, "padding": 1}),
    "transposed": ((7, 6, 5, 4), (6, 8, 3, 3), {"stride": 2, "transposed": True, "groups": 2}),
    "tbc": ((9, 7, 6), (3, 6, 5), {"pad": 1}),
}


def of_a_level(case, dtype="float32"):
    """Functions of the door and of convgrad; grad_output, input, weight, bias whose sums are not exact; options."""
    x, w, how = LEVELS[case]
    names = ("conv_tbc", "conv_tbc_backward") if case == "tbc" else ("convolution", "conv_backward")
    channels = w[2] if case == "tbc" else w[1] * how.get("groups", 1) if how.get("transposed") else w[0]
    rng = np.random.default_rng(5)
    y = getattr(convgrad, names[0])(np.ones(x, "f4"), np.ones(w, "f4"), **how).shape
    tensors = [jnp.asarray(rng.standard_normal(shape), dtype) for shape in (y, x, w, (channels,))]
    return [getattr(door, n) for n in names], getattr(convgrad, names[1]), tensors, how


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", LEVELS)
def test_every_function_takes_the_level(case, dtype):
    """Gradients at levels 0 to 3, compiled, and as derivatives, have the bits of convgrad's own, at 3 others than at 0;
    what is no level is refused by every function."""
    (forward, backward), core, (g, x, w, b), how = of_a_level(case, dtype)
    by_level = [core(*map(np.asarray, (g, x, w)), **how, deterministic=level) for level in range(4)]
    if dtype == "float32":
        assert not np.array_equal(by_level[0].weight, by_level[3].weight)
        assert not np.array_equal(by_level[0].bias, by_level[3].bias)
    for level, wanted in enumerate(by_level):
        found = jax.jit(lambda *t, level=level: backward(*t, **how, deterministic=level))(g, x, w)
        pulled = jax.vjp(lambda *t, level=level: forward(*t, **how, deterministic=level), x, w, b)[1](g)
        for one, two, other in zip(found, pulled, wanted, strict=True):
            same(one, other)
            same(two, other)
    for wrong in (4, -1, "3", None, 1.5):
        for call, tensors in ((forward, (x, w)), (backward, (g, x, w))):
            with pytest.raises((convgrad.ConvGradError, TypeError), match="deterministic"):
                call(*tensors, deterministic=wrong)


@pytest.mark.parametrize("case", LEVELS)
def test_level_3_of_batches_and_second_derivatives(case):
    """Gradients of single samples by vmap are leaves of the batch's tree, entries of several samples have a tree each;
    the weight gradient inside a second derivative is the tree too."""
    (forward, backward), core, (g, x, w, _), how = of_a_level(case)
    at = 1 if case == "tbc" else 0
    whole = backward(g, x, w, **how, deterministic=3)

    def of_weight(g, x):
        return jax.vjp(lambda w: forward(x, w, **how, deterministic=3), w)[1](g)[0]

    singles = [jnp.moveaxis(jnp.expand_dims(t, at + 1), at, 0) for t in (g, x)]
    for each in (of_weight, lambda g, x: backward(g, x, w, **how, deterministic=3).weight):
        leaves = jax.jit(jax.vmap(each))(*singles)
        same(convgrad.tree_sum(np.asarray(leaves)), whole.weight)
        turned = jnp.flip(x, at)
        both = jax.vmap(each)(jnp.stack([g, 2 * g]), jnp.stack([x, turned]))
        same(both[0], whole.weight)
        same(both[1], core(*map(np.asarray, (2 * g, turned, w)), **how, deterministic=3).weight)

    def grad_input(w):
        return backward(g, x, w, **how, deterministic=3).input

    cotangent = jnp.asarray(np.random.default_rng(6).standard_normal(x.shape), x.dtype)
    same(jax.vjp(grad_input, w)[1](cotangent)[0],
         core(*map(np.asarray, (g, cotangent, w)), **how, deterministic=3).weight)  # fmt: skip


def test_level_3_needs_no_interpreter(monkeypatch):
    """XLA calls the engine itself at level 3 as well; where it cannot, the interpreter gives the same bits."""
    from convgrad.jax import calls

    (_, backward), _, (g, x, w, _), how = of_a_level("conv")
    program = jax.jit(lambda *t: backward(*t, **how, deterministic=3))
    text = program.lower(g, x, w).as_text()
    assert f"@{calls.TARGET}" in text and "callback" not in text
    wanted = program(g, x, w)
    monkeypatch.setattr(calls, "registered", lambda: False)
    for one, other in zip(jax.jit(lambda *t: backward(*t, **how, deterministic=3))(g, x, w), wanted, strict=True):
        same(one, other)


def test_level_3_of_winograd_sums():
    """The 950's own weight sums are leaves here too: bits of convgrad's own call, which are not level 0's."""
    rng = np.random.default_rng(11)
    g, x, w = (rng.standard_normal(s).astype("f4") for s in ((3, 256, 12, 12), (3, 256, 12, 12), (256, 256, 3, 3)))
    how = {"padding": 1, "product": "950", "conformance": "runtime", "output_mask": (False, True, True)}
    wanted = [convgrad.conv_backward(g, x, w, **how, deterministic=level) for level in (0, 3)]
    assert not np.array_equal(wanted[0].weight, wanted[1].weight)
    found = door.conv_backward(g, x, w, **how, deterministic=3)
    same(found.weight, wanted[1].weight)
    same(found.bias, wanted[1].bias)


def test_a_list_that_holds_itself_leaves_the_stack_as_it_was():
    """It is refused by name, and functions may call each other as deep as before."""
    endless: list = [1]
    endless.append(endless)

    def depth(n: int = 0) -> int:
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    before = depth()
    with pytest.raises(convgrad.ConvGradError, match=r"^weight must be an array") as refused:
        convgrad.jax.convolution(np.ones((1, 1, 3), np.float32), endless)
    assert refused.value.rule == "weight.type" and depth() == before


def test_refusals_name_the_rule_while_tracing():
    """The product's contract holds under jit; wrong arguments are refused by name."""
    x, w, g = integers((1, 2, 5, 5), 1), integers((2, 2, 3, 3), 2), integers((1, 2, 4, 4), 3)
    with pytest.raises(convgrad.ConvGradError, match="grad_output"):
        jax.jit(door.conv_backward)(g, x, w)
    with pytest.raises(convgrad.ConvGradError, match="bfloat16"):
        door.conv_backward(*(t.astype("bfloat16") for t in (integers((1, 2, 3, 3), 1), x, w)), product="910")
    with pytest.raises(convgrad.ConvGradError, match="bias must have shape"):
        door.convolution(x, w, jnp.ones(3))
    with pytest.raises(convgrad.ConvGradError, match="stride"):
        door.convolution(x, w, stride="two")
    with pytest.raises(convgrad.ConvGradError, match="int32"):
        door.convolution(x.astype("int32"), w)
    with pytest.raises(convgrad.ConvGradError, match="input must be an array"):
        door.convolution(object(), w)


def test_results_without_elements():
    """An empty batch: zeros where the weight has any, nothing where the input has none."""
    x, w = jnp.zeros((0, 2, 5, 5)), jnp.ones((3, 2, 3, 3))
    y, pull = jax.vjp(lambda *t: door.convolution(*t), x, w)
    assert y.shape == (0, 3, 3, 3)
    dx, dw = pull(y)
    assert dx.shape == x.shape and not np.asarray(dw).any()


def test_the_host_callback_gives_the_same(monkeypatch):
    """Where XLA cannot call the engine the interpreter does, also on arrays of megabytes: the same bits."""
    from convgrad.jax import calls

    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(s).astype("f4") for s in ((4, 32, 64, 64), (32, 32, 3, 3), (4, 32, 64, 64)))
    wanted = [np.asarray(t) for t in door.conv_backward(g, x, w, padding=1)]
    monkeypatch.setattr(calls, "registered", lambda: False)
    found = jax.jit(lambda *t: door.conv_backward(*t, padding=1, threads=2))(g, x, w)
    for one, other in zip(found, wanted, strict=True):
        same(one, other)


def test_without_jax():
    """One sentence that says what to install; `import convgrad` does not import it."""
    program = "import sys; sys.modules['jax'] = None\nimport convgrad\ntry:\n    import convgrad.jax\n" \
              "except ImportError as error: print(error)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "convgrad.jax needs JAX: pip install 'convgrad[jax]' (jax>=0.7)\n"


def test_a_jax_without_the_interface(monkeypatch):
    """Where JAX has no foreign function interface the interpreter is asked: the same bits, compiled too."""
    from convgrad.jax import calls

    x, w = np.ones((1, 2, 5), np.float32), np.full((3, 2, 3), 0.1, np.float32)
    usual = np.asarray(jax.jit(door.convolution)(x, w))
    monkeypatch.delattr(jax, "ffi")
    calls.registered.cache_clear()
    jax.clear_caches()
    try:
        assert not calls.registered()
        assert np.array_equal(jax.jit(lambda x, w: door.convolution(x, w))(x, w), usual)
    finally:
        monkeypatch.undo()
        calls.registered.cache_clear()
        jax.clear_caches()
    assert calls.registered()


def test_numpy_arrays_and_dtypes_that_have_no_place():
    """NumPy arrays are taken as JAX's own are; whole and complex numbers are refused by name."""
    x, w = np.ones((1, 2, 5), np.float32), np.ones((3, 2, 3), np.float32)
    assert np.array_equal(door.convolution(x, w), door.convolution(jnp.asarray(x), jnp.asarray(w)))
    for dtype in (np.int32, np.complex64):
        for forward in (door.convolution, convgrad.convolution):  # by the argument, not by the output it would make
            with pytest.raises(convgrad.ConvGradError, match=f"^dtype of input must .* got {np.dtype(dtype).name}"):
                forward(x.astype(dtype), w)
            with pytest.raises(convgrad.ConvGradError, match=f"^dtype of weight must .* got {np.dtype(dtype).name}"):
                forward(x, w.astype(dtype))
    with pytest.raises(convgrad.ConvGradError, match=r"^rank of input must"):
        door.convolution(x[0], w)


def test_hostile_calls():
    """Arguments of any kind: a result that is PyTorch's, or a refusal that names the argument; a fault is found."""
    import hostile_calls

    doors = hostile_calls.jax_doors()
    outcomes, findings = hostile_calls.campaign(0, 80, doors=doors, spare=64 << 30)
    assert not findings, "\n".join(findings)
    assert sum(n for name, n in outcomes.items() if name.endswith("result")) > 10
    wrong = [hostile_calls.Door("wrong", lambda input: input.shape[5], lambda rng: {"input": np.ones(3)})]
    assert "IndexError" in " ".join(hostile_calls.campaign(0, 5, doors=wrong)[1])
