"""Child processes of the referees: a stack may crash or hang, and environment variables count when it is loaded.

    python -m convgrad.lab.referee.children      a job as JSON on standard input; the answer is the last line of output
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = "convgrad-referee-answer "
PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, and what it answered before that."""

    answer: Any
    """None where it did not get so far; an exit code alone says nothing."""
    how: str
    """done, crash, hang, refused."""
    told: str


def ask(job: Mapping[str, Any], environment: Mapping[str, str], seconds: float) -> Ended:
    """Runs a job in a process of its own, for so long at most."""
    command = [sys.executable, "-m", "convgrad.lab.referee.children"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    begun, text = time.monotonic(), json.dumps(dict(job))
    while True:
        try:
            out, err = child.communicate(text, timeout=seconds)
            break
        except subprocess.TimeoutExpired:
            # On a machine with other work a process waits for its turn: it hangs if it has had the time and not ended,
            # or if even ten times as long was not enough.
            waited = time.monotonic() - begun
            if _processor_seconds(child.pid) < seconds and waited < PATIENCE * seconds:
                text = ""
                continue
            child.kill()
            child.communicate()
            return Ended(None, "hang", f"no answer within {waited:.0f} s")
    answer = next((json.loads(s[len(_MARK):]) for s in reversed(out.splitlines()) if s.startswith(_MARK)), None)
    last = err.strip().splitlines()[-1] if err.strip() else ""
    if child.returncode < 0:
        return Ended(answer, "crash", signal.Signals(-child.returncode).name)
    if answer is None:
        return Ended(None, "refused" if child.returncode == 1 else "crash", last or f"exit code {child.returncode}")
    return Ended(answer, "done", last)


def _processor_seconds(pid: int) -> float:
    """What a process has computed so far; endless where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return math.inf


def isa_limits(stack: str) -> dict[str, dict[str, str]]:
    """The instruction sets a stack can be held to on this machine, by the environment that does it."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text("utf-8").partition("flags")[2].partition("\n")[0].split())
    except OSError:
        flags = set()
    if stack == "convgrad":
        from convgrad.engines import library

        sets = ("avx2", "avx512", "avx512bf16")
        here = library.isa() if library.available() else ""
        return {isa: {"CONVGRAD_ISA": isa} for isa in sets[: sets.index(here)]} if here in sets else {}
    known = {"avx2": ("avx2", "AVX2", "avx2"), "avx512": ("avx512dq", "AVX512_CORE", "avx512")}
    return {
        name: {"ONEDNN_MAX_CPU_ISA": limit, "ATEN_CPU_CAPABILITY": capability}
        for name, (flag, limit, capability) in known.items() if flag in flags
    }  # fmt: skip


def main() -> int:
    from convgrad.lab.referee import audit, invariance

    job = json.loads(sys.stdin.read())
    try:
        answer = {"audit": audit.work, "invariance": invariance.work}[job["kind"]](job)
    except Exception as error:  # said by the stack itself: no crash
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return 1
    print(_MARK + json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
