"""Time limits that do not run while everything stands still.

A limit is for what never ends. On the clock it would also end what was stopped with everything around it (SIGSTOP, a
laptop that slept) and is fine. So seconds are counted in short waits: a stop is one of them, however long it was.
"""

from __future__ import annotations

import subprocess
import time

TICK = 0.5


class Waited:
    """How long somebody who looks every now and then has waited: no look counts for more than a tick."""

    def __init__(self) -> None:
        self._last, self._seconds = time.monotonic(), 0.0

    def seconds(self) -> float:
        now = time.monotonic()
        self._seconds += min(now - self._last, TICK)
        self._last = now
        return self._seconds


def finish(process: subprocess.Popen[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """What a process answers; TimeoutExpired, and its end, after so many seconds.

    It reads from a file, if at all: communicate() writes no more to a pipe once it was called and timed out.
    """
    waited = Waited()
    while True:
        try:
            out, err = process.communicate(timeout=TICK)
            return subprocess.CompletedProcess(process.args, process.returncode, out, err)
        except subprocess.TimeoutExpired:
            if waited.seconds() > seconds:
                process.kill()
                out, err = process.communicate()
                raise subprocess.TimeoutExpired(process.args, seconds, out, err) from None
        except BaseException:
            process.kill()
            process.wait()
            raise
