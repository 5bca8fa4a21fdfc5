"""The rows as C++ tables: native/generated/rules.inc, which a loop of about a hundred lines evaluates and prints."""

from __future__ import annotations

from convgrad.core import determinism, dtypes, layouts, products
from convgrad.core.request import Operator
from convgrad.rules.check import RULES
from convgrad.rules.facts import FACTS, Fact, Kind
from convgrad.rules.sentences import pieces, with_vendor_names
from convgrad.rules.vocabulary import DEMANDS, Between, Conformance, OneOf, Rule

# With the vendor codes that no row of ours has, so that a refusal can print them.
DTYPE_NAMES = {r.acl_code: r.name for r in dtypes.ALL if r.acl_code is not None} | dtypes.OTHER_NAMES
FORMAT_NAMES = {r.acl_code: r.name for r in layouts.ALL if r.acl_code is not None} | layouts.OTHER_NAMES
_FACTS = list(FACTS.values())  # those no row asks about as well: the C side reads each by name
_CONFORMANCE_BITS = {Conformance.BOTH: 3, Conformance.DOCUMENT: 1, Conformance.RUNTIME: 2}

HEAD = """\
 *
 * C++17; include <cstdint> first.
 *
 * HOW TO EVALUATE
 *   A fact is null, or a list of int64 (single values are lists of one). Its kind says how it prints:
 *     POINTER   [1]; null when the pointer is               FLAG     [0] or [1]      prints false, true
 *     NUMBER    [n]      prints the number                  DTYPE    [aclDataType]   prints its name
 *     LIST      [a, b]   prints "[a, b]"                    FORMAT   [aclFormat]     prints its name
 *     PRODUCT   [index]  prints its key                     null prints "null"
 *   Compute derived numbers in 128 bits and saturate to int64. What each fact is stands beside its enumerator;
 *   if anything it needs is missing (null, too short a shape, lengths that do not match), the fact is null.
 *
 *   For the rows of the operator, in order: skip a row unless its product bit (1 << product index) and its
 *   conformance bit (1 document, 2 runtime) are set, and every condition holds: the fact is not null and its
 *   single value is among the condition's values. Then the row asks, with v = its fact and w = its other fact:
 *     PRESENT      v is not null. Every other demand holds when v, or a needed w, is null.
 *     ONE_OF       v[0] is one of the row's values
 *     BETWEEN      low <= v[i] <= high for every i
 *     SAME_AS      the lists are equal
 *     BELOW        v[i] < w[i]  for every i both have
 *     UP_TO        v[i] <= w[i] for every i both have
 *     MULTIPLE_OF  v[0] % w[0] == 0 (holds when w[0] < 1)
 *   The first row that does not hold gives the status and the message
 *     first + (other >= 0 ? print(w) : "") + second + print(v)
 */
"""

_STRUCTS = """\
struct cg_fact_row { const char *name; cg_kind kind; };
struct cg_condition { cg_fact fact; int first, count; }; /* values CG_RULE_VALUES[first .. first + count) */
struct cg_rule {
    const char *id;
    int status;
    unsigned products, conformances;
    cg_fact fact;
    cg_demand demand;
    int other;                  /* a cg_fact, or -1 */
    int64_t low, high;          /* BETWEEN */
    int first, count;           /* ONE_OF: values CG_RULE_VALUES[first .. first + count) */
    int conditions, conditions_count; /* CG_RULE_CONDITIONS[conditions .. + conditions_count) */
    const char *text_first, *text_second;
};
struct cg_code_name { int64_t code; const char *name; };"""


def _constant(prefix: str, name: str) -> str:
    return prefix + name.upper().replace(".", "_")


def _demand_name(demand: type) -> str:
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in demand.__name__).lstrip("_").upper()


def _code(fact: Fact, value: object) -> int:
    """The integer a value of a row is in C."""
    if fact.kind is Kind.DTYPE:
        code = dtypes.find(str(value)).acl_code
    elif fact.kind is Kind.FORMAT:
        code = layouts.find(str(value)).acl_code
    elif fact.kind is Kind.PRODUCT:
        code = products.KEYS.index(str(value))
    else:
        assert isinstance(value, int), (fact.name, value)
        code = int(value)
    assert code is not None, (fact.name, value)
    return code


