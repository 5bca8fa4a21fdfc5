"""The rows of the tile kernels as C++: records, enumerations, type demands, the order of calls, demands on records."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import fields
from enum import IntEnum
from typing import Any, ClassVar

from convgrad.ascendc.device.call_order import REFUSALS, SETTERS, State
from convgrad.ascendc.device.conv_type import ConvDtype, ConvFormat, OperandRow, TPosition
from convgrad.ascendc.device.platform import SOC_VERSIONS, STORES, PlatformInfo
from convgrad.ascendc.filter import checks as filter_checks
from convgrad.ascendc.filter.kernel import FILTER_OPERANDS
from convgrad.ascendc.filter.record import FilterBasicBlock, FilterParams, TConv3DBpFilterTiling
from convgrad.ascendc.input import checks as input_checks
from convgrad.ascendc.input.kernel import INPUT_OPERANDS
from convgrad.ascendc.input.record import TConv3DBackpropInputTiling
from convgrad.ascendc.shared.expressions import FUNCTIONS
from convgrad.ascendc.shared.record_checks import Check
from convgrad.ascendc.shared.tiling_record import I32, U32, U64, meaning_of
from convgrad.core import products

KINDS = {U32: "U32", I32: "I32", U64: "U64"}
RECORDS = (
    ("INPUT", TConv3DBackpropInputTiling), ("FILTER", TConv3DBpFilterTiling), ("BLOCK", FilterBasicBlock),
    ("PARAMS", FilterParams),
)  # fmt: skip
C_TYPES = {"FLOAT16": "half", "FLOAT32": "float", "BF16": "bfloat16_t", "INT32": "int32_t"}


def records_include(notice: str) -> str:
    """convgrad_tile/records.inc: each record as a list of fields, for any macro."""
    lines = [f"/* {notice}", " *", " * CGT_<record>_FIELDS(U32, I32, U64): the fields in the vendor's order. */"]
    for name, record in RECORDS:
        lines.append(f"#define CGT_{name}_FIELDS(U32, I32, U64) \\")
        rows = [f"    {KINDS[one.metadata['kind']]}({one.name}) /* {meaning_of(one)} */" for one in fields(record)]
        lines += [f"{row} \\" for row in rows[:-1]] + [rows[-1]]
    return "\n".join([*lines, ""])


def enums_include(notice: str) -> str:
    """convgrad_tile/enums.inc: the enumerators of positions, layouts and dtypes."""

    def enumerators(kind: type[IntEnum], last: str) -> list[str]:
        body = [f"    {name} = {value.value}, \\" for name, value in kind.__members__.items()]
        names = ", ".join(_quoted(name) for name in kind.__members__)
        title = f"#define CGT_{kind.__name__.upper()}"
        return [f"{title}_ENUMERATORS \\", *body, f"    {last}", f"{title}_NAMES {names}"]

    return "\n".join([
        f"/* {notice} */", *enumerators(TPosition, "MAX"), *enumerators(ConvFormat, "MAX"),
        *enumerators(ConvDtype, "CONVDTYPEMAX"), "",
    ])  # fmt: skip


def type_demands_include(notice: str) -> str:
    """convgrad_tile/type_demands.inc: what each type parameter may be, as static assertions with the model's words."""
    lines = [f"/* {notice}", " *", " * Inside namespace ConvBackpropApi, after ConvType, half and bfloat16_t. */"]
    for name, rows in (("Input", INPUT_OPERANDS), ("Filter", FILTER_OPERANDS)):
        lines += ["template <class A, class B, class C, class D>", f"struct {name}TypeDemands {{"]
        for letter, row in zip("ABCD", rows, strict=True):
            lines += [f"    {line}" for line in _demands_of_type(letter, row)]
        sixteen = [letter for letter, row in zip("ABCD", rows, strict=True) if len(row.dtypes) > 1]
        same = " && ".join(
            f"std::is_same<typename {sixteen[0]}::Type, typename {letter}::Type>::value" for letter in sixteen[1:]
        )
        lines += [f'    static_assert({same}, "type.same_dtype: the 16-bit operands must share one dtype");', "};"]
    return "\n".join([*lines, ""])


