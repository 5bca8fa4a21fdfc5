"""The verbs about the contract: check, explain, plan, rules, dtypes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from convgrad import functional
from convgrad.cli.lines import refuse_others
from convgrad.cli.numbers import number
from convgrad.core import dtypes, products, rounding
from convgrad.core.problem_line import KINDS, parse
from convgrad.core.request import CONFORMANCES, DEFAULT_CONFORMANCE, Operator, Request
from convgrad.lab import scaleout as scaleout_plan
from convgrad.rules import codes, sentences
from convgrad.rules.algorithms_950 import NEWEST
from convgrad.rules.check import ALL_RULES, BY_ID, RULES, check
from convgrad.rules.contradictions import source_words
from convgrad.rules.explain import explain, walk
from convgrad.rules.sentences import as_dict
from convgrad.rules.vocabulary import Rule
from convgrad.text import language
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, coloured, columns, folded, print_json, table, tell

_READS_A_FILE = "convgrad cases list"
_CODES_PAGE = "docs/generated/return_codes.md"
_CODE_WORDS = {
    "en": ("meaning", "to try", "given here by", "rows", "all codes"),
    "zh": ("含义", "建议", "本项目中", "条规则", "全部返回码"),
}
_LINE_HELP = 'a problem line, e.g. "conv n2 c8>16 i14x14 k3x3 p1 fp16 on=A2"'


def add_command(subparsers: Any) -> None:
    """The five parsers."""
    for name, run, text in (("check", _check, "one line per problem: accepted or refused, and why"),
                            ("plan", _plan, "casts, contractions and workspace of an accepted problem")):  # fmt: skip
        parser = subparsers.add_parser(name, help=text, description=text)
        parser.add_argument("line", nargs="+", help=_LINE_HELP)
        _add_choices(parser)
        parser.set_defaults(run=run)
    scaleout_plan.add_options(subparsers.choices["plan"])
    parser = subparsers.add_parser("explain", help="why a problem is refused, and how to get past it")
    parser.add_argument("line", help=f"{_LINE_HELP}; or a code such as 161002 or EZ9999; or the id of a rule")
    parser.add_argument("--all", action="store_true", help="every row that was looked at")
    parser.add_argument("--path", action="store_true", help="which way the 950's runtime goes for each gradient")
    parser.add_argument("--revision", metavar="DATE",
                        help=f"with --path: host code of that date (default: the line's, or {NEWEST})")  # fmt: skip
    _add_choices(parser)
    parser.set_defaults(run=_explain)
    parser = subparsers.add_parser("rules", help="the rules of a product, or the difference of two products")
    parser.add_argument("--product", default="A2", help="a product: " + ", ".join(products.KEYS))
    parser.add_argument("--against", help="another product: show only the rows that differ")
    parser.add_argument("--operator", choices=[o.value for o in Operator], help="conv or tbc; both if left out")
    parser.add_argument("--conformance", choices=CONFORMANCES, default=DEFAULT_CONFORMANCE,
                        help="which reading of the contract (default: %(default)s)")  # fmt: skip
    parser.set_defaults(run=_rules)
    parser = subparsers.add_parser("dtypes", help="the number formats, or values rounded to one")
    parser.add_argument("dtype", nargs="?", help="round the values to this dtype")
    parser.add_argument("values", nargs="*", type=number, help="numbers to round")
    parser.set_defaults(run=_dtypes)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--product", help="instead of the line's own `on=`")
    parser.add_argument("--conformance", choices=CONFORMANCES, help="instead of the line's own `as=`")


def _request(line: str, arguments: argparse.Namespace) -> Request:
    refuse_others(arguments.line if isinstance(arguments.line, list) else [arguments.line], _READS_A_FILE)
    try:
        request = parse(line)
        if arguments.product:
            request = replace(request, product=products.find(arguments.product).key)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return replace(request, conformance=arguments.conformance or request.conformance)


def _check(arguments: argparse.Namespace) -> int:
    verdicts = [check(_request(line, arguments)) for line in arguments.line]
    if arguments.json:
        shown = [explain(v.request).as_dict() for v in verdicts]
        print_json(shown if len(shown) > 1 else shown[0])
    else:
        for v in verdicts:
            word = coloured(say("accepted"), "green") if v.ok else coloured(f"{say('refused')} {int(v.status)}", "red")
            told = word if v.ok else folded(f"{word}  {say(v.message)} [{v.rule_id}]", "  ")
            apart = "" if v.ok or columns() is None else "\n"  # one row in a pipe; for a person the line by itself
            print(f"{told}{apart}  {v.line}")
            for text in v.advice if v.ok else ():
                tell(f"  note: {text}", "    ")
    return ExitCode.PASS if all(v.ok for v in verdicts) else ExitCode.REFUSED


def _plan(arguments: argparse.Namespace) -> int:
    plans = [functional.plan(_request(line, arguments)) for line in arguments.line]
    if arguments.workers is not None:
        return scaleout_plan.show(plans, arguments)
    if arguments.json:
        print_json([
            {
                "line": p.problem.line, "operand": p.operand, "accumulate": p.accumulate.value,
                "workspace_bytes": p.workspace_bytes,
                "steps": [
                    {"result": s.result.value, "contraction": s.contraction.value if s.contraction else "sum",
                     "rounded_to": s.rounded_to, "stored_as": s.stored_as} for s in p.steps
                ],
            } for p in plans
        ])  # fmt: skip
    else:
        print(folded(say("\n\n".join(map(str, plans))), " " * 16))
    return ExitCode.PASS


def _explain(arguments: argparse.Namespace) -> int:
    asked = arguments.line.strip()
    code = codes.find(asked)
    if code is not None:
        return _explain_code(code, arguments)
    if asked in BY_ID:
        return _explain_rows([BY_ID[asked]], arguments)
    if asked and " " not in asked and asked not in KINDS:
        refuse_others([asked], _READS_A_FILE)
        raise UsageError(_unknown_word(asked))
    if arguments.path:
        from convgrad.cli import explain_path  # the lab's runs, for this alone

        return explain_path.show(_request(asked, arguments), arguments.revision, arguments.json)
    explanation = explain(_request(asked, arguments), language.current())
    if arguments.json:
        print_json(explanation.as_dict())
    else:
        if arguments.all:
            for mark, rule, got in walk(explanation.verdict.request):
                text = sentences.sentence(rule, language.current())
                print(folded(f"{mark:>3}  {rule.id:32} {text}" + (f"   {say('got')} {got}" if got else ""), " " * 38))
            print()
        print(explanation)
    return ExitCode.PASS if explanation.verdict.ok else ExitCode.REFUSED


def _unknown_word(asked: str) -> str:
    """What is neither a line nor a code nor a rule: what may have been meant."""
    known = {name.lower(): name for name in (*BY_ID, *codes.BY_CODE, *(row.name for row in codes.CODES))}
    near = [known[name] for name in get_close_matches(asked.lower(), known, n=3, cutoff=0.6)]
    hint = f"did you mean {', '.join(near)}?" if near else f"`convgrad rules` lists the rules, {_CODES_PAGE} the codes"
    return f"{asked[:60]!r} is no problem line, no code and no rule; {hint}"


def _explain_code(code: codes.Code, arguments: argparse.Namespace) -> int:
    english = language.current() == "en"
    rows = [rule for rule in ALL_RULES if str(int(rule.status)) == code.code]
    meaning, advice = (code.en, code.try_en) if english else (code.zh, code.try_zh)
    if arguments.json:
        found = {"code": code.code, "name": code.name, "meaning": meaning, "try": advice, "here": code.here}
        print_json(found | {"rules": [as_dict(rule) for rule in rows]})
        return ExitCode.PASS
    words = _CODE_WORDS[language.current()]
    print(f"{code.code} {code.name}")
    print(folded(f"    {words[0]}: {meaning}\n    {words[1]}: {advice}", "      "))
    given = [code.here] if code.here else []
    given += [f"{len(rows)} {words[3]}"] if rows else []
    if given:
        print(f"    {words[2]}: {', '.join(given)}")
    print(f"    {words[4]}: {_CODES_PAGE}" + ("\n" if rows else ""))
    return _explain_rows(rows, arguments)


def _explain_rows(rows: list[Rule], arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json([as_dict(rule) for rule in rows])
        return ExitCode.PASS
    for rule in rows:
        where = say("every product") if rule.products == products.KEYS else ", ".join(rule.products)
        kind = "" if rule.conformance.value == "both" else ", " + say(f"{rule.conformance.value} conformance")
        print(f"{rule.id}  {int(rule.status)}")
        print(folded(f"    {sentences.sentence(rule, language.current())}", "      "))
        said = f"{say('on')} {where}{kind}"
        print(folded(f"    {said}; {source_words(rule.source, language.current())}", "      "))
    return ExitCode.PASS


def _rules(arguments: argparse.Namespace) -> int:
    try:
        keys = [products.find(name).key for name in (arguments.product, arguments.against) if name]
    except ValueError as error:
        raise UsageError(str(error)) from error
    operators = [o for o in Operator if arguments.operator in (None, o.value)]
    shown = []
    for operator in operators:
        rows = [r for r in RULES[operator] if r.conformance.covers(arguments.conformance)]
        rows = [r for r in rows if sum(key in r.products for key in keys) == 1]  # of one product, or of one of the two
        shown.append((operator, rows))
    if arguments.json:
        print_json({operator.function: [as_dict(rule) for rule in rows] for operator, rows in shown})
        return ExitCode.PASS
    for operator, rows in shown:
        apart = "\n" if operator is not operators[0] else ""
        heading = f"{operator.function}, {arguments.conformance}: {say(_rules_heading(keys, rows))}"
        print(folded(f"{apart}{heading}" + ("\n" if rows else "")))
        head = ["rule", "status", *(["only on"] if len(keys) > 1 else []), "demand"]
        only = [[next(k for k in keys if k in rule.products)] if len(keys) > 1 else [] for rule in rows]
        cells = [
            [rule.id, int(rule.status), *side, sentences.sentence(rule, language.current())]
            for rule, side in zip(rows, only, strict=True)
        ]
        if rows:
            print(table(head, cells))
    return ExitCode.PASS


def _rules_heading(keys: list[str], rows: list[Rule]) -> str:
    if len(keys) > 1:
        return f"{len(rows)} rows differ between {keys[0]} and {keys[1]}"
    return f"{len(rows)} rows on {keys[0]}, in the order they are checked"


def _dtypes(arguments: argparse.Namespace) -> int:
    if arguments.dtype is None:
        head = ("dtype", "word", "bits", "fraction", "max", "smallest", "overflow", "ties")
        rows = [
            (d.name, d.word, d.bits, d.significant_bits - 1, f"{d.max_finite:.6g}", f"{d.smallest:.6g}",
             d.overflow.value, d.ties.value) for d in dtypes.ALL
        ]  # fmt: skip
        if arguments.json:
            print_json([dict(zip(head, row, strict=True)) for row in rows])
        else:
            short = {"fraction": "frac", "overflow": "beyond"}  # so that no dtype's name is cut at 80 columns
            print(table([short.get(name, name) for name in head], rows, right=(2, 3, 4, 5)))
        return ExitCode.PASS
    try:
        row = dtypes.find(arguments.dtype)
    except ValueError as error:
        raise UsageError(str(error)) from error
    rounded = [float(rounding.round_to(row, value)) for value in arguments.values]
    if arguments.json:
        print_json({"dtype": row.name, "values": [list(pair) for pair in zip(arguments.values, rounded, strict=True)]})
    else:
        print(table(("value", row.name), [(repr(v), repr(r)) for v, r in zip(arguments.values, rounded, strict=True)]))
    return ExitCode.PASS
