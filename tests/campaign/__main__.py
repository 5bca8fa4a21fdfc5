"""`make campaign`: hostile input of every kind, for as long as one likes.

    python tests/campaign --minutes 120 --jobs 2      go on with the campaigns; what is done is remembered
    python tests/campaign --short                     each of them once, small: below five minutes
    python tests/campaign --again                     the chunks with findings once more
    python tests/campaign --report                    what was done so far
    python tests/campaign --page docs/reliability.md  the same into the page, between its marks
    python tests/campaign --chunk NAME NUMBER FILE    one chunk in this process: how a finding is made again

Exit status 1 when a finding is open.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import campaigns  # noqa: E402
import page  # noqa: E402
import running  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--state", type=Path, default=running.ROOT / "build/campaign/state.json")
    parser.add_argument("--only", default="", help="names of campaigns, with spaces; all of them by default")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--chunk", nargs=3, metavar=("NAME", "NUMBER", "FILE"))
    asked = parser.parse_args()
    if asked.chunk:
        running.work((asked.chunk[0], int(asked.chunk[1])), Path(asked.chunk[2]))
        return 0
    chosen = [campaigns.find(name) for name in asked.only.split()] or list(campaigns.CAMPAIGNS)

    def say(text: str) -> None:
        print(text, flush=True)

    if asked.short:
        found = []
        for campaign in chosen:
            if campaign.short:
                outcome = campaign.run(0, campaign.short)
                say(f"{campaign.name}: {outcome.cases} {campaign.counted}, {len(outcome.wrong)} findings")
                found += outcome.wrong
        print(*found, sep="\n")
        return 1 if found else 0
    state = running.State.load(asked.state)
    if asked.again:
        running.again(state, chosen, say)
    if asked.minutes:
        running.run(state, chosen, asked.minutes * 60, asked.jobs, say)
    if asked.page:
        page.put(asked.page, state)
    print(page.table(state))
    print(*state.findings(), sep="\n")
    return 1 if state.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
