"""Compare a printed number with what its inputs give, with the interval that their rounding allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from check_published.cells import Printed
from shiftdata.evaluation.metrics.statistics import spread

Verdict: TypeAlias = Literal["reproduces", "within rounding", "depends", "inconsistent"]
VERDICTS: tuple[Verdict, ...] = ("reproduces", "within rounding", "depends", "inconsistent")

EDGE = 1e-9  # what binary fractions lose of decimal ones

#: From numbers and their half units to the recomputed value and the least and greatest that rounding allows.
Span: TypeAlias = Callable[[Sequence[float], Sequence[float]], tuple[float, float, float]]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check of one printed number, or of one statement."""

    paper: str
    table: str
    part: str
    row: str
    column: str
    check: str
    printed: str
    recomputed: str
    verdict: Verdict
    allowed: str = ""
    note: str = ""
    assumption: str = ""  # what `depends` depends on

    @property
    def place(self) -> str:
        """The paper, the table and the place in it."""
        where = ", ".join(name for name in (self.part, self.row, self.column) if name)
        table = self.table if self.table.startswith(("figure", "text")) else f"table {self.table}"
        return f"{self.paper}, {table}" + (f": {where}" if where else "")

    @property
    def values(self) -> str:
        """What is printed, what comes out, and what rounding allows."""
        allowed = f" (rounding allows {self.allowed})" if self.allowed else ""
        return f"printed {self.printed}, recomputed {self.recomputed}{allowed}"


def judge(
    target: Printed | None,
    span: Span,
    inputs: Sequence[Printed | None],
    check: str,
    *,
    half: float | None = None,
    note: str = "",
    assumption: str = "",
) -> list[Finding]:
    """The finding of one number, or none where it or an input is missing.

    `half` replaces half a unit of the last digit, for numbers that were rounded further. `assumption` is what
    the recomputation needs and the paper does not print: a number that does not fit depends on it.
    """
    known = [one for one in inputs if one is not None]
    if target is None or len(known) < len(inputs) or not inputs:
        return []
    value, low, high = span([one.value for one in known], [one.half for one in known])
    unit = target.half if half is None else half
    if abs(value - target.value) <= unit + EDGE:
        verdict: Verdict = "reproduces"
    elif low - unit - EDGE <= target.value <= high + unit + EDGE:
        verdict = "within rounding"
    else:
        verdict = "depends" if assumption else "inconsistent"
    digits = len(target.text.partition(".")[2]) + 1
    room = "" if low == high else f"{low:.{digits}f} to {high:.{digits}f}"
    recomputed = f"{value:.{digits}f}"
    return _finding(
        target, verdict, assumption,
        check=check, printed=target.text, recomputed=recomputed, allowed=room, note=note,
    )  # fmt: skip


def statement(
    target: Printed | None,
    check: str,
    holds: bool,
    *,
    claim: str,
    found: str,
    note: str = "",
    assumption: str = "",
) -> list[Finding]:
    """The finding of a statement that numbers decide, filed under one of them; `assumption` as in `judge`."""
    if target is None:
        return []
    verdict: Verdict = "reproduces" if holds else "depends" if assumption else "inconsistent"
    return _finding(target, verdict, assumption, check=check, printed=claim, recomputed=found, note=note)


def box(function: Callable[[Any], float]) -> Span:
    """The span of a function that rises or falls in each input: its extremes are corners of the box."""

    def span(values: Sequence[float], halves: Sequence[float]) -> tuple[float, float, float]:
        x, h = np.array(values, float), np.array(halves, float)
        value = function(x)
        signs = np.array([np.sign(function(x + step) - function(x - step)) for step in np.diag(h)])
        return value, function(x - signs * h), function(x + signs * h)

    return span


def exactly(value: float) -> Span:
    """The span of what no rounding of the inputs changes."""
    return lambda values, halves: (value, value, value)


def std_span(ddof: int, per_root: int = 0) -> Span:
    """The span of a standard deviation, or of a standard error over `per_root` values.

    It is convex: greatest where each value lies at the end of its interval that is away from a threshold,
    least where all values come as near to one number as their intervals let them.
    """
    scale = float(np.sqrt(per_root)) if per_root else 1.0

    def span(values: Sequence[float], halves: Sequence[float]) -> tuple[float, float, float]:
        x, h = np.array(values, float), np.array(halves, float)
        order = np.argsort(x)
        ends = [np.where(np.argsort(order) < cut, x - h, x + h) for cut in range(len(x) + 1)]
        near = [np.clip(centre, x - h, x + h) for centre in np.linspace(x.min(), x.max(), 41)]
        spreads = [spread(values, ddof) for values in (x, *ends)]
        return (
            spreads[0] / scale,
            min(spread(values, ddof) for values in near) / scale,
            max(spreads) / scale,
        )

    return span


def _finding(target: Printed, verdict: Verdict, assumption: str, **said: str) -> list[Finding]:
    place = {name: getattr(target, name) for name in ("paper", "table", "part", "row", "column")}
    return [Finding(**place, **said, verdict=verdict, assumption=assumption if verdict == "depends" else "")]
