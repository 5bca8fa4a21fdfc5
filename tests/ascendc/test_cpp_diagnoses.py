"""Every diagnosis of a C++ kernel: the rule, its words, file and line, exit code 1; a right kernel has none."""

from __future__ import annotations

import os
import subprocess

import pytest

from kernel_programs import KERNELS, has_chinese, program

WORDS = {
    "order.init_first": "SetWeight: ",
    "order.missing_setter": "Iterate: SetSingleShape, SetStartPosition, SetGradOutput, SetWeight must be called first",
    "order.no_tile": "GetTensorC: call Iterate first and take a tile only when it returned true",
    "order.end_mid_walk": "End: End comes after the walk; call Iterate until it returns false",
    "order.left_early": "End: a walk was left early",
    "shape.positive": "SetSingleShape: M, K and N must be above 0, got M 0, K 288, N 20",
    "shape.k_total": "SetSingleShape: K must be at most dk * hk * wk * cout1 * c0 = 288, got 576",
    "shape.m_total": "SetSingleShape: M must be at most hi * wi = 30, got 60",
    "shape.n_total": "SetSingleShape: N must be at most cin1 * c0 = 32, got 40",
    "start.plane": "SetStartPosition: din must be a gradInput plane, 0...1, got 2",
    "start.range": "SetStartPosition: hoStart must be a gradInput row less backpropPadUp, -1...4, got 6",
    "start.row": "SetStartPosition hoStart 2 does not belong to gradInput row 0: it must be",
    "pointer.row_start": "SetGradOutput offset 1 stands 1 elements inside a row",
    "pointer.cout_range": "the single shape has 2 cout blocks of gradOutput from 1 on, the tensor 2",
    "pointer.weight_block": "SetWeight offset 1 stands 1 elements inside a cin block",
    "pointer.cin_range": "the single shape has 2 cin blocks of weight from 1 on, the tensor 2",
    "pointer.plane_range": "the single shape has 30 positions of gradInput from 5 on, the tensor 30",
    "pointer.batch": "gradOutput stands in batch 0, gradInput in batch 1: use the same batch in both offsets",
    "pointer.cin_block": "weight stands at cin block 0, gradInput at 1: use the same first cin block in both offsets",
    "pointer.cout_block": "weight stands at cout block 0, gradOutput at 1: use the same first cout block in both",
    "pointer.top_pad": "SetInput offset 160 stands at row hoStart * strideH = 2: subtract the top pad: "
    "max(hoStart * strideH - padUp, 0) = 1",
    "pointer.front_pad": "SetInput offset 0 stands in plane dout * strideD + kd * dilationD = 0: subtract the front "
    "pad: dout * strideD - padFront + kd * dilationD = -1",
    "shape.planes": "SetSingleShape: a walk covers 1...2 gradInput planes, got 3",
    "pointer.moved": "GetTensorC offset moved from 0 to 16 in one walk",
    "tiling.positive": "baseM must be above 0, got baseM 0",
    "capacity.L0A": "the buffers in L0A must fit, got baseM 512 * baseK 144 * 2 bytes * 2 buffers = 294912 bytes",
    "capacity.L0B": "the buffers in L0B must fit",
    "capacity.L0C": "the buffers in L0C must fit",
    "capacity.L1": "the buffers in L1 must fit",
    "coverage.never_written": "elements that no tile writes; 1920 elements, first (n 0, c 0, d 1, h 0, w 0), flat 960",
    "coverage.twice": "elements that one core stores more than once",
    "coverage.two_cores": "elements that two cores store; use enAtomic when K is split",
    "coverage.zeroing": "initOutputFlag is 1 and gradInput was not zeroed",
    "coverage.add_unzeroed": "elements added to without having been zeroed",
    "coverage.zeroed_late": "elements zeroed after tiles were stored to them",
    "coverage.overwritten": "elements stored (enAtomic 0) over the sums already there: add them (enAtomic 1)",
    "gm.unknown": "SetGlobalBuffer: the address is not in memory from GmAlloc or aclrtMalloc",
    "gm.freed": "SetGlobalBuffer: the address is in a block that was freed",
    "gm.free": "GmFree: not the start of a block from GmAlloc",
    "gm.size": "lie beyond the 100 that SetGlobalBuffer was given of weight",
    "role.vector_store": "GetTensorC: on a vector core it waits for ever; call it on the cube core (ASCEND_IS_AIC)",
    "store.ncdhw": "gradInput is declared NCDHW: GetTensorC leaves raw tiles at GetBlockIdx() * baseM * baseN of its "
    "pointer; give it a workspace and store the tile with the vector core, or declare NDC1HWC0",
    "kernel.assert": '!is("kernel.assert"), "block %d", 0',
    "launch.blocks": "0 blocks: nothing runs",
    "launch.many": "at most 32 arguments, got 33",
    "launch.null": "the address is a null pointer",
}
RULES = {"launch.blocks": "launch.arguments", "launch.many": "launch.arguments", "launch.null": "launch.arguments"}


def run(mistake: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program with one mistake."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CONVGRAD_")}
    command = [str(program("diagnoses.cpp")), mistake]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**clean, **environment}
    )


@pytest.mark.parametrize("mistake", WORDS)
def test_every_diagnosis(mistake: str) -> None:
    """One line with rule and words, at a line of the kernel (what is missing, where tiles are stored); 1; Chinese.

    The object of a core that was stopped goes without End: that is not told beside it.
    """
    done, rule = run(mistake), RULES.get(mistake, mistake)
    told = [line for line in done.stderr.splitlines() if f"{rule}: " in line and WORDS[mistake] in line]
    assert len(told) == 1, done.stderr
    assert told[0].startswith(f"{KERNELS / 'diagnoses.cpp'}:"), told
    assert done.returncode == 1 and (rule == "kernel.assert" or has_chinese(told[0])), told
    assert "object.unended" not in done.stderr


def test_a_right_kernel_has_none() -> None:
    """Both kernels as they stand: nothing is told, exit code 0."""
    done = run("")
    assert (done.stderr, done.returncode) == ("", 0)


def test_products_without_the_objects() -> None:
    """CONVGRAD_PRODUCT other than A2 and A3 is a finding at Init; A3 is none."""
    done = run("", CONVGRAD_PRODUCT="950")
    assert "product.unsupported: core 0: Init: the object runs on Atlas A2 and A3 only" in done.stderr
    assert done.returncode == 1
    assert run("", CONVGRAD_PRODUCT="Ascend910_9391").returncode == 0
