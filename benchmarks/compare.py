"""Print the ratios between two recorded runs, or the page about one.

    python benchmarks/compare.py before.jsonl after.jsonl
    python benchmarks/compare.py --page run.jsonl > docs/generated/benchmark.md
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def key(row: Row) -> tuple[str, str, str, bool, str]:
    return row["line"], row["dtype"], row["want"], row["channels_last"], row["isa"]


SHARES = {"float32_ratio": "float32 by hf32", "contiguous_ratio": "contiguous by channels last"}
"""Columns about our own times in the same rounds."""


def mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def compare(before: list[Row], after: list[Row]) -> None:
    """Each problem's speed-up, corrected by nothing: the shares of sgemm say how alike the two moments were."""
    old = {key(row): row for row in before}
    ratios = []
    print(f"{'problem':72} {'dtype':5} {'want':12} {'before':>9} {'after':>9} {'ratio':>6}  of sgemm")
    for row in after:
        was = old.get(key(row))
        if was is None:
            continue
        ratios.append(was["ms"] / row["ms"])
        print(f"{row['line']:72} {row['dtype']:5} {row['want']:12} {was['ms']:9.3f} {row['ms']:9.3f} {ratios[-1]:6.2f}"
              f"  {was['of_sgemm']:.2f} / {row['of_sgemm']:.2f}")
    if ratios:
        print(f"geometric mean {mean(ratios):.3f} over {len(ratios)} rows")


PAGE_HEAD = """\
<!-- Written by `make bench` from {source}; change nothing here. -->
# The recorded benchmark

How it is measured and what is promised: [performance](../performance.md). PyTorch {torch}, {threads} thread(s),
{clock} clock.

{isas}

## Paths

`print(plan)` names the path of each gradient.

{paths}

## Recorded run
"""


def page(run: list[Row], source: Path) -> str:
    from convgrad.engines import library

    names = library.path_names()[1:]
    conditions = [library.library().cg_path_condition(i + 1).decode() for i in range(len(names))]
    paths = "| path | taken for |\n|---|---|\n" + "\n".join(
        f"| {name} | {text} |" for name, text in zip(names, conditions, strict=True)
    )
    held = {row["isa"]: row.get("held") for row in run}
    theirs = {True: "held to the same", False: "with whatever it chooses"}
    isas = "\n".join(f"* Engine {isa}, PyTorch {theirs[limit is not None]}." for isa, limit in held.items())
    text = PAGE_HEAD.format(**{**run[0], "source": source.name, "paths": paths, "isas": isas})
    sections: dict[str, list[Row]] = {}
    for row in run:
        if row["batch"] == 1:
            name = f"{row['dtype']}{', channels last' * row['channels_last']}, {row['isa']}"
            sections.setdefault(name, []).append(row)
    for name, mine in sections.items():
        text += section(name, mine)
    scaled = [row for row in run if row["batch"] > 1]
    if scaled:
        text += (f"\n### {scaled[0]['batch']} times the batch\n\nAll gradients in {scaled[0]['dtype']}; the rate (work "
                 "by time) by that of the problem with its own batch, in the same rounds. Results go to arrays made "
                 "before: the system would zero large new ones and recycle small ones.\n\n"
                 "| problem | ms | GF/s | of sgemm | rate by rate at once the batch |\n|---|---|---|---|---|\n")
        for row in scaled:
            text += (f"| `{row['line']}` | {row['ms']:.3f} | {row['gflops']:.0f} | {row['of_sgemm']:.2f} "
                     f"| {row['batch_ratio']:.2f} |\n")
        shares = [row["batch_ratio"] for row in scaled]
        text += f"\nGeometric mean {mean(shares):.2f}, least {min(shares):.2f}.\n"
    checked = [row for row in run if "error" in row and not row["channels_last"] and row["isa"] == run[0]["isa"]]
    if checked:
        text += ("\n### Relative error against float64 (float32 operands)\n\n"
                 "| problem | grad_input, grad_weight, grad_bias | PyTorch |\n|---|---|---|\n")
        for row in checked:
            shown = [", ".join(f"{e:.1e}" for e in row[k]) for k in ("error", "pytorch_error")]
            text += f"| `{row['line']}` | {shown[0]} | {shown[1]} |\n"
    return text


def section(name: str, mine: list[Row]) -> str:
    """The table of one dtype and layout, and what it comes to."""
    rounds = " or ".join(str(n) for n in sorted({row["rounds"] for row in mine}))
    text = f"\n### {name}\n\n{rounds} round(s), {len({row['line'] for row in mine})} problems.\n\n"
    shares = {field: head for field, head in SHARES.items() if field in mine[0]}
    has_jax = any("jax_ms" in row for row in mine)
    jax = next((row["jax"] for row in mine if "jax_ms" in row), "")
    columns = ["problem", "want", "ms", "PyTorch ms", "ratio", "GF/s", "of sgemm"]
    columns += [*[f"JAX {jax} ms"] * has_jax, *shares.values()]
    text += f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    for row in mine:
        line = row["line"] if row["dtype"] in ("fp32", "hf32") else row["line"].replace("fp32", row["dtype"])
        cells = [f"`{line}`", row["want"], f"{row['ms']:.3f}", f"{row['pytorch_ms']:.3f}", f"{row['ratio']:.2f}",
                 f"{row['gflops']:.0f}", f"{row['of_sgemm']:.2f}"]
        if has_jax:
            cells.append(f"{row['jax_ms']:.3f}" if "jax_ms" in row else "")
        cells += [f"{row[field]:.2f}" for field in shares]
        text += f"| {' | '.join(cells)} |\n"
    for want in dict.fromkeys(row["want"] for row in mine):
        ratios = [row["ratio"] for row in mine if row["want"] == want]
        text += f"\n{want}: geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}."
        beside_jax = [row["jax_ms"] / row["ms"] for row in mine if row["want"] == want and "jax_ms" in row]
        if beside_jax:
            text += f" JAX's time by ours: geometric mean {mean(beside_jax):.2f}, least {min(beside_jax):.2f}."
        text += "\n"
    for field, head in shares.items():
        values = [row[field] for row in mine]
        text += f"\n{head}: geometric mean {mean(values):.3f}, least {min(values):.2f}.\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("runs", nargs="+", type=Path)
    options = parser.parse_args()
    if options.page:
        print(page(rows(options.runs[0]), options.runs[0]), end="")
    elif len(options.runs) == 2:
        compare(rows(options.runs[0]), rows(options.runs[1]))
    else:
        parser.error("two runs to compare, or --page and one")


if __name__ == "__main__":
    main()
