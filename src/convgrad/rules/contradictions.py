"""Rows: every place where the sources disagree, what each says, and what is done in each conformance."""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCES: dict[str, tuple[str, str]] = {
    "S0": ("aclnnConvTbcBackward document, newer revision", "aclnnConvTbcBackward 文档（较新版本）"),
    "S1": ("aclnnConvTbcBackward document, A2/A3 revision", "aclnnConvTbcBackward 文档（A2/A3 版本）"),
    "S2": ("aclnnConvolutionBackward document, A2/A3 revision", "aclnnConvolutionBackward 文档（A2/A3 版本）"),
    "S3": ("aclnnConvolutionBackward document, older revision", "aclnnConvolutionBackward 文档（较旧版本）"),
    "S4": ("Conv3DBackpropInput document", "Conv3DBackpropInput 使用说明"),
    "UD": ("newest public document", "最新公开文档"),
    "host": ("public host code", "公开的 host 代码"),
    "tests": ("tests of the public code", "公开代码的测试"),
    "kernels": ("public kernels and tiling", "公开的 kernel 与 tiling"),
    "here": ("this project", "本项目"),
}
"""What the short names of sources stand for."""


def source_words(source: str, language: str = "en") -> str:
    """A row's source with its short names spelt out."""
    index = 0 if language == "en" else 1
    parts = []
    for part in source.split("; "):
        name = next((n for n in SOURCES if part == n or part.startswith((f"{n},", f"{n}:"))), None)
        parts.append(part if name is None else SOURCES[name][index] + part[len(name) :])
    return "; ".join(parts)


_SHORTER = {"S0": "the newer TBC document", "S1": "the older TBC document", "S2": "the newer document",
            "S3": "the older document", "UD": "the newest document"}  # fmt: skip


