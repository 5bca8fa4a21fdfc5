"""The look that all HTML pages share."""

from __future__ import annotations

from pathlib import Path


def page_style() -> str:
    """The style sheet, to be put into a page: pages are single files that need no network."""
    return (Path(__file__).parent / "page.css").read_text("utf-8")
