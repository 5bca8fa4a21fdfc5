"""`convgrad kernel FILE.cpp --line LINE`: compile an author's kernel, run it on every core, check it.

The program runs apart; its trace is replayed by the Python model, which gives coverage, traffic, golden tiles and the
picture of the author's own walks.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convgrad.ascendc.device.conv_type import DTYPE_NAMES
from convgrad.ascendc.device.errors import TileKernelError
from convgrad.ascendc.from_line import Gradient
from convgrad.ascendc.line_runs import TileRun, plan_line
from convgrad.ascendc.replay import Replay, Told, last_call, read_trace
from convgrad.ascendc.shared.traffic import TrafficReport
from convgrad.cli.kernel_memory import compared, golden_tiles, memory
from convgrad.cli.kernel_program import Compiled, Ran, compile_kernel, run_program
from convgrad.cli.kernel_source import RESULTS, arguments_of, find_entry, gradient_of, program_text
from convgrad.cli.tile import traffic_dict, traffic_lines
from convgrad.text import input_files
from convgrad.text.files import output_file, write_text
from convgrad.text.terminal import ExitCode, UsageError, counted, print_json, printable, tell, tell_under

DESCRIPTION = """Compile an Ascend C kernel, run it on simulated cores, and check it against the gradient.

The kernel is compiled unchanged with g++ or clang++, launched on small integers, and its result compared with what the
functional API gives: an equality. What it did wrong is told with file and line. A compile error, a crash and a loop
without end are results too."""
MOST_SOURCE = 2**24
"""Bytes of a source file."""
MOST_REPLAYED = 20_000
"""Lines of the trace of a kernel that died which are looked at for what went wrong before."""


def add_command(subparsers: Any) -> None:
    """Add the verb `kernel`."""
    parser = subparsers.add_parser("kernel", help="compile a C++ kernel, run and check it", description=DESCRIPTION)
    parser.add_argument("file", type=Path, help="the kernel's source")
    parser.add_argument("--line", required=True, help='a problem line, e.g. "conv n1 c16>32 i4x12x12 k3x3x3 p1 fp16"')
    parser.add_argument("--entry", metavar="NAME", help="the __global__ function, or an instance: 'kernel<half>'")
    parser.add_argument("--args", metavar="LIST", help="what its arguments are: weight,gradOutput,gradInput,tiling")
    parser.add_argument("--cores", type=int, default=24, help="blocks to launch (24)")
    parser.add_argument("--gradient", choices=[one.value for one in Gradient], help="when the kernel does not tell")
    parser.add_argument("--tiling", metavar="FILE", help="a record of your own: raw bytes, or JSON")
    parser.add_argument("--tiling-key", type=int, metavar="N", help="what TILING_KEY_IS asks for")
    parser.add_argument("--workspace", type=int, default=1 << 25, metavar="BYTES", help="size of a workspace (32 MiB)")
    parser.add_argument("--define", action="append", default=[], metavar="A=B", help="a macro; may come often")
    parser.add_argument("--include", action="append", default=[], metavar="DIR", help="headers; may come often")
    parser.add_argument("--cxx", metavar="COMPILER", help="the compiler (CXX, else g++)")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="when a run has no end (60)")
    parser.add_argument("--svg", metavar="FILE", help="write a picture of the kernel's walks")
    parser.add_argument("--plane", type=int, help="the gradInput plane, or window plane, the picture shows")
    parser.add_argument("--golden", metavar="DIR", help="write the expected values of every tile the kernel walks")
    parser.add_argument("--trace", metavar="FILE", help="write every call as a line of JSON")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that came of a kernel; what was not reached is None."""

    planned: TileRun
    call: str
    compiled: Compiled
    ran: Ran | None = None
    where: str = ""
    replay: Replay | None = None
    found: tuple[Told, ...] = ()
    checked: dict[str, Any] | None = None
    cause: str = ""

    @property
    def ok(self) -> bool:
        """Compiled, ended, nothing found, the gradient right."""
        fatal = [one for one in self.found if not one.rule.startswith("note.")]
        return bool(self.checked and self.checked["equal"] and self.ran and not self.ran.died and not fatal)


