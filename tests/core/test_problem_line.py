"""The problem line: every request has one, and it reads back."""

import pytest
from hypothesis import given, settings

from convgrad.core.request import Operator, Request, TensorSpec
from strategies import any_request

LINE = "conv n2 c8>16 i14x14 k3x3 s1 p1 d1 g1 fp16 math=keep want=xwb on=A2"


@given(any_request)
@settings(max_examples=400, deadline=None)
def test_every_request_round_trips(request):
    """Whatever was asked, sense or nonsense, the line says all of it."""
    assert Request.parse(str(request)) == request


def test_an_ordinary_line_prints_as_it_was_written():
    """Nothing is added to a line that says everything."""
    assert str(Request.parse(LINE)) == LINE


def test_shapes_follow_from_the_words():
    """Sizes that the law gives need not be written."""
    r = Request.parse("tconv n1 c4>6 i5x6 k3x3 s2 p1 op1 g2 bf16")
    assert r.transposed and r.operator is Operator.CONV
    assert r.grad_output == TensorSpec((1, 6, 10, 12), "bfloat16", "NCHW")
    assert r.weight == TensorSpec((4, 3, 3, 3), "bfloat16", "NCHW")
    t = Request.parse("tbc n2 c3>4 i9 k3 p1")
    assert (t.grad_output.shape, t.input.shape, t.weight.shape) == ((9, 2, 4), (9, 2, 3), (3, 3, 4))
    assert t.bias.shape == (4,) and t.pad == 1


def test_spellings_and_comments():
    """Products, dtypes and math types may be written as users know them."""
    r = Request.parse("conv n1 c1 i3 k1 half math=3 on=Ascend910B3   # why this line is here")
    assert (r.product, r.math, r.input.dtype) == ("A2", 3, "float16")


@pytest.mark.parametrize("text, word", [
    ("", "must start with"), ("pool n1", "must start with"), ("conv n1 c2 i3x3 k3x3x3", "same 1, 2 or 3 sizes"),
    ("conv n1 n2", "twice"), ("conv n1 c1 i3 k1 s1.5", "not a whole number"),
    ("conv n1 c1 i3 k1 colour=red", "unknown word"), ("conv n1 c1 i3 k1 on=H100", "unknown product"),
    ("conv n1 c1 i3 k1 want=z", "want=z"), ("conv n1x2 c1 i3 k1", "one number"),
    ("conv n1 c1 i3 k1 as=law", "as=document or as=runtime"), ("conv n1 c1 i3 k1 mask=2", "0 and 1"),
    ("conv n1 c1 i" + "9" * 40 + " k1", "not a whole number"), ("conv n1 c1 i3 k1 fp12", "fp12"),
])
def test_unreadable_lines_name_the_word(text, word):
    """A line that cannot be read says which word and why."""
    with pytest.raises(ValueError, match=word):
        Request.parse(text)