def _demands_of_type(letter: str, row: OperandRow) -> list[str]:
    formats = " || ".join(f"{letter}::format == ConvCommonApi::ConvFormat::{one.name}" for one in row.formats)
    dtypes = " || ".join(f"std::is_same<typename {letter}::Type, {C_TYPES[one.name]}>::value" for one in row.dtypes)
    layouts, names = (" or ".join(one.name for one in group) for group in (row.formats, row.dtypes))
    return [
        f'static_assert({letter}::pos == AscendC::TPosition::GM, "type.position: {row.role} must be in GM");',
        f'static_assert({formats}, "type.format: {row.role} must have layout {layouts}");',
        f'static_assert({dtypes}, "type.dtype: {row.role} must be {names}");',
    ]


def platforms_include(notice: str) -> str:
    """native/generated/tile_platforms.inc: cores and stores of the products on which the objects run, by key."""
    lines = [
        f"/* {notice}", " *",
        " * Place among the products, version, cube and vector cores; bytes of L0A, L0B, L0C, L1, L2, UB, FB, BT. */",
        "struct PlatformRow { int product; cgt_platform_facts facts; };",
        "static constexpr PlatformRow kPlatforms[] = {",
    ]  # fmt: skip
    for product in products.PRODUCTS:
        if product.key in SOC_VERSIONS:
            sizes = STORES if product.key in products.A2_A3 else dict.fromkeys(STORES, 0)
            cores = (PlatformInfo().cores, 2 * PlatformInfo().cores) if product.key in products.A2_A3 else (0, 0)
            row = ", ".join(map(str, (SOC_VERSIONS[product.key], *cores, *sizes.values())))
            lines.append(f"    {{{products.KEYS.index(product.key)}, {{{row}}}}}, /* {product.key} */")
    return "\n".join([*lines, "};", ""])


def in_cpp(words: str) -> str:
    """A text of the Python model as a C++ author reads it."""
    return words.replace("ctx.isFirstIter_ = True", "ctx.isFirstIter_ = true").replace("(yield)", "(SyncAll)")


def _quoted(words: str) -> str:
    return f'"{words}"'


def calls_include(notice: str) -> str:
    """native/generated/tile_calls.inc: states in words, and which call is refused in which state."""
    states = [*State]
    calls = ["Init", *SETTERS, "Iterate", "GetTensorC", "End"]
    lines = [
        f"/* {notice} */",
        f"enum class State {{ {', '.join(state.name.title().replace('_', '') for state in states)} }};",
        f"enum class Call {{ {', '.join(calls)} }};",
        f"static constexpr const char* kStateWords[{len(states)}] = {{",
        *(f'    "{in_cpp(state.value)}",' for state in states), "};",
        f"static constexpr const char* kCallNames[{len(calls)}] = {{{', '.join(map(_quoted, calls))}}};",
        "struct Refusal {", "    const char* rule;", "    unsigned calls, states; /* bits */",
        "    const char* expected;", "};",
        f"static constexpr Refusal kRefusals[{len(REFUSALS)}] = {{",
    ]  # fmt: skip
    for row in REFUSALS:
        in_calls = sum(1 << calls.index(call) for call in row.calls)
        in_states = sum(1 << states.index(state) for state in row.states)
        lines.append(f'    {{"{row.rule}", 0x{in_calls:03x}, 0x{in_states:02x}, "{in_cpp(row.expected)}"}},')
    return "\n".join([*lines, "};", ""])


