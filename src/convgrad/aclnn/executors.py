"""What lies between the two phases: a checked call with its plan, ready to run on the data of that moment."""

from __future__ import annotations

import threading

import numpy as np

from convgrad import engines
from convgrad.aclnn.error_text import fail, words_of
from convgrad.aclnn.tensors import Slot, Unreadable, aclTensor, point_tensor
from convgrad.core import arguments
from convgrad.core.arrays import AnyArray, may_overlap_itself
from convgrad.core.plan import Plan, Result
from convgrad.core.status import ConvGradError, Status

OUTPUTS = {Result.GRAD_INPUT: "gradInput", Result.GRAD_WEIGHT: "gradWeight", Result.GRAD_BIAS: "gradBias"}


class aclOpExecutor:
    """One checked call. It runs once, unless made repeatable."""

    def __init__(self, operator: str, plan: Plan, slots: dict[str, Slot]) -> None:
        self.operator = operator
        self.plan = plan
        self.slots = slots
        self.repeatable = False
        self._alive = True
        self._lock = threading.Lock()

    def take(self, keep: bool) -> bool:
        """Whether the executor may still run; it is spent by this, unless kept."""
        with self._lock:
            alive = self._alive
            self._alive = alive and keep
            return alive

    def run(self) -> None:
        """Computes into the outputs, whatever their strides; one that overlaps anything is written at the end."""
        operands = [_readable(self.slots[name].array()) for name in ("gradOutput", "input", "weight")]
        results: dict[Result, AnyArray] = {}
        outputs: list[tuple[AnyArray, AnyArray]] = []
        for step in self.plan.steps:
            output = self.slots[OUTPUTS[step.result]].array()
            if not output.flags.writeable:  # pointed to other memory since phase 1
                raise ValueError(f"{OUTPUTS[step.result]} cannot be written: its memory is read-only")
            direct = _is_plain(output) and not _overlaps(output, [*operands, *(target for target, _ in outputs)])
            results[step.result] = output if direct else np.empty(output.shape, output.dtype.newbyteorder("="))
            outputs.append((output, results[step.result]))
        grad_output, input_, weight = operands
        fine, coarse = (grad_output, input_) if self.plan.problem.transposed else (input_, grad_output)
        engines.run(self.plan, fine, coarse, weight, results)
        for target, computed in outputs:
            if computed is not target:
                target[...] = computed


def _is_plain(array: AnyArray) -> bool:
    """Aligned and in the machine's byte order, as the engines read and write."""
    return array.flags.aligned and array.dtype.isnative


def _readable(array: AnyArray) -> AnyArray:
    return array if _is_plain(array) else array.astype(array.dtype.newbyteorder("="))


def _overlaps(output: AnyArray, others: list[AnyArray]) -> bool:
    if may_overlap_itself(output.shape, output.strides, output.itemsize):
        return True
    return any(np.may_share_memory(output, other) for other in others)


def run_phase_two(operator: str, workspace: object, size: object, executor: object) -> Status:
    """Phase 2 of every operator: the checks in the vendor's order, then the run."""
    if executor is None:
        return fail(Status.PARAM_NULLPTR, f"{operator}: executor must be given; got null")
    if not isinstance(executor, aclOpExecutor):
        return fail(Status.RUNTIME_ERROR, f"{operator}: a {type(executor).__name__} is no executor")
    try:
        bytes_given = arguments.number("workspaceSize", size)
    except ConvGradError as error:
        return fail(Status.PARAM_INVALID, f"{operator}: {error.message}")
    without_workspace = bytes_given > 0 and workspace is None
    if not executor.take(keep=executor.repeatable and not without_workspace):
        return fail(Status.RUNTIME_ERROR, f"{operator}: the executor has run or was destroyed; call phase 1 again")
    if without_workspace:
        return fail(Status.PARAM_NULLPTR, f"{operator}: workspace must be given when its size is {size}; got null")
    if executor.operator != operator:
        return fail(Status.RUNTIME_ERROR, f"{operator}: the executor belongs to {executor.operator}")
    try:
        executor.run()
    except (MemoryError, RuntimeError, ValueError) as error:
        return fail(Status.RUNTIME_ERROR, f"{operator}: {words_of(error)}")
    except AssertionError as error:
        return fail(Status.INNER, f"{operator}: a mistake of this library: {error}")
    return Status.SUCCESS


def aclSetAclOpExecutorRepeatable(executor: aclOpExecutor | None) -> Status:
    """Lets the executor run any number of times; it then lives until `aclDestroyAclOpExecutor`."""
    if executor is None:
        return fail(Status.INNER_NULLPTR, "aclSetAclOpExecutorRepeatable: executor must be given; got null")
    if not isinstance(executor, aclOpExecutor) or not executor.take(keep=True):
        return fail(Status.INNER, "aclSetAclOpExecutorRepeatable: the executor has run or was destroyed")
    executor.repeatable = True
    return Status.SUCCESS


def aclDestroyAclOpExecutor(executor: aclOpExecutor | None) -> Status:
    """Ends an executor."""
    if executor is None:
        return fail(Status.INNER_NULLPTR, "aclDestroyAclOpExecutor: executor must be given; got null")
    if not isinstance(executor, aclOpExecutor) or not executor.take(keep=False):
        return fail(Status.INNER, "aclDestroyAclOpExecutor: the executor has run or was destroyed")
    return Status.SUCCESS


def aclSetTensorAddr(executor: aclOpExecutor | None, index: int, tensor: object, addr: object) -> Status:
    """Points a tensor of the call to other memory; the tensor itself says which, the index means nothing here."""
    if executor is None or tensor is None or addr is None:
        return fail(Status.INNER_NULLPTR, "aclSetTensorAddr: executor, tensor and addr must be given; got null")
    if not isinstance(executor, aclOpExecutor) or not executor.take(keep=True):
        return fail(Status.INNER, "aclSetTensorAddr: the executor has run or was destroyed")
    try:
        if isinstance(tensor, aclTensor):
            point_tensor(tensor, addr)
            return Status.SUCCESS
        matching = [slot for slot in executor.slots.values() if slot.passed is tensor]
        if not matching:
            return fail(Status.PARAM_INVALID, "aclSetTensorAddr: the tensor is none of the executor's")
        for slot in matching:
            slot.point_to(addr)
    except (Unreadable, TypeError) as error:
        return fail(Status.PARAM_INVALID, f"aclSetTensorAddr: {words_of(error)}")
    return Status.SUCCESS


def aclSetInputTensorAddr(executor: aclOpExecutor | None, index: int, tensor: object, addr: object) -> Status:
    """`aclSetTensorAddr` for an input."""
    return aclSetTensorAddr(executor, index, tensor, addr)


def aclSetOutputTensorAddr(executor: aclOpExecutor | None, index: int, tensor: object, addr: object) -> Status:
    """`aclSetTensorAddr` for an output."""
    return aclSetTensorAddr(executor, index, tensor, addr)