def run(arguments: argparse.Namespace) -> int:
    """The verb."""
    if not 1 <= arguments.cores <= 4096:
        raise UsageError(f"--cores must be 1...4096, got {arguments.cores}")
    if not arguments.timeout > 0 or not 0 <= arguments.workspace < 2**63:
        raise UsageError("--timeout must be above 0, --workspace 0 or more and below 2^63")
    text = input_files.read_bytes(arguments.file, MOST_SOURCE).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    told = None if arguments.args is None else [one.strip() for one in arguments.args.split(",") if one.strip()]
    entry = find_entry(text, arguments.entry, told)
    chosen = arguments.gradient or gradient_of(text, entry, told)
    try:
        planned = plan_line(arguments.line, arguments.cores, None if chosen is None else Gradient(chosen))
    except ValueError as error:
        if type(error) is ValueError:
            raise UsageError(str(error)) from error
        raise
    try:
        roles = arguments_of(entry, told, planned.model.gradient)
        with tempfile.TemporaryDirectory(prefix="convgrad-kernel-") as scratch:
            program = program_text(str(arguments.file), text, entry, roles, arguments.tiling_key)
            result = outcome(arguments, planned, program, f"{entry.name}({', '.join(roles)})", roles, Path(scratch))
            return answer(arguments, result, Path(scratch))
    except TileKernelError as error:
        raise error.with_line(planned.problem.line) from error


def outcome(
    arguments: argparse.Namespace, planned: TileRun, program: str, call: str, roles: Sequence[str], scratch: Path
) -> Result:
    """Compile, run, replay, compare."""
    contents = memory(planned, roles, arguments.workspace, arguments.tiling)
    flags = [*(f"-D{one}" for one in arguments.define), *(f"-I{Path(one).resolve()}" for one in arguments.include)]
    compiled = compile_kernel(program, arguments.file, scratch, flags, arguments.cxx)
    if compiled.program is None:
        return Result(planned, call, compiled)
    paths = {role: scratch / f"{role}.bin" for role in contents}
    for role, content in contents.items():
        paths[role].write_bytes(content)
    trace = scratch / "trace.jsonl"
    trace.touch()
    product = planned.problem.line.partition(" on=")[2].partition(" ")[0]
    environment = {"CONVGRAD_TILE_TRACE": str(trace), "CONVGRAD_TILE": "ignore",
                   **({"CONVGRAD_PRODUCT": product} if product in ("A2", "A3") else {})}  # fmt: skip
    ran = run_program(compiled.program, [str(arguments.cores), *(str(path) for path in paths.values())], environment,
                      arguments.timeout, scratch)  # fmt: skip
    launches = read_trace(trace, MOST_REPLAYED if ran.died else None)
    if not launches:
        return Result(planned, call, compiled, ran)
    replay = Replay(launches[0], contents)
    if ran.died:  # the program could not tell what it had found
        told = tuple(one for one in replay.findings if not one.rule.startswith(("coverage.", "reduction.")))
        return Result(planned, call, compiled, ran, last_call(trace), replay, told)
    found = (*launches[0].findings, *(one for one in replay.findings if one.rule.startswith("reduction.")))
    name = RESULTS[planned.model.gradient]
    if name not in paths:
        return Result(planned, call, compiled, ran, "", replay, found)
    checked, cause = compared(planned, replay, paths[name].read_bytes())
    return Result(planned, call, compiled, ran, "", replay, found, checked, cause)


# ---- the answer


def answer(arguments: argparse.Namespace, result: Result, scratch: Path) -> int:
    """Write the files asked for, and print."""
    traffic = write_files(arguments, result, scratch)
    if arguments.json:
        print_json(as_dict(arguments, result, traffic))
    else:
        print_result(arguments, result, traffic)
    return ExitCode.PASS if result.ok else ExitCode.PRECISION_FAIL


def write_files(arguments: argparse.Namespace, result: Result, scratch: Path) -> TrafficReport | None:
    """Trace, picture and golden tiles; what cannot be made of a kernel's walks is said and left out."""
    if arguments.trace and (scratch / "trace.jsonl").exists():
        with output_file(arguments.trace) as out, (scratch / "trace.jsonl").open("rb") as trace:
            shutil.copyfileobj(trace, out)
        tell(f"wrote {arguments.trace}", file=sys.stderr)
    replay, planned, cores = result.replay, result.planned, arguments.cores
    if replay is None or replay.record is None or not replay.walks:
        return None
    blocks, traffic = replay.blocks(), None
    try:
        traffic = planned.model.traffic(replay.record, blocks, cores)
        if arguments.svg:
            title = f"{arguments.file.name}: {planned.problem.line}"
            draw = planned.model.picture
            write_text(arguments.svg, draw(replay.record, blocks, cores, title=title, plane=arguments.plane))
            tell(f"wrote {arguments.svg}", file=sys.stderr)
        if arguments.golden:
            written = golden_tiles(planned, replay).write(arguments.golden)
            tell(f"wrote {written} tiles to {arguments.golden}", file=sys.stderr)
    except TileKernelError as error:
        if error.rule == "picture.plane":
            raise
        if arguments.svg or arguments.golden:
            tell(f"convgrad: the walks of this kernel cannot be drawn or followed: {error.message}", file=sys.stderr)
    return traffic