def checks_include(notice: str) -> str:
    """native/generated/tile_checks.inc: every demand on a record as a condition and its words."""
    lines = [
        f"/* {notice}", " *",
        " * Fields are Whole (integers that saturate instead of wrapping); what is no field is a function of the",
        " * record, written by hand beside the include. Rows of a later group rely on those of the earlier. */",
        "template <class Record>", "struct CheckRow {", "    int group;", "    const char* rule;",
        "    const char* demand;", "    Whole (*value)(const Record&); /* not 0: holds; of a capacity: the bytes */",
        "    std::string (*shown)(const Record&);", "    int64_t Sizes::*store; /* null: a condition */", "};",
    ]  # fmt: skip
    for name, record, groups in (
        ("Input", TConv3DBackpropInputTiling, input_checks.ROWS), ("Filter", TConv3DBpFilterTiling, filter_checks.ROWS),
    ):  # fmt: skip
        names = {one.name for one in fields(record)}
        rows = [_check_row(number, row, f"{name}Record", names) for number, group in enumerate(groups) for row in group]
        lines += [f"static const CheckRow<{name}Record> k{name}Checks[{len(rows)}] = {{", *rows, "};"]
    return "\n".join([*lines, ""])


def _check_row(group: int, row: Check[Any], record: str, names: set[str]) -> str:
    pieces = re.split(r"\{(.*?)\}", row.shown)
    words = " + ".join(
        f'"{piece}"' if at % 2 == 0 else f"text({_Cpp(names).of(piece)})" for at, piece in enumerate(pieces) if piece
    )
    head, _, rest = words.partition(" + ")
    words = f"std::string({head})" + (f" + {rest}" if rest else "")
    value = _Cpp(names).of(row.holds)
    store = f"&Sizes::{row.store}" if row.store else "nullptr"
    used = "t" if re.search(r"\bt\b", value) else ""
    return (
        f'    {{{group}, "{row.rule}", "{row.demand}",\n     [](const {record}& {used}) {{ return Whole({value}); }},\n'
        f"     [](const {record}& t) {{ return {words}; }}, {store}}},"
    )


class _Cpp(ast.NodeVisitor):
    """An expression of the rows in C++, on Whole."""

    SIGNS: ClassVar[dict[type[ast.AST], str]] = {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.Eq: "==", ast.NotEq: "!=",
        ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    }  # fmt: skip

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def of(self, text: str) -> str:
        """The C++ text of an expression."""
        return str(self.visit(ast.parse(text, mode="eval").body))

    def visit_Constant(self, node: ast.Constant) -> str:
        return f"Whole({node.value!r})"

    def visit_Name(self, node: ast.Name) -> str:
        return f"Whole(t.{node.id})" if node.id in self.names else f"{node.id}(t)"

    def visit_BinOp(self, node: ast.BinOp) -> str:
        return f"({self.visit(node.left)} {self.SIGNS[type(node.op)]} {self.visit(node.right)})"

    def visit_BoolOp(self, node: ast.BoolOp) -> str:
        sign = " && " if isinstance(node.op, ast.And) else " || "
        return "(" + sign.join(self.visit(value) for value in node.values) + ")"

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        assert isinstance(node.op, ast.Not), ast.dump(node)
        return f"!{self.visit(node.operand)}"

    def visit_Compare(self, node: ast.Compare) -> str:
        terms, left = [], node.left
        for sign, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(sign, ast.In):
                assert isinstance(right, ast.Tuple)
                options = " || ".join(f"{self.visit(left)} == {self.visit(one)}" for one in right.elts)
                terms.append(f"({options})")
            else:
                terms.append(f"{self.visit(left)} {self.SIGNS[type(sign)]} {self.visit(right)}")
            left = right
        return terms[0] if len(terms) == 1 else "(" + " && ".join(terms) + ")"

    def visit_Call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS, ast.dump(node)
        return self._nested(node.func.id, [self.visit(one) for one in node.args])

    def _nested(self, name: str, values: Sequence[str]) -> str:
        head = {"min": "least", "max": "most"}.get(name, name)
        return f"{head}({values[0]}, {values[1] if len(values) == 2 else self._nested(name, values[1:])})"

    def generic_visit(self, node: ast.AST) -> str:
        raise AssertionError(f"no C++ for {ast.dump(node)}")
