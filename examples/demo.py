"""The main job on real layers: contract, gradients, precision and time of each, as a table and as one HTML page.

    python examples/demo.py [report.html]
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import convgrad
from convgrad.cli.command_line import main as convgrad_command
from convgrad.text.terminal import ExitCode

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases" / "real_layers.txt"


def main() -> int:
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "out" / "report.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    info = convgrad.engine_info()
    print(f"convgrad {convgrad.__version__}: {info.engine} engine, {info.isa}, {info.threads} threads", flush=True)
    words = ["run", str(CASES), "--standard", "mixed", "--html", str(report)]
    if importlib.util.find_spec("torch"):
        words.append("--pytorch")
    code = convgrad_command(words)
    print(f"Open {report.resolve().as_uri()} in a browser.")
    # One layer is there to show a refusal, with its reason and a way out in the report.
    return 0 if code == ExitCode.REFUSED else code


if __name__ == "__main__":
    sys.exit(main())
