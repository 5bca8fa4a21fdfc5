"""torch.func on the door's functions: vmap, grad, jacrev and their compositions, against calls one by one."""

import pytest

import convgrad

torch = pytest.importorskip("torch")
door = pytest.importorskip("convgrad.torch")
func = torch.func

CASES = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 2), {"stride": (2, 1), "padding": 1}),
    "transposed": ((2, 4, 3, 4), (4, 2, 3, 3), {"stride": 2, "padding": 1, "transposed": True, "groups": 2}),
    "tbc": ((5, 2, 3), (3, 3, 4), {"pad": 1}),
}


def integers(shape, seed):
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).double()


def made(case):
    """A function of input, weight and bias, and three tensors for it."""
    x, w, how = CASES[case]
    function = door.conv_tbc if case == "tbc" else door.convolution
    channels = w[2] if case == "tbc" else w[1] * 2 if how.get("transposed") else w[0]
    return (lambda *t: function(*t, **how)), (integers(x, 1), integers(w, 2), integers((channels,), 3))


@pytest.mark.parametrize("axes", [(0, None, None), (1, 0, None), (None, 0, 0), (0, None, 0)])
@pytest.mark.parametrize("case", CASES)
def test_vmap_is_calls_one_by_one(case, axes):
    """Over any operands, of the forward pass and of its gradients; integers, so exactly."""
    function, given = made(case)
    many = [t if d is None else torch.stack([t, t + 1, 2 * t], d) for t, d in zip(given, axes, strict=True)]
    gradients = func.grad(lambda *t: function(*t).square().sum(), (0, 1, 2))
    for each in (lambda *t: (function(*t),), gradients):
        found = func.vmap(each, axes)(*many)
        for i in range(3):
            alone = each(*(t if d is None else t.select(d, i) for t, d in zip(many, axes, strict=True)))
            assert all(torch.equal(one[i], other) for one, other in zip(found, alone, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_grad_and_jacobian_are_autograds(case):
    """func.grad, func.jacrev and its second order agree with torch.autograd on the same function."""
    function, given = made(case)
    def loss(*t):
        return function(*t).square().sum()

    wanted = torch.autograd.grad(loss(*(t.requires_grad_() for t in given)), given)
    given = tuple(t.detach() for t in given)
    assert all(torch.equal(a, b) for a, b in zip(func.grad(loss, (0, 1, 2))(*given), wanted, strict=True))
    jacobian = func.jacrev(lambda w: function(given[0], w, given[2]).flatten()[:5])(given[1])
    for i in range(5):
        w = given[1].clone().requires_grad_()
        (row,) = torch.autograd.grad(function(given[0], w, given[2]).flatten()[i], w)
        assert torch.equal(jacobian[i], row)
    second = func.jacrev(func.grad(lambda b: loss(given[0], given[1], b)))(given[2])
    positions = function(*given).numel() // given[2].numel()
    assert torch.equal(second, 2 * positions * torch.eye(given[2].numel(), dtype=torch.float64))


def test_gradients_themselves_are_batched():
    """door.conv_backward under vmap gives each entry's gradients; a masked one stays absent."""
    x, w, g = integers((3, 2, 3, 5, 5), 1), integers((4, 3, 3, 3), 2), integers((3, 2, 4, 5, 5), 3)
    mask = (True, True, False)
    found = func.vmap(lambda g, x: door.conv_backward(g, x, w, padding=1, output_mask=mask)[:2])(g, x)
    for i in range(3):
        alone = door.conv_backward(g[i], x[i], w, padding=1, output_mask=mask)
        assert alone.bias is None
        assert torch.equal(found[0][i], alone.input) and torch.equal(found[1][i], alone.weight)


@pytest.mark.parametrize("case", CASES)
def test_level_3_under_vmap(case):
    """Gradients of single samples by vmap are leaves: their tree is the gradient of the batch at level 3, and gradients
    of entries of several samples are each its own tree; both the functions' and autograd's."""
    x_shape, w_shape, how = CASES[case]
    function = door.conv_tbc if case == "tbc" else door.convolution
    backward = door.conv_tbc_backward if case == "tbc" else door.conv_backward
    at = 1 if case == "tbc" else 0
    numbers = torch.Generator().manual_seed(5)
    w = torch.randn(w_shape, generator=numbers)
    x = torch.randn((*x_shape[:at], 7, *x_shape[at + 1 :]), generator=numbers)
    g = torch.randn(function(x, w, **how).shape, generator=numbers)

    def of_weight(w, g, x, level=3):
        return func.grad(lambda w: (function(x, w, **how, deterministic=level) * g).sum())(w)

    whole = backward(g, x, w, **how, deterministic=3)
    assert not torch.equal(whole.weight, backward(g, x, w, **how).weight)
    singles = [t.unsqueeze(at + 1).movedim(at, 0) for t in (g, x)]
    for each in (of_weight, lambda w, g, x: backward(g, x, w, **how, deterministic=3).weight):
        leaves = func.vmap(each, (None, 0, 0))(w, *singles)
        assert torch.equal(torch.from_numpy(convgrad.tree_sum(leaves.numpy())), whole.weight)
        batches = func.vmap(each, (None, 0, 0))(w, torch.stack([g, 2 * g]), torch.stack([x, x.flip(at)]))
        assert torch.equal(batches[0], whole.weight)
        turned = backward(2 * g, x.flip(at), w, **how, deterministic=3).weight
        assert torch.equal(batches[1], turned) and not torch.equal(turned, 2 * whole.weight)
