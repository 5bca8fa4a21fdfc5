"""Rows: the named precision standards people judge kernels by, each with its date, thresholds and pass rule.

The words of every row, used by all of them (a = result under test, g = float64 reference from rounded operands):

    rel = |a - g| / (|g| + 1e-7)     MERE = mean rel     MARE = max rel     RMSE = root mean square of a - g

A row's date is that of the text or source it follows; a note says what became of it.

Which column counts is the *precision* of a result: the dtype its operands were rounded to where that is narrower
than the dtype it is stored in (HF32, float16 math on float32 tensors), else its own dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from convgrad.core.dtypes import find as find_dtype
from convgrad.text.terminal import did_you_mean

REL_FLOOR = 1e-7
"""Added to |g| in every relative error."""


class PassRule(Enum):
    """The form of a pass rule; its numbers are the row's thresholds. Each is judged by one function."""

    MEAN_AND_MAX = "MERE < T and MARE < 10 T"
    MIXED = "at least 99 % of elements within atol + rtol*|g|; every error <= limit"
    MIXED_ELEMENTWISE = "at least 99 % of elements within atol + rtol*|g|; every error <= cap or <= 32 ULP at g"
    CLOSE = "share of elements beyond atol + rtol*|g| <= allowed"
    REQUANT = "at least 99.9 % of elements within 1 ULP of the 8-bit code"
    RATIOS = "MARE, MERE and RMSE of elements with |g| >= s, each divided by max(the partner's, s), <= its limit"
    SMALL_VALUES = "elements with |g| < threshold and |a-g| > error: at most 2 times the partner's count"
    CROSS_CHECK = (
        "the three ratios of elements with |g| >= s <= their limits; of the others at most 2 times the partner's count "
        "with |a-g| > error"
    )
    NORMAL_AND_SMALL = (
        "max rel, mean rel and RMSE where |g| > small, share of |a-g| > error elsewhere, each divided by max(the "
        "partner's, least), <= its limit"
    )
    THREE_PARTS = (
        "MERE < T and MARE < 10 T, or at most 2 times the partner's count of rel >= T; where |g| < s, and where |a| "
        "and |g| < b, at most 2 times its count of |a-g| > error"
    )
    SHARE = "share of elements with |a-g| < limit*|g| exceeds the least share"
    COSINE = "1 - cosine of a and g <= limit"
    QUANT = "no element further off than one step"
    ULP = (
        "share of elements beyond the ULP < its limit, or mean ULP < its limit, or the share over the partner's < its "
        "limit"
    )
    ABSOLUTE = "every |a-g| <= rtol*|g| where |g| > small, <= error elsewhere"
    EVERY = "every element within atol + rtol*|g|"
    EXACT = "bit for bit the reference, rounded as planned"


_WITH_PARTNER = (
    PassRule.RATIOS, PassRule.SMALL_VALUES, PassRule.CROSS_CHECK, PassRule.NORMAL_AND_SMALL, PassRule.THREE_PARTS,
)
MIXED_SHARE, MIXED_ULPS = 0.99, 32.0
REQUANT_SHARE = 0.999
SMALL_VALUE_RATIO = 2.0
MARE_FACTOR = 10.0

RECHECK_SEEDS, RECHECK_RESAMPLES, RECHECK_INTERVAL = 200, 2000, 0.95
"""A failed ratio is drawn again: it fails if the interval of the median ratio lies above 1 altogether."""

ANY_DTYPE = "any"


@dataclass(frozen=True, slots=True)
class Standard:
    """One named standard."""

    name: str
    date: str
    rule: PassRule
    columns: tuple[str, ...]
    """What the thresholds of a dtype are called."""
    thresholds: tuple[tuple[str, tuple[float, ...]], ...]
    """Numbers by dtype; the dtype `any` stands for every one."""
    deferred: tuple[tuple[str, str], ...] = ()
    """Dtypes that another standard judges in this one's place."""
    note: str = ""

    @property
    def needs_partner(self) -> bool:
        """Whether an honest run in the same precision is compared with."""
        return self.rule in _WITH_PARTNER

    def limits(self, precision: str) -> tuple[float, ...] | None:
        """The thresholds for a precision; `None` where the standard says nothing about it."""
        name = "hf32" if precision == "hf32_10" else precision
        rows = dict(self.thresholds)
        return rows.get(name, rows.get(ANY_DTYPE))

    def says(self, precision: str) -> str:
        """The pass rule with this precision's numbers."""
        limits = self.limits(precision)
        if limits is None:
            return f"{self.name} says nothing about {precision}"
        numbers = ", ".join(f"{c} = {power_of_two(v)}" for c, v in zip(self.columns, limits, strict=True))
        return f"{self.rule.value}" + (f"; {numbers}" if numbers else "")


