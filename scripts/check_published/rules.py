"""Checks that several papers need: means, sums, standard deviations, and the same number printed twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from check_published.cells import Printed
from check_published.judging import Finding, box, judge


def mean_of(target: Printed | None, inputs: Sequence[Printed | None], of: str) -> list[Finding]:
    """A printed mean against the mean of its inputs."""
    return judge(target, box(lambda x: float(x.mean())), inputs, f"mean over {len(inputs)} {of}")


def sum_of(
    target: Printed | None, inputs: Sequence[Printed | None], of: str, note: str = ""
) -> list[Finding]:
    """A printed total against the sum of its inputs."""
    return judge(target, box(lambda x: float(x.sum())), inputs, f"sum over {len(inputs)} {of}", note=note)


def weighted(
    target: Printed | None,
    inputs: Sequence[Printed | None],
    weights: Sequence[float],
    check: str,
    *,
    assumption: str = "",
) -> list[Finding]:
    """A printed weighted mean."""
    shares = np.array(weights, float) / float(np.sum(weights))
    return judge(target, box(lambda x: float(x @ shares)), inputs, check, assumption=assumption)


def spread_of_mean(target: Printed | None, inputs: Sequence[Printed | None], of: str) -> list[Finding]:
    """The spread over seeds of a mean lies between what the spreads of its parts leave possible.

    It is at most their mean (all seeds move together), at least what the widest of them leaves when all
    others move against it.
    """
    known = [one for one in inputs if one is not None]
    if target is None or len(known) < len(inputs) or not known:
        return []

    def span(values: Sequence[float], halves: Sequence[float]) -> tuple[float, float, float]:
        x, h, n = np.array(values), np.array(halves), len(values)
        high = float((x + h).mean())
        low = max(0.0, float((2 * (x - h).max() - (x + h).sum()) / n))
        return min(max(target.value, low), high), low, high

    return judge(target, span, known, f"spread of a mean over {len(inputs)} {of}: possible at all")


def same(
    one: Printed | None, other: Printed | None, *, note: str = "", assumption: str = ""
) -> list[Finding]:
    """The same quantity printed at two places; the second is compared with the first."""
    if one is None or other is None:
        return []
    span = box(lambda x: float(x[0]))
    table = one.table if one.table.startswith(("figure", "text")) else f"table {one.table}"
    paper = f"{one.paper} " if one.paper != other.paper else ""
    return judge(other, span, [one], f"as in {paper}{table} ({one.place})", note=note, assumption=assumption)


def best_of(cells: Sequence[Printed | None]) -> list[Printed]:
    """The cells with the highest value; several where they are equal."""
    known = [cell for cell in cells if cell is not None]
    top = max((cell.value for cell in known), default=0.0)
    return [cell for cell in known if cell.value == top]
