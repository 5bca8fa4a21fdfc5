"""The frame of a page: one file, readable without a network; its title, cards and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from convgrad.text.language import current, say
from convgrad.text.page_style import page_style

_SHELL = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
  <div><h1>{title}</h1><p class="sub">{subtitle}</p></div>
  <button id="theme" type="button" aria-label="switch between light and dark" title="light or dark">◐</button>
</header>
<main>
{body}
</main>
<script>
document.getElementById("theme").addEventListener("click", () => {{
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
}});
</script>
</body>
</html>
"""


def in_language(markup: str) -> str:
    """Fixed markup in the language chosen: what stands between tags, labels, titles, placeholders."""
    if current() == "en":
        return markup
    markup = markup.replace('<html lang="en">', '<html lang="zh-CN">')
    markup = re.sub(r">([^<>{}$]*[A-Za-z][^<>{}$]*)<", lambda found: f">{say(found[1])}<", markup)
    attribute = r'(aria-label|title|placeholder)="([^"{}$]+)"'
    return re.sub(attribute, lambda found: f'{found[1]}="{say(found[2])}"', markup)


def page(title: str, subtitle: str, body: Iterable[str]) -> str:
    """A whole page."""
    style = page_style()
    return in_language(_SHELL).format(
        title=escape(say(title)), subtitle=escape(say(subtitle)), style=style, body="\n".join(body)
    )


def card(title: str, remark: str, content: str) -> str:
    """A section of a page."""
    heading = f"<h2>{escape(say(title))} <small>{escape(say(remark))}</small></h2>"
    return f'<section class="card">{heading}<div class="scroll">{content}</div></section>'


def table(head: Sequence[str], rows: Iterable[str], numbers_from: int = 1 << 30) -> str:
    """Rows that are HTML already, under a head."""
    names = "".join(f"<th{' class=num' if i >= numbers_from else ''}>{escape(say(n))}</th>" for i, n in enumerate(head))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
