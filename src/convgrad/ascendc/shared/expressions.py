"""Conditions on a record as text that two languages read: Python compiles it, the C++ tables are written from its tree.

An expression has integers, names, + - * // %, comparisons (chained too), `in` a tuple, and, or, not, and calls of min,
max and ceil_div. A name is a field or a property of the record, or a function of it that the rows offer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from .tiling_record import ceil_div

FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "ceil_div": ceil_div}
OfRecord = Mapping[str, Callable[[Any], Any]]


class _Names(ast.NodeTransformer):
    """Every name becomes what it stands for: an attribute of the record, or a call with the record."""

    def __init__(self, of_record: OfRecord) -> None:
        self.of_record = of_record

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in FUNCTIONS:
            return node
        record = ast.Name("_record", ast.Load())
        if node.id in self.of_record:
            return ast.Call(node, [record], [])
        return ast.Attribute(record, node.id, ast.Load())


def compiled(text: str, of_record: OfRecord) -> Callable[[Any], Any]:
    """A function of a record from the text of an expression."""
    body = _Names(of_record).visit(ast.parse(text, mode="eval").body)
    taken = ast.arguments([], [ast.arg("_record")], None, [], [], None, [])
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(taken, body)))
    function: Callable[[Any], Any] = eval(compile(tree, f"<{text}>", "eval"), {**FUNCTIONS, **of_record})
    return function


def filled(template: str, of_record: OfRecord) -> Callable[[Any], str]:
    """A function that writes a record's numbers into a text: each {expression} is one."""
    pieces = re.split(r"\{(.*?)\}", template)
    numbers = [compiled(text, of_record) for text in pieces[1::2]]

    def fill(record: Any) -> str:
        words = [*(word for piece, number in zip(pieces[::2], numbers, strict=False)
                   for word in (piece, str(number(record)))), pieces[-1]]  # fmt: skip
        return "".join(words)

    return fill