def power_of_two(value: float) -> str:
    """`2^-10` for a power of two below 1, else the number."""
    mantissa, exponent = float(value).hex().split("p")
    return f"2^{int(exponent)}" if mantissa == "0x1.0000000000000" and value < 1 else f"{value:g}"


_RATIO_COLUMNS = ("MARE", "MERE", "RMSE", "s")
_SIX = ("float16", "bfloat16", "float32", "hf32", "float8_e4m3fn", "float8_e5m2")
_THREE = _SIX[:3]


def _by_dtype(names: Iterable[str], *rows: tuple[float, ...]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return tuple(zip(names, rows, strict=True))


# fmt: off
_SMALL = _by_dtype(
    _SIX, (2**-11, 2**-16), (2**-8, 2**-16), (2**-14, 2**-30), (2**-12, 2**-28), (2**-4, 2**-6), (2**-3, 2**-5))
_CROSS = "commercial standard, withdrawn 2026-04-22; kept by the test kit as cross_check"


_LEVELS = {"L0": (10, 2, 2), "L1": (5, 1.5, 1.5), "L2": (2, 1.2, 1.2)}
"""Limits of the ratios of MARE, MERE and RMSE."""


def _ratios(level: str) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Limits of the three ratios, and the threshold below which values are small."""
    return tuple((name, (*_LEVELS[level], small[0])) for name, small in _SMALL)


def _cross_checks() -> tuple[Standard, ...]:
    """Both parts of the double benchmark in one verdict, as the test kit judges; three dtypes."""
    return tuple(
        Standard(f"cross_check:{level}", "2026-09", PassRule.CROSS_CHECK, (*_RATIO_COLUMNS, "error"),
                 tuple((name, (*limits, *small)) for name, small in _SMALL if name in _THREE),
                 note="test kit; numbers of the commercial standard withdrawn 2026-04-22")
        for level, limits in _LEVELS.items()
    )


ALL: tuple[Standard, ...] = (
    Standard("mixed", "2026-07-15", PassRule.MIXED, ("rtol", "atol", "limit"), _by_dtype(
        (*_SIX, "float64"), (2**-9, 2**-9, 1e-1), (2**-6, 2**-6, 1.0), (2**-10, 2**-16, 1e-2), (2**-9, 2**-10, 1e-1),
        (2**-2, 2**-4, 4.0), (2**-1, 2**-3, 8.0), (2**-10, 2**-16, 1e-2)), deferred=(("hifloat8", "requant"),),
        note="experimental standard; the test kit's default: limit = max(number, 32 ULP at 1)"),
    Standard("mixed-elementwise", "2026-07-15", PassRule.MIXED_ELEMENTWISE, ("rtol", "atol", "cap", "ULP at 1"),
             _by_dtype(
        _SIX, (2**-9, 2**-9, 1e-1, 2**-10), (2**-6, 2**-6, 1.0, 2**-7), (2**-10, 2**-16, 1e-2, 2**-23),
        (2**-9, 2**-10, 1e-1, 2**-10), (2**-2, 2**-4, 1.0, 2**-3), (2**-1, 2**-3, 1e-1, 2**-2)),
        deferred=(("hifloat8", "requant"),), note="the same document in convgrad's reading: ULP at g"),
    Standard("mere-mare", "2026-04-09", PassRule.MEAN_AND_MAX, ("T",), _by_dtype(
        (*_SIX, ANY_DTYPE), (2**-10,), (2**-7,), (2**-13,), (2**-11,), (2**-3,), (2**-2,), (2**-13,)),
        note="experimental standard, superseded 2026-07-15; lives on as stat_rel_err and in cann-bench"),
    Standard("close", "2026-09", PassRule.CLOSE, ("rtol", "allowed", "atol"), _by_dtype(
        ("float16", "bfloat16", ANY_DTYPE), (1e-3, 1e-3, 1e-8), (1e-3, 1e-3, 1e-8), (1e-4, 1e-4, 1e-8)),
        note="test kit; also called isclose; infinities and NaNs like the reference's are within tolerance"),
    Standard("requant", "2026-09", PassRule.REQUANT, (), _by_dtype(
        ("float8_e4m3fn", "float8_e5m2", "hifloat8"), (), (), ()),
        note="test kit, which subtracts codes with wrap-around; here zeros of both signs are equal"),
    Standard("cosine", "2026-09", PassRule.COSINE, ("limit",), ((ANY_DTYPE, (1e-2,)),),
             note="test kit; a zero vector fails"),
    Standard("quant", "2026-09", PassRule.QUANT, ("step",), ((ANY_DTYPE, (1.0,)),),
             note="test kit, for results that stand for int8 or int4"),
    Standard("double-benchmark:L0", "2026-04-09", PassRule.RATIOS, _RATIO_COLUMNS, _ratios("L0"), note=_CROSS),
    Standard("double-benchmark:L1", "2026-04-09", PassRule.RATIOS, _RATIO_COLUMNS, _ratios("L1"), note=_CROSS),
    Standard("double-benchmark:L2", "2026-04-09", PassRule.RATIOS, _RATIO_COLUMNS, _ratios("L2"), note=_CROSS),
    Standard("small-values", "2026-04-09", PassRule.SMALL_VALUES, ("threshold", "error"), _SMALL,
             note=f"the other part of the double benchmark: {_CROSS}"),
    *_cross_checks(),
    Standard("dual-1000", "2026-08-08", PassRule.SHARE, ("limit", "least share"), _by_dtype(
        _THREE, (1e-3, 0.999), (1e-3, 0.999), (1e-3, 0.999)),
        note="msprobe's double thousandth, which it no longer reaches for convolutions"),
    Standard("msprobe-ulp", "2026-08-08", PassRule.ULP, ("ULP", "share", "mean", "over the partner's"), _by_dtype(
        (*_THREE, "float8_e4m3fn", "float8_e5m2", "hifloat8"), (1, 1e-3, 0, 1), (1, 1e-3, 0, 1), (32, 0.05, 64, 1),
        (1, 1e-3, 0, 0), (1, 1e-3, 0, 0), (1, 1e-3, 0, 0)),
        note="msprobe; a partner is a third way to pass, but not for 8-bit results"),
    Standard("msprobe-absolute", "2026-08-08", PassRule.ABSOLUTE, ("rtol", "small below", "error"), _by_dtype(
        _THREE, (2**-10, 2**-10, 2**-16), (2**-8, 2**-10, 1e-16), (2**-20, 2**-20, 2**-30)),
        note="msprobe's absolute threshold; bfloat16's 1e-16 as written there, perhaps meant as 2^-16"),
    Standard("msprobe-ratio", "2026-08-08", PassRule.NORMAL_AND_SMALL,
             ("max rel", "mean rel", "RMSE", "share", "small", "error", "least"), _by_dtype(
        _THREE, (10, 2, 2, 2, 2**-10, 1e-16, 2**-11), (10, 2, 2, 2, 2**-10, 1e-16, 2**-8),
        (10, 2, 2, 2, 2**-20, 2**-30, 2**-14)),
        note="msprobe's ratio standard at the level of convolutions (L0), what it judges floats by; rel = |a-g| / "
             "(|g| + eps of the dtype)"),
    Standard("cann-bench", "2026-08-21", PassRule.THREE_PARTS, ("T", "s", "error", "b"), _by_dtype(
        _SIX, *((t, *small, b) for (_, small), t, b in zip(
            _SMALL, (2**-10, 2**-7, 2**-13, 2**-11, 2**-3, 2**-2), (2**-5, 2**-3, 2**-8, 2**-8, 2**-1, 1.0),
            strict=True))),
        note="cann-bench; that its errors of the normal part are counted from T on is our reading"),
    Standard("torch", "2026", PassRule.EVERY, ("rtol", "atol"), _by_dtype(
        (*_THREE, "float64"), (1e-3, 1e-5), (1.6e-2, 1e-5), (1.3e-6, 1e-5), (1e-7, 1e-7)),
        note="the defaults of torch.testing.assert_close"),
    Standard("exact", "2026", PassRule.EXACT, (), ((ANY_DTYPE, ()),)),
)
# fmt: on

DEFAULT = ("mixed",)
_BY_NAME = {s.name: s for s in ALL}
_ALIASES = {
    "double-benchmark": "double-benchmark:L1", "cross_check": "cross_check:L1", "isclose": "close",
    "mix_tolerance": "mixed", "stat_rel_err": "mere-mare", "binary": "exact", "benchmark": "msprobe-ratio",
}
"""Names the test kits and the dump tool have for rows."""


def find(name: str | Standard) -> Standard:
    """The standard of a name such as `mixed` or `double-benchmark:L1`."""
    if isinstance(name, Standard):
        return name
    key = name.strip()
    key = _ALIASES.get(key, key)
    for known, row in _BY_NAME.items():
        if known.lower() == key.lower():
            return row
    raise ValueError(f"unknown standard {name!r}{did_you_mean(key, _BY_NAME)}; known: {', '.join(_BY_NAME)}")


def find_all(names: str | Iterable[str | Standard]) -> tuple[Standard, ...]:
    """The standards of a comma-separated list, each once, in the order given."""
    words = [w for w in names.split(",") if w.strip()] if isinstance(names, str) else list(names)
    found = tuple(dict.fromkeys(find(w) for w in words))
    if not found:
        raise ValueError(f"name at least one standard of {', '.join(_BY_NAME)}")
    return found


def precision_of(operand: str, stored: str) -> str:
    """The column that counts for a result stored in `stored` whose operands were rounded to `operand`."""
    narrower = find_dtype(operand).significant_bits < find_dtype(stored).significant_bits
    return operand if narrower else stored


def page(notice: str) -> str:
    """docs/standards.md: the rows as tables for readers."""
    lines = [
        f"<!-- {notice} -->", "# Precision standards", "",
        "Every verdict names the standard it used. a is the result under test, g the float64 reference, computed",
        "from operands already rounded as the plan says.", "",
        f"rel = |a − g| / (|g| + {REL_FLOOR:g}) · MERE = mean rel · MARE = max rel ·",
        "RMSE = root mean square of a − g · ULP = |a − g| in units of the dtype's quantum at g.", "",
        "The column of a result is its *precision*: the dtype its operands were rounded to where that is narrower",
        "than the dtype it is stored in (HF32, float16 math on float32 tensors), else its own dtype. A standard",
        "that says nothing about a precision gives no verdict on it. An infinity or NaN where the rounded",
        "reference has none (or the other way round) fails every standard.", "",
        "| standard | date | passes when | note |", "|---|---|---|---|",
    ]
    for row in ALL:
        rule = row.rule.value.replace("|", "\\|")
        lines.append(f"| `{row.name}` | {row.date} | {rule} | {row.note or '–'} |")
    columns = (*_SIX, "hifloat8", "float64")
    lines += ["", "| standard | thresholds | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for row in ALL:
        cells = [_cell(row, name) for name in columns]
        lines.append(f"| `{row.name}` | {', '.join(row.columns) or '–'} | " + " | ".join(cells) + " |")
    lines += ["", *_CHANGES]
    lines += [
        "", "## The partner of a double benchmark", "",
        "Without a second chip the partner is our own honest run in the same precision: the same rounded",
        "operands, one product added at a time into a float32 sum, the same result rounding. In",
        "`convgrad compare` on foreign results it is this library's engine, or the file given with `--partner`.",
        "Both errors are taken against the same float64 reference.", "",
        f"A ratio above its limit is drawn again: {RECHECK_SEEDS} seeds, {RECHECK_RESAMPLES} resamples of the",
        f"median ratio; it fails if the {RECHECK_INTERVAL:.0%} interval lies above 1 altogether. That re-check is the",
        "commercial standard's of 2026-04-09, withdrawn 2026-04-22.", "",
    ]
    return "\n".join(lines)


CHANGES_LINES = (
    "conv n2 c8>8 i16 k3 p1", "conv n2 c8>16 i12x12 k3x3 p1", "conv n1 c16>8 i10x10 k1x1",
    "tconv n2 c8>4 i7x7 k4x4 s2 p1", "conv n1 c4>4 i6x8x8 k3x3x3 p1", "conv n2 c16>16 i14x14 k5x5 p2 g16",
)
CHANGES_FILLINGS = {
    "wide": "uniform:-5:5", "narrow": "uniform:-0.001:0.001", "normal": "normal:0:1", "shifted": "normal:100:25",
    "outliers": "outliers:-5:5", "integers": "integers:-3:3", "cancellation": "cancellation:1:0.001",
}
CHANGES_DTYPES = ("fp32", "fp32 math=hf32", "fp16", "bf16")
CHANGES_JUDGED = 2436
CHANGED_VERDICTS: tuple[tuple[str, str, str, int, int, int], ...] = (
    ("mixed", "wide", "fp16", 18, 18, 14),
    ("mixed", "shifted", "fp32", 18, 18, 6),
    ("mixed", "shifted", "fp32 math=hf32", 18, 18, 11),
    ("mixed", "shifted", "fp16", 18, 18, 11),
    ("mixed", "shifted", "bf16", 18, 18, 0),
    ("mixed", "outliers", "fp32", 18, 18, 16),
    ("mixed", "outliers", "fp32 math=hf32", 18, 18, 17),
    ("mixed", "outliers", "fp16", 18, 18, 1),
    ("mixed", "outliers", "bf16", 18, 18, 1),
    ("double-benchmark:L1", "wide", "fp32", 18, 17, 18),
    ("double-benchmark:L1", "normal", "fp32", 18, 17, 18),
    ("double-benchmark:L1", "outliers", "fp32 math=hf32", 18, 16, 17),
    ("double-benchmark:L2", "wide", "fp32", 18, 13, 16),
    ("double-benchmark:L2", "wide", "fp32 math=hf32", 18, 15, 17),
    ("double-benchmark:L2", "narrow", "fp32", 18, 17, 18),
    ("double-benchmark:L2", "normal", "fp32", 18, 16, 18),
    ("double-benchmark:L2", "normal", "fp32 math=hf32", 18, 17, 18),
    ("double-benchmark:L2", "outliers", "fp32", 18, 15, 17),
    ("double-benchmark:L2", "outliers", "fp32 math=hf32", 18, 14, 17),
    ("double-benchmark:L2", "cancellation", "fp32", 18, 17, 18),
)
"""Standard, values, dtype; results, of which passed before, of which pass now. A test computes them."""

_CHANGES = (
    "## What changed", "",
    "| row | was | is |", "|---|---|---|",
    "| `mixed` | every error within a cap or 32 ULP at g | one absolute limit per dtype, max(number, 32 ULP at 1), "
    "as the test kit takes it; float64 in float32's column |",
    "| `mixed-elementwise` | – | what `mixed` was; an ULP of HF32 is that of 10 fraction bits |",
    "| `mixed-2026-07` | a table of rtol = atol | removed: no published text has it |",
    "| `double-benchmark`, `small-values` | errors of all elements over the partner's | elements from s on, the "
    "partner's error counted as at least s; special values may also equal the partner's |",
    "| `dual-1000` | rel with a floor of 1e-7, limit included | rel without a floor, limit excluded |",
    "| `cross_check` | a name for `double-benchmark` | rows of its own: both parts in one verdict, three dtypes |",
    "| `cosine`, `quant`, `msprobe-ulp`, `msprobe-ratio`, `msprobe-absolute`, `cann-bench` | – | new |", "",
    "Dates are now those of the sources. With `mixed`, results of large values can fail that passed before, correctly "
    "rounded ones too:", "bfloat16 at g = 1000 may be off by 1, half its ULP there is 2.", "",
    "### Which verdicts change", "",
    f"Of {CHANGES_JUDGED:,} verdicts on this library's own results (six small layers, seven value distributions, four "
    "precisions, product A2, each", "standard whose rule changed) those that differ; every other is as before. `mixed` "
    "and `mixed-elementwise` side by side tell a wrong", "result from a large one.", "",
    "| standard | values | dtype | results | passed before | pass now |", "|---|---|---|---|---|---|",
    *(f"| `{row[0]}` | {row[1]} | {row[2]} | " + " | ".join(map(str, row[3:])) + " |" for row in CHANGED_VERDICTS), "",
)


def _cell(row: Standard, precision: str) -> str:
    other = dict(row.deferred).get(precision)
    if other:
        return f"as `{other}`"
    limits = row.limits(precision)
    return "–" if limits is None else " / ".join(map(power_of_two, limits)) or "yes"
