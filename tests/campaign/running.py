"""Running campaigns chunk by chunk, each in a process of its own, and remembering what was done.

The campaign that is farthest from its goal gets the next chunk. The state is a JSON file, written whole after every
chunk: a run that is stopped, however it is, goes on with chunks that were never begun. A chunk that dies or takes too
long is a finding like any other.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import campaigns
from campaigns import Campaign
from patience import Waited

ROOT = Path(__file__).resolve().parents[2]
LONGEST_CHUNK = 3600.0
"""Seconds after which a chunk hangs: a minute of one core, that it may have to share with others."""


@dataclass
class Progress:
    """What one campaign has done so far."""

    begun: int = 0
    """Chunks are numbered from 0: this is the next one."""
    chunks: int = 0
    cases: int = 0
    seconds: float = 0.0
    """Of one core."""
    open: dict[str, list[str]] = field(default_factory=dict)
    """Findings by the chunk that made them."""
    settled: int = 0
    """Chunks with findings that were run again without one."""


@dataclass
class State:
    """All campaigns, and which commits they ran on."""

    path: Path
    progress: dict[str, Progress] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """On the clock, over all runs."""

    @staticmethod
    def load(path: Path) -> State:
        if not path.exists():
            return State(path)
        read = json.loads(path.read_text("utf-8"))
        progress = {name: Progress(**fields) for name, fields in read["progress"].items()}
        return State(path, progress, read["commits"], read["seconds"])

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "commits": self.commits, "seconds": round(self.seconds, 1),
            "progress": {name: vars(p) for name, p in sorted(self.progress.items())},
        }  # fmt: skip
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        os.replace(part, self.path)

    def of(self, name: str) -> Progress:
        return self.progress.setdefault(name, Progress())

    def findings(self) -> list[str]:
        return [f"{name}, chunk {chunk}: {text}" for name, p in sorted(self.progress.items())
                for chunk, texts in p.open.items() for text in texts]  # fmt: skip


@dataclass
class Running:
    """A chunk at work."""

    campaign: Campaign
    chunk: int
    process: subprocess.Popen[bytes]
    result: Path
    log: Path
    waited: Waited


def commit() -> str:
    """The commit at work, with a plus where files differ from it."""
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")


def start(campaign: Campaign, chunk: int, directory: Path) -> Running:
    result, log = (directory / f"{campaign.name}-{chunk}.{kind}" for kind in ("json", "log"))
    words = [sys.executable, str(Path(__file__).parent), "--chunk", campaign.name, str(chunk), str(result)]
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT)
    return Running(campaign, chunk, process, result, log, Waited())


def stop(running: Running) -> None:
    """The chunk and everything it started."""
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait()


def finished(running: Running, longest: float = LONGEST_CHUNK) -> dict[str, Any] | None:
    """What came of a chunk; None while it runs."""
    code = running.process.poll()
    if code is None and running.waited.seconds() < longest:
        return None
    stop(running)
    if code == 0 and running.result.exists():
        return dict(json.loads(running.result.read_text("utf-8")))
    words = running.log.read_text("utf-8", "replace")[-3000:]
    why = f"hung for {longest:.0f} seconds" if code is None else f"ended with code {code}"
    return {"cases": 0, "wrong": [f"the chunk {why}: {words}"], "seconds": 0.0}


def end_with(parent: int, every: float = 1.0) -> None:
    """Ends this process and everything it started when its parent is gone."""
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def work(chunk: tuple[str, int], result: Path) -> None:
    """Runs one chunk in this process and writes what came of it."""
    if os.getpgrp() == os.getpid():  # started by a run, not by hand
        end_with(os.getppid())
    campaign = campaigns.find(chunk[0])
    outcome = campaign.run(chunk[1], campaign.chunk)
    found = {"cases": outcome.cases, "wrong": outcome.wrong, "seconds": core_seconds()}
    result.write_text(json.dumps(found), "utf-8")


def core_seconds() -> float:
    """What this process and those it waited for have had of the processors: waiting and being stopped do not count."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def neediest(state: State, chosen: Sequence[Campaign], busy: Sequence[Running] = ()) -> Campaign:
    """The campaign farthest from its goal, chunks at work counted as if they were done."""
    def share(campaign: Campaign) -> float:
        done, at_work = state.of(campaign.name), sum(r.campaign is campaign for r in busy)
        per_chunk = done.cases / done.chunks if done.chunks else campaign.chunk
        return (done.cases + at_work * per_chunk + done.chunks) / campaign.goal  # a chunk without cases counts as one

    return min(chosen, key=share)


def run(state: State, chosen: Sequence[Campaign], seconds: float, jobs: int, say: Callable[[str], None]) -> None:
    """Chunk after chunk for so many seconds; what is unfinished then is stopped and not counted."""
    begun, before = time.monotonic(), state.seconds
    busy: list[Running] = []
    if (here := commit()) not in state.commits:
        state.commits.append(here)
    with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
        try:
            while time.monotonic() - begun < seconds:
                while len(busy) < jobs:
                    campaign = neediest(state, chosen, busy)
                    busy.append(start(campaign, state.of(campaign.name).begun, Path(scratch)))
                    state.of(campaign.name).begun += 1
                time.sleep(0.05)
                for running in list(busy):
                    found = finished(running)
                    if found is None:
                        continue
                    busy.remove(running)
                    record(state, running, found)
                    state.seconds = before + time.monotonic() - begun
                    state.save()
                    wrong = f", {len(found['wrong'])} FINDINGS" if found["wrong"] else ""
                    say(f"{running.campaign.name} {running.chunk}: {found['cases']} {running.campaign.counted}{wrong}")
        finally:
            for running in busy:
                stop(running)
    state.seconds = before + time.monotonic() - begun
    state.save()


def record(state: State, running: Running, found: dict[str, Any]) -> None:
    done = state.of(running.campaign.name)
    done.chunks += 1
    done.cases += found["cases"]
    done.seconds = round(done.seconds + found["seconds"], 1)
    if found["wrong"]:
        done.open[str(running.chunk)] = [text[-3000:] for text in found["wrong"][:20]]


def again(state: State, chosen: Sequence[Campaign], say: Callable[[str], None]) -> None:
    """Runs every chunk with findings once more: one that has none now is settled."""
    if (here := commit()) not in state.commits:
        state.commits.append(here)
    with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
        for campaign in chosen:
            name, done = campaign.name, state.of(campaign.name)
            for chunk in list(done.open):
                running = start(campaign, int(chunk), Path(scratch))
                while (found := finished(running)) is None:
                    time.sleep(0.05)
                if found["wrong"]:
                    done.open[chunk] = [text[-3000:] for text in found["wrong"][:20]]
                else:
                    del done.open[chunk]
                    done.settled += 1
                state.save()
                say(f"{name} {chunk}: {'still wrong' if found['wrong'] else 'settled'}")
