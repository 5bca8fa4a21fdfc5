"""Photographs for the documents, taken in Chromium: `make pictures`.

    docs/images/report.png      the report of examples/cases/real_layers.txt with one case opened
    docs/images/notebook.png    an explanation and a tensor, as a notebook shows them
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

import convgrad
from convgrad.report import run

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
OPENED = 4
"""The case of the report that is shown with its details."""
REFUSED = "conv n1 c3>8 i9x9 k3x3 fp32 math=keep on=910"


def photograph(tab: Page, html: str, size: tuple[int, int], name: str, opened: int | None = None) -> None:
    """One page at one size."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "page.html"
        path.write_text(html, "utf-8")
        tab.set_viewport_size({"width": size[0], "height": size[1]})
        tab.goto(path.as_uri())
        if opened is not None:
            tab.locator("tr.case .n button").nth(opened).click()
        tab.screenshot(path=str(IMAGES / name))


def main() -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("pictures: no Chromium on this machine")
    tensor = convgrad.Tensor(np.arange(2 * 3 * 4 * 6).reshape(2, 3, 4, 6), "hifloat8", "NCHW")
    explained = convgrad.explain(convgrad.Request.parse(REFUSED))
    shown = "<br>".join(one._repr_html_() for one in (explained, tensor))
    report = run(ROOT / "examples/cases/real_layers.txt")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(color_scheme="light")
        photograph(tab, f'<!doctype html><meta charset="utf-8">{shown}', (860, 830), "notebook.png")
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "report.html"
            report.write_page(path)
            photograph(tab, path.read_text("utf-8"), (1240, 1560), "report.png", OPENED)
        browser.close()


if __name__ == "__main__":
    main()
