"""Both phases of both operators. Phase 1 reads shapes and never data; phase 2 reads the data of its own moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from convgrad.aclnn import settings
from convgrad.aclnn.error_text import fail, words_of
from convgrad.aclnn.executors import OUTPUTS, aclOpExecutor, run_phase_two
from convgrad.aclnn.tensors import Slot, Unreadable, slot
from convgrad.calls.decide import decide
from convgrad.core import arguments
from convgrad.core.arguments import number
from convgrad.core.request import Operator, Request
from convgrad.core.status import Status
from convgrad.rules.advice import STRIDED_OUTPUT

Ints = Sequence[int] | None
PhaseOne = tuple[int, aclOpExecutor | None, Status]


def aclnnConvolutionBackwardGetWorkspaceSize(
    gradOutput: object, input: object, weight: object, biasSizes: Ints, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, outputPadding: Ints, groups: int, outputMask: Sequence[bool] | None, cubeMathType: int,
    gradInput: object, gradWeight: object, gradBias: object,
) -> PhaseOne:  # fmt: skip
    """Phase 1: (workspace bytes, executor, status); (0, None, status) for a refused call, and nothing is written."""
    tensors = {"gradOutput": gradOutput, "input": input, "weight": weight, "gradInput": gradInput,
               "gradWeight": gradWeight, "gradBias": gradBias}  # fmt: skip
    try:
        slots = {name: slot(name, passed, "ND" if name == "gradBias" else "") for name, passed in tensors.items()}
        specs = {name: None if s is None else s.spec for name, s in slots.items()}
        mask = None if outputMask is None else arguments.flags("outputMask", outputMask)
        request = Request(
            Operator.CONV, specs["gradOutput"], specs["input"], specs["weight"], None, _ints("biasSizes", biasSizes),
            _ints("stride", stride), _ints("padding", padding), _ints("dilation", dilation),
            arguments.flag("transposed", transposed), _ints("outputPadding", outputPadding), number("groups", groups),
            mask, number("cubeMathType", cubeMathType),
            specs["gradInput"], specs["gradWeight"], specs["gradBias"],
            product=settings.product(), conformance=settings.conformance(), deterministic=settings.deterministic(),
        )  # fmt: skip
    except (Unreadable, ValueError) as error:
        return _refused(Operator.CONV, Status.PARAM_INVALID, words_of(error))
    return _phase_one(request, slots)


def aclnnConvTbcBackwardGetWorkspaceSize(
    self: object, input: object, weight: object, bias: object, pad: int, cubeMathType: int,
    gradInput: object, gradWeight: object, gradBias: object,
) -> PhaseOne:  # fmt: skip
    """Phase 1: (workspace bytes, executor, status); (0, None, status) for a refused call, and nothing is written."""
    tensors = {"gradOutput": self, "input": input, "weight": weight, "bias": bias, "gradInput": gradInput,
               "gradWeight": gradWeight, "gradBias": gradBias}  # fmt: skip
    try:
        named = {name: "self" if name == "gradOutput" else name for name in tensors}
        slots = {name: slot(named[name], passed, "ND") for name, passed in tensors.items()}
        specs = {name: None if s is None else s.spec for name, s in slots.items()}
        request = Request(
            Operator.TBC, specs["gradOutput"], specs["input"], specs["weight"], specs["bias"],
            math=number("cubeMathType", cubeMathType), grad_input=specs["gradInput"], grad_weight=specs["gradWeight"],
            grad_bias=specs["gradBias"], pad=number("pad", pad),
            product=settings.product(), conformance=settings.conformance(), deterministic=settings.deterministic(),
        )  # fmt: skip
    except (Unreadable, ValueError) as error:
        return _refused(Operator.TBC, Status.PARAM_INVALID, words_of(error))
    return _phase_one(request, slots)


def aclnnConvolutionBackward(workspace: object, workspaceSize: int, executor: object, stream: object) -> Status:
    """Phase 2: computes into the outputs given to phase 1."""
    return run_phase_two(Operator.CONV.function, workspace, workspaceSize, executor)


def aclnnConvTbcBackward(workspace: object, workspaceSize: int, executor: object, stream: object) -> Status:
    """Phase 2: computes into the outputs given to phase 1."""
    return run_phase_two(Operator.TBC.function, workspace, workspaceSize, executor)


def _phase_one(request: Request, slots: dict[str, Slot | None]) -> PhaseOne:
    decision = decide(request)
    verdict = decision.verdict
    if decision.plan is None:
        text = f"{verdict.vendor_message} [rule {verdict.rule_id}; reproduce: {verdict.line}]"
        return _refused(request.operator, verdict.status, text)
    plan = decision.plan
    written = [slots[OUTPUTS[step.result]] for step in plan.steps]
    strided = tuple(STRIDED_OUTPUT.en.format(name=s.name) for s in written if s and not s.array().flags.c_contiguous)
    if strided:
        plan = replace(plan, advice=(*plan.advice, *strided))
    given = {name: s for name, s in slots.items() if s is not None}
    return plan.workspace_bytes, aclOpExecutor(request.operator.function, plan, given), Status.SUCCESS


def _refused(operator: Operator, status: Status, text: str) -> PhaseOne:
    return 0, None, fail(status, f"{operator.function}: {text}")


def _ints(name: str, values: object) -> tuple[int, ...] | None:
    return None if values is None else tuple(number(name, v) for v in arguments.listed(name, values))