class _Tables:
    """Values and conditions that rows refer to by place; equal runs are stored once."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.conditions: list[str] = []
        self._places: dict[tuple[int, ...], int] = {}
        self._condition_places: dict[tuple[str, ...], int] = {}

    def place(self, codes: tuple[int, ...]) -> int:
        if codes not in self._places:
            self._places[codes] = len(self.values)
            self.values += codes
        return self._places[codes]

    def conditions_of(self, rule: Rule) -> tuple[int, int]:
        rows = []
        for name, options in rule.when:
            codes = tuple(_code(FACTS[name], v) for v in options)
            rows.append(f"{{{_constant('CG_FACT_', name)}, {self.place(codes)}, {len(codes)}}}")
        key = tuple(rows)
        if key not in self._condition_places:
            self._condition_places[key] = len(self.conditions)
            self.conditions += rows
        return self._condition_places[key], len(rows)

    def row(self, operator: Operator, rule: Rule) -> str:
        low, high = "INT64_MIN", "INT64_MAX"
        first, count = 0, 0
        if isinstance(rule.must, Between):
            low = low if rule.must.low is None else f"{rule.must.low}LL"
            high = high if rule.must.high is None else f"{rule.must.high}LL"
        if isinstance(rule.must, OneOf):
            codes = tuple(_code(FACTS[rule.fact], v) for v in rule.must.options)
            first, count = self.place(codes), len(codes)
        mask = sum(1 << products.KEYS.index(p) for p in rule.products)
        text_first, text_second = (with_vendor_names(operator, text) for text in pieces(rule))
        other = _constant("CG_FACT_", rule.other) if rule.other else "-1"
        cells = (
            f'"{rule.id}"', int(rule.status), f"0x{mask:02x}", _CONFORMANCE_BITS[rule.conformance],
            _constant("CG_FACT_", rule.fact), f"CG_DEMAND_{_demand_name(type(rule.must))}", other, low, high, first,
            count, *self.conditions_of(rule), f'"{text_first}"', f'"{text_second}"',
        )  # fmt: skip
        return "    {" + ", ".join(map(str, cells)) + "},"


def rules_include(notice: str) -> str:
    """The whole text of native/generated/rules.inc."""
    tables = _Tables()
    rows = {operator: [tables.row(operator, rule) for rule in RULES[operator]] for operator in Operator}
    lines = [f"/* {notice}", *HEAD.splitlines(), *_enums(), *_STRUCTS.splitlines(), ""]
    lines += _array("cg_fact_row CG_FACTS", [
        f'{{"{f.name}", {_constant("CG_KIND_", f.kind.value)}}}' for f in _FACTS
    ])  # fmt: skip
    lines += _array("int64_t CG_RULE_VALUES", [f"{v}LL" for v in tables.values])
    lines += _array("cg_condition CG_RULE_CONDITIONS", tables.conditions)
    names = {Operator.CONV: "CG_CONVOLUTION_BACKWARD_RULES", Operator.TBC: "CG_CONV_TBC_BACKWARD_RULES"}
    for operator, name in names.items():
        lines += [f"static constexpr cg_rule {name}[{len(rows[operator])}] = {{", *rows[operator], "};", ""]
    for name, codes in (("CG_DTYPE_NAMES", DTYPE_NAMES), ("CG_FORMAT_NAMES", FORMAT_NAMES)):
        lines += _array(f"cg_code_name {name}", [f'{{{code}, "{text}"}}' for code, text in sorted(codes.items())])
    lines += _array("const char *const CG_PRODUCT_KEYS", [f'"{key}"' for key in products.KEYS])
    lines += _array("bool CG_PRODUCT_EMPTY_PATH", [str(p.empty_path).lower() for p in products.PRODUCTS])
    return "\n".join(lines)


def _enums() -> list[str]:
    facts = [f"    {_constant('CG_FACT_', f.name)}, /* {f.name}: {f.about} */" for f in _FACTS]
    kinds = ", ".join(_constant("CG_KIND_", k.value) for k in Kind)
    demands = ", ".join(f"CG_DEMAND_{_demand_name(d)}" for d in DEMANDS)
    return ["enum cg_fact {", *facts, "};", f"enum cg_kind {{ {kinds} }};", f"enum cg_demand {{ {demands} }};"]


def _array(declaration: str, items: list[str]) -> list[str]:
    body = [f"    {item}," for item in items]
    return [f"static constexpr {declaration}[{len(items)}] = {{", *body, "};", ""]


def system_parameters_include(notice: str) -> str:
    """native/generated/system_parameters.inc: the options of aclrtSetSysParamOpt, by their number."""
    rows = determinism.SYSTEM_PARAMETERS
    assert [row.number for row in rows] == list(range(len(rows)))
    lines = [f"/* {notice} */", "struct cg_system_parameter { const char *name; int64_t largest; };"]
    items = [f'{{"{row.name}", {row.largest}}}' for row in rows]
    lines += _array("cg_system_parameter CG_SYSTEM_PARAMETERS", items)
    lines += [f"static constexpr int64_t CG_TREE_LEVEL = {determinism.TREE};", ""]
    return "\n".join(lines)