def as_dict(arguments: argparse.Namespace, result: Result, traffic: TrafficReport | None) -> dict[str, Any]:
    """The answer for JSON."""
    compiled, ran, replay = result.compiled, result.ran, result.replay
    found = [
        {"rule": one.rule, "text": one.text, "core": one.core, "count": one.count, "place": one.place}
        for one in result.found
    ]  # fmt: skip
    return {
        "line": result.planned.problem.line, "kernel": result.planned.name, "file": str(arguments.file),
        "call": result.call, "cores": arguments.cores, "dtype": DTYPE_NAMES[result.planned.problem.dtype],
        "ok": result.ok,
        "compile": {"ok": compiled.program is not None, "compiler": compiled.compiler, "seconds": compiled.seconds,
                    "said": compiled.said},
        "run": None if ran is None else {"ended": not ran.died, "died": ran.died, "last_call": result.where,
                                         "seconds": ran.seconds, "output": ran.output},
        "findings": found,
        "coverage": [str(report).splitlines()[0] for report in replay.reports] if replay else [],
        "walks": len(replay.walks) if replay else 0,
        **({} if traffic is None else traffic_dict(traffic)),
        "check": result.checked, "cause": result.cause,
    }  # fmt: skip


def print_result(arguments: argparse.Namespace, result: Result, traffic: TrafficReport | None) -> None:
    """The answer as text."""
    compiled, ran, replay = result.compiled, result.ran, result.replay
    tell_under("kernel", f"{arguments.file}: {result.call}")
    tell_under("problem", f"{result.planned.name}  {result.planned.problem.line}  {counted(arguments.cores, 'core')}")
    if compiled.program is None:
        tell_under("compiled", f"not: {compiled.compiler} says", "red")
        print("\n".join(f"  {printable(line)}" for line in compiled.said.splitlines()))
        return
    tell_under("compiled", f"with {compiled.compiler}")
    for line in compiled.said.splitlines():
        print(f"  {printable(line)}")
    assert ran is not None
    if ran.died:
        tell_under("ran", f"{ran.died}; its last call: {result.where or 'none'}", "red")
    else:
        tell_under("ran", f"to its end, {counted(len(replay.walks) if replay else 0, 'walk')}")
        if arguments.tiling is None and any(one.rule.startswith("tiling.") for one in result.found):
            tell_under("", "it was given the documented record: --tiling FILE has a record of its own", "yellow")
        elif replay is None or not replay.walks:
            tell_under("", "it walks nothing: does it ask for a tiling key (--tiling-key)?", "yellow")
    for line in ran.output.splitlines()[:20]:
        print(f"  {printable(line)}")
    for report in replay.reports if replay and not ran.died else ():
        tell_under("coverage", "; ".join(str(report).split("\n  ")[0].splitlines()))
    for line in [] if traffic is None or ran.died else traffic_lines(traffic):
        tell_under(line[:10].strip(), line[10:].strip())
    for one in result.found:
        tell_under("found", str(one), "yellow" if one.rule.startswith("note.") else "red")
    print_check(result)


def print_check(result: Result) -> None:
    """The last line: is it the gradient, and is nothing wrong."""
    checked, name = result.checked, result.planned.result
    if checked is None:
        died = result.ran is not None and result.ran.died
        tell_under("check", "not run" if died else f"not run: the kernel has no argument for {name}", "red")
    elif checked["equal"]:
        words = f"{name} == what the functional API gives, all {checked['elements']} elements"
        tell_under("check", words if result.ok else f"{words}; but see what was found", "green" if result.ok else "red")
    else:
        wrong = f"{checked['wrong']} of {checked['elements']} elements of {name}"
        tell_under("check", f"{wrong} differ from what the functional API gives, first at {checked['first']}", "red")
        if result.cause:
            tell_under("cause", result.cause)
