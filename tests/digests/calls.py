"""What the doors for arrays say to arguments that make no sense: the error's type and words, or the status and text.

Recorded (calls.txt): the expression, and below it what it said. Words of Python and NumPy themselves stay out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from answers import VOLATILE

import convgrad
from convgrad import aclnn

RECORD = Path(__file__).with_name("calls.txt")


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


def fixed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def backward(**changes: object) -> object:
    """A good call with some arguments changed."""
    given = {"grad_output": ones(2, 4, 5, 6), "input": ones(2, 3, 5, 6), "weight": ones(4, 3, 3, 3), "padding": 1}
    return convgrad.conv_backward(**{**given, **changes})  # type: ignore[arg-type]


def two_phase(*changes: tuple[int, object]) -> object:
    """The status and the text of the vendor's call with some arguments changed, by place."""
    given: list[object] = [
        ones(2, 4, 5, 6), ones(2, 3, 5, 6), ones(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
        [True, True, True], 0, ones(2, 3, 5, 6), ones(4, 3, 3, 3), ones(4),
    ]  # fmt: skip
    for place, value in changes:
        given[place] = value
    size, _, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*given)
    text = VOLATILE.sub("", aclnn.aclGetRecentErrMsg() or "")
    return f"{int(status)} {'some' if size else 'no'} workspace {text}"


EXPRESSIONS = (
    "backward()[2].tolist()", "backward(stride=0)", "backward(stride=-1)", "backward(stride=1.0)",
    "backward(stride='1')", "backward(stride=(1,))", "backward(stride=(1, 1, 1))", "backward(stride=None)",
    "backward(stride=2**70)", "backward(padding=-1)", "backward(padding=[(1, 2, 3), 1])", "backward(padding=(1, 1, 1))",
    "backward(padding=[(1, 0), (0, 1)])", "backward(padding=2**62)", "backward(padding='same')",
    "backward(dilation=0)", "backward(dilation=2**40)", "backward(dilation=True)", "backward(groups=0)",
    "backward(groups=2)", "backward(groups=-3)", "backward(groups=1.5)", "backward(groups=2**64)",
    "backward(output_padding=1)", "backward(transposed=True)", "backward(output_mask=())",
    "backward(output_mask=(True,))", "backward(output_mask=(True,) * 4)", "backward(output_mask=(False,) * 3)",
    "backward(math='fast')", "backward(math=9)", "backward(math=-1)", "backward(math=2.5)",
    "backward(product='A9')", "backward(product='')", "backward(product='A2')", "backward(conformance='strict')",
    "backward(bias_sizes=[5])", "backward(bias_sizes=[])", "backward(bias_sizes=[4, 4])",
    "backward(input=ones(2, 3, 5))", "backward(input=ones(2, 3))", "backward(input=ones(2, 2, 5, 6))",
    "backward(input=ones(2, 3, 5, 6, dtype='int32'))", "backward(input=ones(2, 3, 5, 6, dtype='complex64'))",
    "backward(input=ones(2, 3, 5, 6, dtype='float16'))", "backward(input=None)", "backward(input='text')",
    "backward(weight=ones(4, 3, 3))", "backward(weight=ones(4, 3, 0, 3))", "backward(weight=ones(4, 3, 9, 9))",
    "backward(weight=ones(0, 3, 3, 3))", "backward(grad_output=ones(2, 4, 5, 7))",
    "backward(grad_output=ones(3, 4, 5, 6))",
    "backward(grad_output=ones(2, 4, 5, 6, dtype='float64'))", "backward(grad_output=ones(0, 4, 5, 6))",
    "backward(out=ones(2))", "backward(out=5)", "backward(out=(None, None))", "backward(out=(ones(1), None, None))",
    "backward(out=(ones(2, 3, 5, 6, dtype='float16'), None, None))", "backward(out=([1.0], None, None))",
    "backward(out=(None, fixed(ones(4, 3, 3, 3)), None))",
    "backward(out=(np.broadcast_to(ones(1), (2, 3, 5, 6)),) * 3)",
    "(lambda x: backward(input=x, out=(x, None, None)))(ones(2, 3, 5, 6))",
    "(lambda x: backward(out=(None, None, x[:8:2]), input=x.reshape(2, 3, 5, 6)))(ones(180))",
    "backward(threads=0)", "backward(threads=-2)", "backward(threads=1.5)", "backward(threads='all')",
    "backward(threads=2**40)",
    "convgrad.convolution(ones(1, 2, 5), ones(4, 3, 3))", "convgrad.convolution(ones(1, 2, 5), ones(4, 2, 9))",
    "convgrad.convolution(ones(1, 2, 5), ones(4, 2, 3), ones(3))",
    "convgrad.convolution(ones(1, 2, 5), ones(4, 2, 3), out=ones(1, 4, 4))",
    "convgrad.convolution(ones(1, 2, 5), ones(4, 2, 3), stride=0)",
    "convgrad.convolution(ones(1, 2, 5), ones(4, 2, 3), ones(4)).tolist()",
    "convgrad.convolution(ones(1, 2, 5), ones(2, 4, 3), transposed=True, output_padding=1)",
    "convgrad.conv_tbc(ones(5, 2, 3), ones(3, 3), pad=1)", "convgrad.conv_tbc(ones(5, 2, 3), ones(3, 3, 4), pad=-1)",
    "convgrad.conv_tbc(ones(5, 2, 3), ones(3, 2, 4))", "convgrad.conv_tbc(ones(5, 2, 3), ones(3, 3, 4), pad='1')",
    "convgrad.conv_tbc_backward(ones(5, 2, 4), ones(5, 2, 3), ones(3, 3, 4), pad=0)",
    "convgrad.conv_tbc_backward(ones(5, 2, 4), ones(5, 2, 3), ones(3, 3, 4), ones(5), pad=1)",
    "convgrad.conv_tbc_backward(ones(5, 2, 4), ones(5, 2, 3), ones(3, 3, 4), pad=1)[2].tolist()",
    "convgrad.check('conv n1 c1>1 i3 k1 fp32')", "convgrad.check(None)", "convgrad.explain(5)",
    "convgrad.explain(convgrad.Request.parse('conv n1 c1>1 i3 k1 fp32'), 'fr')",
    "convgrad.Request.parse('')", "convgrad.Request.parse('conv')", "convgrad.Request.parse('conv n1 c1>1 i3 k1 q7')",
    "convgrad.Request.parse('conv n1 c1>1 i3 k1 fp32 on=A9')", "convgrad.Request.parse('conv n1 c1>1 i3xq k1 fp32')",
    "convgrad.Request.parse('conv n1 c1>1 i3 k1 fp32 zz=1')", "convgrad.Request.parse('fly n1 c1>1 i3 k1 fp32')",
    "convgrad.plan(convgrad.Request.parse('conv n1 c1>1 i3 k5 fp32'))",
    "convgrad.plan(convgrad.Request.parse('conv n1 c1>1 i3 k1 fp32')).run(ones(1), ones(1), ones(1))",
    "convgrad.plan(convgrad.Request.parse('conv n1 c1>1 i3 k1 fp32 want=y')).run(ones(1), ones(1), ones(1))",
    "convgrad.Tensor([1.0], dtype='hf32')", "convgrad.Tensor([1.0], dtype='int4')",
    "convgrad.Tensor([1.0, 1000.0], dtype='float8_e4m3fn')",
    "two_phase()", "two_phase((0, None))", "two_phase((3, None))", "two_phase((4, [0, 1]))",
    "two_phase((5, [1, 1, 1]))",
    "two_phase((9, 0))", "two_phase((10, [True]))", "two_phase((11, 7))", "two_phase((12, None))",
    "two_phase((12, ones(2, 3, 5, 7)))", "two_phase((13, ones(4, 3, 3, 3, dtype='float16')))",
    "two_phase((4, 'text'))", "two_phase((9, 'text'))", "two_phase((4, [1.5, 1]))", "two_phase((7, None))",
    "aclnn.set_product('A9')", "aclnn.set_conformance('strict')",
    "int(aclnn.aclnnConvolutionBackward(None, 0, None, None))", "int(aclnn.aclDestroyTensor(None))",
)  # fmt: skip