def note_words(note: str) -> str:
    """A row's note with its short names spelt out."""
    return re.sub(r"\b(S[0-3]|UD)\b", lambda found: _SHORTER[found.group()], note)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One disagreement."""

    id: str
    topic: str
    says: tuple[tuple[str, str], ...]
    """(sources, what they say)."""
    document: str
    """What is done in document conformance ..."""
    runtime: str = ""
    """... and in runtime conformance, where it differs."""


CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction("C1", "stride in the printed prototype",
                  (("S2", "the prototype has no stride"), ("S3, UD, its own sample", "stride follows biasSizes")),
                  "15 arguments before the two outputs of phase 1, stride after biasSizes"),
    Contradiction("C2", "a null gradInput or gradWeight",
                  (("S2, S3", "161001, without a word about the mask"), ("UD, host", "only when its mask bit is set")),
                  "161001 only when its mask bit is set"),
    Contradiction("C3", "a null biasSizes",
                  (("S2, S3, UD", "161001"), ("host, tests", "ignored; 161002 on the empty path with mask[2]")),
                  "161001 always", "ignored on non-empty calls; on the empty path with mask[2] 161002"),
    Contradiction("C4", "the value of biasSizes",
                  (("S2, S3, UD", "one element, the bias channel count"), ("tests", "[1] is accepted in 9 cases")),
                  "one element; with mask[2] equal to the channel count, else 161002",
                  "length and value ignored on non-empty calls"),
    Contradiction("C5", "bfloat16 with cubeMathType 2",
                  (("S3, UD, S0, S1", "not supported"), ("tests", "run it, in 23 cases")),
                  "161002", "accepted with a warning, float16 operands"),
    Contradiction("C6", "16-bit dtypes with cubeMathType 3",
                  (("S3, S1", "not supported"), ("S2", "float16 stays float16"), ("UD, tests", "ignored")),
                  "accepted, no effect, advice printed"),
    Contradiction("C7", "8-bit floats in convolutions",
                  (("S2", "HIFLOAT8 and FLOAT8_E4M3FN are listed, not on A2 and A3"),
                   ("UD", "950, transposed, with mask[0]"),
                   ("host", "FLOAT8_E4M3FN never passes, HIFLOAT8 in one case")),
                  "950, transposed, mask[0]: gradOutput, input, weight and gradInput in one 8-bit dtype; else 161002",
                  "as the host code: all HIFLOAT8, gradWeight float32, groups 1; plain calls 161002 or 561103"),
    Contradiction("C8", "empty gradOutput and weight",
                  (("S3", "never"), ("S2, UD, host, tests", "together with an empty input, on A2, A3 and 950")),
                  "accepted on A2, A3 and 950 together with an empty input; 161002 on 910 and 310P"),
    Contradiction("C9", "whether formats must agree",
                  (("S2, S3, UD", "gradOutput, input and gradInput agree, weight and gradWeight agree"),
                   ("host", "each tensor alone; ND is taken for three axes")),
                  "ranks agree, and the rank decides the format: NCL or ND, NCHW, NCDHW"),
    Contradiction("C10", "outputPadding",
                  (("S2, S3", "length rank-2, below the stride"),
                   ("host", "length 4 too in 2-D; below the stride in 3-D")),
                  "length rank-2; each in [0, stride) in every rank", "length 4 also in 2-D; each in [0, stride)"),
    Contradiction("C11", "largest window on A2 and A3",
                  (("S2", "two columns, 511 and 255, under one heading"), ("S3", "255"), ("kernels", "511")),
                  "255: the other column belongs to another product"),
    Contradiction("C12", "status of a wrong spatial size in 1-D and 2-D, of a wrong batch, of channels off the groups",
                  (("S2, S3", "161002"), ("kernels", "561103: the host code checks 3-D only")), "161002 in every rank"),
    Contradiction("C13", "status beyond a documented limit",
                  (("S2, S3", "shapes under 161002, values out of range under 561103"), ("host", "no such check"),
                   ("kernels", "refuse, 561103")),
                  "a shape: 161002; an attribute: 561103", "561103 for both"),
    Contradiction("C14", "3-D, groups above 1, float32 gradWeight, 16-bit compute on A2 and A3",
                  (("S2, S3", "nothing"), ("tests", "161002")), "accepted", "161002"),
    Contradiction("C15", "dtypes of outputs",
                  (("S2, S3, UD", "those of input, weight and gradOutput"), ("host", "asked for on 950 only")),
                  "they must match, else 161002", "match on 950; elsewhere any supported dtype, the result is cast"),
    Contradiction("C16", "outputMask of a length other than 3", (("S2, S3", "nothing"), ("host", "161001")), "161001"),
    Contradiction("C17", "gradBias when input or weight is empty and gradOutput is not",
                  (("formula", "the sum of gradOutput"), ("host", "zeros")), "the sum of gradOutput"),
    Contradiction("C18", "products without the operator",
                  (("S2, S3", "161002"), ("host", "no gate: 1-D and 2-D would run on 310B")),
                  "161002, right after the null checks"),
    Contradiction("C19", "an empty transposed call whose test is named an error",
                  (("tests", "the name says error, the assertion says success"),), "success"),
    Contradiction("C20", "which tensor's channels the groups divide",
                  (("S2, S3", "input, in both cases"), ("host", "gradOutput for transposed convolutions")),
                  "input; gradOutput when transposed"),
    Contradiction("C21", "rounding to HF32",
                  (("the reference script", "ties away from zero; 11 bits on Ascend910B, 10 elsewhere"),
                   ("the toolkit", "10 bits on 950 only; a selectable tie rule, nearest-even after reset")),
                  "ties away; 11 fraction bits on A2, A3 and cpu, 10 on 950"),
    Contradiction("C22", "gradBias under HF32",
                  (("the reference script", "sums the rounded gradOutput"), ("host", "sums the original one")),
                  "the original gradOutput, whatever cubeMathType"),
    Contradiction("C23", "groups above 65535 in transposed convolutions on A2 and A3",
                  (("S2", "[1, 65535], without conditions"), ("S3", "plain convolutions only")), "561103 above 65535"),
    Contradiction("C24", "limits of 950",
                  (("S2", "a column without a heading: window 511, stride 63, padding and dilation 255"),
                   ("UD", "plain: none; transposed: window 255, depth 1000000, others 2147483646")),
                  "the newest document's"),
    Contradiction("C25", "format of gradBias",
                  (("S2, S3", "ND, without conditions"),
                   ("host", "looked at on A2, A3 and 950, in plain convolutions only")),
                  "ND, else 161002", "ND in plain convolutions on A2, A3 and 950; any elsewhere"),
    Contradiction("C26", "the shape law and the limits of an empty call on A2, A3 and 950",
                  (("S2", "input, weight and gradOutput obey the output size formula, and every limit has to be met"),
                   ("host", "leaves by a path that looks at some lengths and channels, and at formula one"),
                   ("tests", "gradOutput 100x100x0x1x1 against input 0x1x0x1x1 is a success")),
                  "batch, channels, sizes and limits as of any other call",
                  "what the path looks at: lengths, groups, channels, formula one; no batch, size, gradBias shape or "
                  "limit"),
    Contradiction("C27", "which sizes of an empty tensor may be 0",
                  (("S2", "D, H, W of input only when N or C (transposed: N) is 0; sizes of weight only when input is "
                          "empty"),
                   ("S3", "input: N or C; weight: none"), ("host", "asked for only when mask[0] is set")),
                  "as the newer document, whatever the mask, else 161002", "asked for only when mask[0] is set"),
    Contradiction("C28", "a weight with N = 0",
                  (("S2", "N is not among the axes that may be 0; for transposed convolutions it has to be above 0"),
                   ("host", "looked at in transposed convolutions only")),
                  "161002", "161002 when transposed; else accepted without grad_input or with an empty input"),
    Contradiction("C29", "non-contiguous outputs",
                  (("S0, S1, S2", "the column says no for gradInput, gradWeight and gradBias"),
                   ("host", "writes outputs through a strided copy")),
                  "accepted, with an advice that no document promises it"),
    Contradiction("C30", "limits of transposed convolutions on A2 and A3",
                  (("S2, S3", "every limit of the table says transposed=false; groups alone has no condition"),
                   ("kernels", "limits of their own, undocumented")),
                  "none but groups (C23)"),
    Contradiction("C31", "3-D on 910 and 310P",
                  (("S2, S3", "1-D, 2-D and 3-D, without naming products"), ("UD", "1-D and 2-D only"),
                   ("host", "161002")),
                  "161002"),
    Contradiction("T1", "axis order of TBC tensors",
                  (("S0, UD, parameter rows", "(N, C, H) and (Cout, Cin, K)"),
                   ("formulas, error table, sample, S1, host", "(H, N, C) and (K, Cin, Cout)")),
                  "(T, B, C) and (K, Cin, Cout)"),
    Contradiction("T2", "length of bias",
                  (("S0, UD", "the first size of weight"), ("error table, S1, host", "its third")), "weight.shape[2]"),
    Contradiction("T3", "formulas",
                  (("S1", "gradInput from t+k, gradWeight with indices that do not fit"),
                   ("S0, UD", "t-k, without pad")),
                  "the adjoint of the forward pass, with pad"),
    Contradiction("T4", "an empty self",
                  (("S0", "supported"), ("S1", "both yes and no"), ("host", "161002")),
                  "consistent shapes: success and zeros; inconsistent ones: 161002"),
    Contradiction("T5", "float32 with cubeMathType 0 or 3 on A2 and A3",
                  (("S0, UD", "an error: text of another product"), ("S1, host, tests", "run it")),
                  "0 = float32, 1 and 3 = HF32, 2 = float16"),
    Contradiction("T6", "range of pad",
                  (("S0, S1", "0..255"), ("UD", "0..2147483647"), ("host", "at least 0"), ("kernels", "255 on A2, A3")),
                  "161002 outside 0..255", "above 255 561103 on A2, A3, 910; up to 2147483647 on 950"),
    Contradiction("T7", "format of bias and gradBias",
                  (("S0, S1", "ND or NCL"), ("UD, host", "ND")), "ND or NCL", "ND"),
    Contradiction("T8", "8-bit gradWeight",
                  (("S0, S1, UD", "listed, and also the dtype of weight, which cannot be 8-bit"),
                   ("host, tests", "161002")),
                  "950: weight's dtype, HIFLOAT8 or FLOAT8_E4M3FN, rounded once from float32; elsewhere weight's dtype",
                  "weight's dtype"),
    Contradiction("T9", "mixed dtypes",
                  (("S0, S1, UD, error table", "161002"), ("S0, UD, parameter rows", "promotion"),
                   ("host", "accepted")),
                  "161002", "accepted, promoted"),
    Contradiction("T10", "gradBias when input or weight is empty",
                  (("formula", "the sum of self"), ("host", "B*Tout, whatever the data")), "the sum of self"),
    Contradiction("T11", "the reference script of TBC",
                  (("the reference script", "weight unpermuted, bias size from K"), ("tests", "the right one")),
                  "the adjoint of the forward pass"),
    Contradiction("T12", "determinism", (("S0", "off by default everywhere"), ("UD", "950 is deterministic")),
                  "always deterministic; the switch is a level"),
    Contradiction("T13", "TBC on 310P and 310B", (("S0", "not supported"), ("host", "would run")), "161002"),
    Contradiction("T14", "counting of sizes in the error table",
                  (("S0, S1", "'third' and '2nd' in one sentence, sizes below 0 for outputs only"),),
                  "input.shape[2] == weight.shape[1]; no size below 0 anywhere"),
    Contradiction("T15", "largest TBC window",
                  (("S1", "255 on A2 and A3"), ("S0, UD", "255 on 950"), ("host", "none"),
                   ("kernels", "255 on A2, A3")),
                  "above 255 161002 on 950, A2, A3; K = 0 accepted", "above 255 561103 on A2, A3; none on 950"),
    Contradiction("T16", "largest sizes of TBC tensors on A2 and A3",
                  (("S1", "self, input and weight in [1, 2147483646]"), ("S0", "at least 0"),
                   ("host", "no such check")),
                  "161002 above 2147483646; 0 as T4 and T15 say", "accepted"),
    Contradiction("T17", "cubeMathType 3 on 910",
                  (("S0", "not supported, whatever the dtype"), ("host", "float16 stays float16")),
                  "161002", "161002 for float32; no effect on float16"),
    Contradiction("K1", "format of gradInput in Conv3DBackpropInput, the tile kernel",
                  (("S4, sample", "NCDHW"), ("S4, table of formats", "NDC1HWC0 only"),
                   ("kernels", "NCDHW leaves each tile raw in a workspace, to be moved by another step")),
                  "both are modelled; NCDHW needs finish_ncdhw after each GetTensorC, and End refuses a kernel that "
                  "did without"),
)  # fmt: skip
BY_ID = {row.id: row for row in CONTRADICTIONS}
