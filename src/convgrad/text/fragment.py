"""A piece of a page, as notebooks show it: the look of the pages, bound to the piece so that nothing around it changes.

Browsers that do not know `@scope` yet, and notebooks that are not trusted, show the same piece plainly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from convgrad.text.page_style import page_style

_NAME = "convgrad-shown"
_MEDIA = re.compile(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_RULE = re.compile(r"[^{}]+\{[^{}]*\}")
_SELECTORS = re.compile(r"[^{}@]+\{(?=[^{}]*\})")
_FIRM = ":not(#_)"
"""Weighs as much as an id: notebooks align, stripe and colour every table inside of them by classes."""
_DARK_SWITCH = ':is([data-jp-theme-light="false"], .vscode-dark, [theme="dark"])'
"""Notebooks with a switch of their own between light and dark: JupyterLab, VS Code, Colab."""
_FRAME = """
:scope { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); padding: 14px 16px;
  border: 1px solid var(--line); border-radius: 14px; width: fit-content; max-width: 100%; text-align: left; }
p { margin: 0 0 8px; } code, pre { color: inherit; }
code { background: none; overflow-wrap: anywhere; padding: 0; }
table { width: auto; margin: 0; border: 0; font-size: 14px; color: inherit; }
tr, td, th { background: none; text-align: left; line-height: inherit; } td { font-size: inherit; }
th[scope=row] { vertical-align: top; padding: 8px 16px 8px 0; } td.num, td.heat { text-align: right; }
.plane td { padding: 2px 12px 2px 0; border: 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: 13px; padding-top: 8px; }
"""


def fragment(*parts: str) -> str:
    """Parts that are HTML already, with the rules of the style sheet that they use."""
    body = "".join(parts)
    return f'<div class="{_NAME}"><style>{_style_for(body)}</style>{body}</div>'


def headline(kind: str, word: str, text: str, line: str) -> str:
    """A badge, what is said, and the problem line below."""
    badge = f'<span class="badge {kind}">{escape(word)}</span>'
    return f"<p>{badge} <b>{escape(text)}</b></p><p><code>{escape(line)}</code></p>"


def entries(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Labels with their texts, a row each."""
    cells = (
        f'<tr><th scope="row">{escape(label)}</th><td>{"<br>".join(map(escape, texts))}</td></tr>'
        for label, texts in rows
    )
    return f"<table><tbody>{''.join(cells)}</tbody></table>"


def framed(page: str) -> str:
    """A whole page, which has a script of its own, in a frame."""
    look = "width:100%;height:640px;border:1px solid #8886;border-radius:14px;resize:vertical"
    return f'<iframe srcdoc="{escape(page)}" style="{look}" sandbox="allow-scripts"></iframe>'


def _style_for(body: str) -> str:
    """The pages' colours, light and dark, and of their rules those whose classes are in the piece."""
    used = set(re.findall(r"[\w-]+", " ".join(re.findall(r'(?:class|id)="?([^">]*)', body))))
    sheet = page_style()
    dark = next(text for text in _MEDIA.findall(sheet) if "prefers-color-scheme: dark" in text)
    rules = [rule for rule in _RULE.findall(_MEDIA.sub("", sheet)) if not rule.strip().startswith("header")]
    kept = [rule for rule in rules if set(re.findall(r"[.#]([a-zA-Z][\w-]*)", rule.partition("{")[0])) <= used]
    light, *others = (rule for rule in kept if "data-theme" not in rule)
    switched = next(rule for rule in rules if ':root[data-theme="dark"]' in rule).partition("{")[2]
    bound = "\n".join([light, dark.replace(':root:not([data-theme="light"])', ":root"), *others])
    bound = _SELECTORS.sub(_firm, re.sub(r":root|\bbody(?= *\{)", ":scope", bound) + _FRAME)
    return f"@scope (.{_NAME}) {{{bound}}}\n{_DARK_SWITCH} .{_NAME}{_FIRM} {{{switched}"


def _firm(rule: re.Match[str]) -> str:
    """A rule that none of the page around it outweighs; all of the piece's gain the same."""
    selectors = (one.strip() for one in rule[0].removesuffix("{").split(","))
    firm = (one.replace(":scope", f":scope{_FIRM}") if ":scope" in one else f":scope{_FIRM} {one}" for one in selectors)
    return f"\n{', '.join(firm)} {{"