def _shown(result: object) -> str:
    """Of arrays the dtype and shape: their bits are another part's."""
    if isinstance(result, tuple):
        return ", ".join(map(_shown, result))
    return f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else str(result)


def said(expression: str) -> str:
    """What evaluating it says, on lines below the expression."""
    try:
        text = _shown(eval(expression))
    except Exception as error:
        text = type(error).__name__
        if isinstance(error, (ValueError, TypeError)):  # others speak Python's words
            text += f": {error}"
        if isinstance(error, convgrad.ConvGradError):
            text += f"\n{error.rule} {int(error.status)} {error.value!r}"
    return "\n".join(f"    {line}" for line in text.splitlines() or [""])


def write(jobs: int) -> None:
    RECORD.write_text("".join(f"{e}\n{said(e)}\n" for e in EXPRESSIONS), "utf-8")


def differences(short: bool, jobs: int) -> Iterator[str]:
    """Expressions that say something else."""
    recorded: dict[str, list[str]] = {}
    for line in RECORD.read_text("utf-8").splitlines():
        if line.startswith("    "):
            recorded[expression].append(line)  # noqa: F821
        else:
            expression = line
            recorded[expression] = []
    for expression in EXPRESSIONS:
        was, now = "\n".join(recorded.get(expression, ["    nothing recorded"])), said(expression)
        if was != now:
            yield f"{expression}\n{now}\n  recorded:\n{was}"
