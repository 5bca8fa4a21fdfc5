"""Answers to 20,000 random requests on every product under both conformances, in Python and through the C library.

Recorded (answers.txt): a line per chunk of 50 requests and side, `python 850 <16 digits> <4 digits per request>`. The
long digest holds the chunk; the short ones name the first request that differs. `--show N` prints what request N is
answered here: run it in both trees to see the words.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import tensors

import convgrad

RECORD = Path(__file__).with_name("answers.txt")
REQUESTS = 20_000
CHUNK = 50
_SHORT_CHUNKS = (0, 400)
"""How many requests the short form asks."""
VOLATILE = re.compile(r"\[PID:\d+\] [\d:.-]+ ")
_LATER_FIELDS = ("revision", "deterministic")  # random requests leave them at their defaults
_OF_THE_MACHINE = re.compile(r"   path: .*|  workspace .*")


@cache
def requests(count: int = REQUESTS) -> list[convgrad.Request]:
    """The first of the random requests, the two operators in turn."""
    import random_requests  # on the path: see __main__.py

    operators = [type(convgrad.Request.parse("tbc n1 c1>1 i1 k1 fp32").operator)(name) for name in ("conv", "tbc")]
    rng = random.Random("guarded answers")
    return [random_requests.random_request(rng, operators[number % 2]) for number in range(count)]


def conformances(request: convgrad.Request) -> list[convgrad.Request]:
    return [replace(request, conformance=name) for name in ("document", "runtime")]


def in_python(request: convgrad.Request) -> str:
    """Everything said about a request: verdicts of all products, ways out, both languages, the plan of an accepted."""
    asked = [f"{f.name}={getattr(request, f.name)!r}" for f in fields(request) if f.name not in _LATER_FIELDS]
    told = [f"Request({', '.join(asked)})"]
    for one in conformances(request):
        told.append(json.dumps(convgrad.explain(one).as_dict(), ensure_ascii=False, indent=1, sort_keys=True))
    told += [str(convgrad.explain(request, language)) for language in ("en", "zh")]
    if convgrad.check(request).ok:
        told.append(_OF_THE_MACHINE.sub("", str(convgrad.plan(request))))
    return "\n".join(told)


def in_c(some: list[convgrad.Request]) -> list[str]:
    """The status and the text of every product under both conformances; of what C cannot say, a sentence."""
    import phase_one

    products = sorted({v.request.product for r in some[:1] for v in convgrad.explain(r).other_products}
                      | {r.product for r in some[:1]})  # fmt: skip
    sayable = [number for number, request in enumerate(some) if phase_one.can_be_said_in_c(request)]
    told: dict[int, list[str]] = {number: [] for number in sayable}
    asked = [
        (number, replace(request, product=product))
        for product in products for number in sayable for request in conformances(some[number])
    ]  # fmt: skip
    places: dict[tuple[str, str], list[int]] = {}
    for number, request in asked:
        places.setdefault((request.product, request.conformance), []).append(number)
    # Answers come by product and conformance, in the order asked.
    for request, status, text in phase_one.answers([request for _, request in asked]):
        number = places[request.product, request.conformance].pop(0)
        told[number].append(f"{request.product} {request.conformance} {status} {VOLATILE.sub('', text)}")
    return ["\n".join(told.get(number, ["cannot be said in C"])) for number in range(len(some))]


def _chunks_in_python(bounds: tuple[int, int]) -> list[str]:
    return [_row("python", first, [in_python(r) for r in requests()[first : first + CHUNK]])
            for first in range(*bounds, CHUNK)]  # fmt: skip


def _chunks_in_c(bounds: tuple[int, int]) -> list[str]:
    first, end = bounds
    told = in_c(requests()[first:end])
    return [_row("c", place, told[place - first : place - first + CHUNK]) for place in range(first, end, CHUNK)]


def _row(side: str, first: int, texts: list[str]) -> str:
    each = "".join(tensors.text_digest(text, 4) for text in texts)
    return f"{side} {first} {tensors.text_digest(chr(0).join(texts), 16)} {each}"


def compute(bounds: tuple[int, int], jobs: int) -> list[str]:
    """The rows of these requests."""
    first, end = bounds
    step = max(CHUNK, (end - first) // (4 * jobs) // CHUNK * CHUNK)
    parts = [(place, min(place + step, end)) for place in range(first, end, step)]
    with ProcessPoolExecutor(jobs) as pool:
        rows = [row for part in pool.map(_chunks_in_python, parts) for row in part]
        return rows + [row for part in pool.map(_chunks_in_c, parts) for row in part]


def write(jobs: int) -> None:
    RECORD.write_text("\n".join(compute((0, REQUESTS), jobs)) + "\n", "utf-8")


def differences(short: bool, jobs: int) -> Iterator[str]:
    """The first request of each chunk that is answered otherwise than recorded."""
    recorded = {}
    for text in RECORD.read_text("utf-8").splitlines():
        side, first, *digests = text.split()
        recorded[side, int(first)] = digests
    for row in compute(_SHORT_CHUNKS if short else (0, REQUESTS), jobs):
        side, first, digest, each = row.split()
        was, was_each = recorded[side, int(first)]
        if digest == was:
            continue
        other = [place for place in range(CHUNK) if each[4 * place :][:4] != was_each[4 * place :][:4]]
        number = int(first) + other[0] if other else int(first)
        many = f" and {len(other) - 1} more up to {int(first) + CHUNK}" if len(other) > 1 else ""
        yield f"request {number}{many} in {side}: {requests()[number]}; `--show {number}` here and there tells"


def show(number: int) -> None:
    """What one request is answered here, in both languages of the library."""
    print(in_python(requests()[number]))
    print("\n".join(in_c(requests()[number : number + 1])), file=sys.stdout)
