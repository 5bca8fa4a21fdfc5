"""`convgrad cases convert|list|gen|schema`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from convgrad.cli import outputs
from convgrad.cli.numbers import whole_number
from convgrad.core import dtypes
from convgrad.core.request import DEFAULT_CONFORMANCE
from convgrad.lab.cases import files, generate, own, values
from convgrad.lab.cases.case import Case, conformance_name, parse_fill, product_key
from convgrad.rules.check import check
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, counted, print_json, table, tell


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("cases", help="convert, list or generate case files")
    verbs = parser.add_subparsers(metavar="convert|list|gen|schema", required=True, help="what to do")
    _add_convert(verbs)
    _add_list(verbs)
    _add_gen(verbs)
    schema = verbs.add_parser("schema", help="print the JSON Schema of our own case files")
    schema.set_defaults(run=_schema)


def _add_convert(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "convert", help="write a file of cases in another form",
        description="Forms: json and lines (ours), atk (test kit JSON), ttk (test kit CSV). Fillings other than a "
        "uniform range, seeds and conformances have no place in the kits' files.",
    )
    parser.add_argument("cases", metavar="CASES", help="a file of cases, `-`, or one problem line")
    _add_output(parser)
    parser.set_defaults(run=_convert)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument("--to", choices=files.FORMS, help="default: by the file's name (.json, .csv, .xlsx, .txt)")


def _add_list(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("list", help="list cases with the contract's verdict")
    parser.add_argument("cases", metavar="CASES", help="a file of cases, `-`, or one problem line")
    parser.add_argument("--product", help="on this product")
    parser.add_argument("--conformance", help="document or runtime")
    parser.set_defaults(run=_list)


def _add_gen(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sets = ", ".join(f"{name} = {text}" for name, text in values.STANDARD_SETS.items())
    parser = verbs.add_parser(
        "gen", help="generate cases", description=f"Shapes: {', '.join(generate.SHAPES)}. Fillings: {sets}, "
        f"`all` for every one of them, or any word such as uniform:-1:1. {', '.join(values.WITHDRAWN_SETS)}: of the "
        "commercial standard of 2026-04-09, withdrawn 2026-04-22.",
    )
    parser.add_argument("shapes", nargs="+", choices=generate.SHAPES, metavar="SHAPES",
                        help="sets of shapes, see above")  # fmt: skip
    parser.add_argument("--product", default="A2", help="default: %(default)s")
    parser.add_argument("--conformance", default=DEFAULT_CONFORMANCE, help="document or runtime")
    parser.add_argument("--dtype", default="fp16,bf16,fp32", help="with commas (default: %(default)s)")
    parser.add_argument("--math", default="keep", help="with commas (default: %(default)s)")
    parser.add_argument("--values", default="normal", help="with commas (default: %(default)s)")
    parser.add_argument("--count", type=_number, default=100, help="of random shapes (default: %(default)s)")
    parser.add_argument("--batch", type=_number, default=1, help="of network layers (default: %(default)s)")
    parser.add_argument("--seed", type=_number, default=0, help="of what is random (default: %(default)s)")
    _add_output(parser)
    parser.set_defaults(run=_gen)


def _number(text: str) -> int:
    return whole_number(text, 2**31 - 1, "2**31 - 1")


def _written(arguments: argparse.Namespace, cases: Sequence[Case]) -> int:
    """Writes cases where they were asked for; a file is named, standard output is the data."""
    if arguments.output is None:
        form = arguments.to or ("json" if arguments.json else "lines")
        sys.stdout.write(files.as_text("standard output", cases, form))
        return ExitCode.PASS
    outputs.look_at([arguments.output], [])  # a file converted in its place keeps its cases
    form = files.form_of(arguments.output, arguments.to)
    files.write(arguments.output, cases, form)
    if arguments.json:
        print_json({"file": arguments.output, "form": form, "cases": len(cases)})
    else:
        tell(f"{counted(len(cases), 'case')} written to {arguments.output} ({form})")
    return ExitCode.PASS


def _convert(arguments: argparse.Namespace) -> int:
    return _written(arguments, files.read_some(arguments.cases))


def _list(arguments: argparse.Namespace) -> int:
    product = None if arguments.product is None else product_key(arguments.product)
    conformance = None if arguments.conformance is None else conformance_name(arguments.conformance)
    cases = [case.moved(product, conformance) for case in files.read_some(arguments.cases)]
    verdicts = [check(case.request) for case in cases]
    if arguments.json:
        print_json([
            {"name": c.name, "line": str(c.request), "values": c.fill_words, "seed": c.seed, "enabled": c.enabled,
             "status": int(v.status), "rule": v.rule_id, "message": v.message}
            for c, v in zip(cases, verdicts, strict=True)
        ])
        return ExitCode.PASS
    rows = [
        (i, "ok" if v.ok else int(v.status), c.name, str(c.request), "" if c.enabled else say("disabled"))
        for i, (c, v) in enumerate(zip(cases, verdicts, strict=True))
    ]
    print(table(("", "status", "name", "line", ""), rows, right=(0,)))
    return ExitCode.PASS


def _gen(arguments: argparse.Namespace) -> int:
    words = {name: [w for w in getattr(arguments, name).split(",") if w] for name in ("dtype", "math", "values")}
    fillings = [*values.STANDARD_SETS] if words["values"] == ["all"] else words["values"]
    try:
        chosen = [dtypes.find(word).word for word in words["dtype"]]
        for filling in fillings:
            parse_fill(filling)
    except ValueError as error:
        raise UsageError(str(error)) from None
    generate.check_math(words["math"])
    if not all(words.values()):
        raise UsageError("--dtype, --math and --values need at least one word each")
    cases = generate.generate(
        arguments.shapes, product_key(arguments.product), dtypes=chosen, math=words["math"], fillings=fillings,
        count=arguments.count, batch=arguments.batch, seed=arguments.seed,
        conformance=conformance_name(arguments.conformance),
    )
    if not cases:
        raise UsageError("nothing to generate: --count and --batch must be at least 1")
    return _written(arguments, cases)


def _schema(arguments: argparse.Namespace) -> int:
    print(json.dumps(own.schema(), indent=2, ensure_ascii=False))
    return ExitCode.PASS
