"""The counts of the campaigns as a table, and into a page between two marks."""

from __future__ import annotations

import re
from pathlib import Path

import campaigns
from running import State

BEGIN, END = "<!-- counts of the last full campaign -->", "<!-- end of counts -->"


def table(state: State) -> str:
    """One row per campaign: what it does, how many cases, how long, what it found."""
    rows = ["| campaign | what was tried | cases | goal | minutes of a core | open findings |",
            "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for campaign in campaigns.CAMPAIGNS:
        done = state.progress.get(campaign.name)
        if done is not None:
            counted = f"{done.cases:,} {campaign.counted}"
            found = sum(map(len, done.open.values()))
            told = (f"`{campaign.name}`", campaign.what, counted, f"{campaign.goal:,}")
            rows.append(f"| {' | '.join(told)} | {done.seconds / 60:.0f} | {found} |")
    hours = sum(p.seconds for p in state.progress.values()) / 3600
    settled = sum(p.settled for p in state.progress.values())
    clock = state.seconds / 3600
    tail = f"{hours:.1f} hours of one core in all, in {clock:.1f} hours on the clock beside other work, on commits "
    tail += ", ".join(state.commits) or "none"
    if settled:
        tail += f"; findings of {settled} chunks were mended on the way and the chunks run again"
    return "\n".join([*rows, "", tail + ".", *_open_findings(state)])


def _open_findings(state: State) -> list[str]:
    """The first of every chunk, shortened."""
    found = [
        f"- `{name}` chunk {chunk}: {_without_directories(texts[0])[:200]}"
        for name, p in sorted(state.progress.items()) for chunk, texts in p.open.items()
    ]  # fmt: skip
    return ["", "Open:", "", *found] if found else []


def _without_directories(text: str) -> str:
    """On one line, and files named from the root of the project."""
    return re.sub(r"/[^\s\"]*/(tests|src|native)/", r"\1/", " ".join(text.split()))


def put(path: Path, state: State) -> None:
    """Replaces what is between the marks."""
    text = path.read_text("utf-8")
    head, rest = text.split(BEGIN)
    path.write_text(f"{head}{BEGIN}\n{table(state)}\n{END}{rest.split(END)[1]}", "utf-8")
