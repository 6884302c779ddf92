"""Runs as authors logged them, and what an accuracy says about rows that nobody published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Evaluation, Role
from shiftdata.evaluation.tasks.cells import Cells
from shiftdata.evaluation.tasks.official import Figure

#: The largest number of rows that is told from an accuracy.
MOST_ROWS = 10**6


@dataclass(frozen=True)
class Logged:
    """A run: the evaluations of each step, and the labels that they predict where authors gave them.

    `task` is what `Task.describe` would say, so that reports know its kind; a seed that changes the rows is
    in it.
    """

    dataset: str
    task: str
    method: str
    trial: int
    seed: int
    results: Mapping[int, Sequence[Evaluation]]
    hyper: Mapping[str, Any] = field(default_factory=dict)
    predicted: Sequence[IntArray] | None = None


def rows_of(accuracies: Iterable[float], of: object) -> int:
    """Return the fewest rows of which every accuracy is a whole share; logs have no other trace of them.

    >>> rows_of([0.5, 2 / 3, 1.0], "env0")
    6
    """
    rows = 1
    for accuracy in accuracies:
        share = Fraction(accuracy).limit_denominator(MOST_ROWS)
        rows = math.lcm(rows, share.denominator)
        if abs(share - Fraction(accuracy)) > 1e-15 or rows > MOST_ROWS or not 0 <= share <= 1:
            raise InputError(f"{of}: {accuracy} is no share of the rows of the other accuracies there")
    return rows


def counted(
    name: str,
    role: Role,
    domains: Mapping[str, tuple[float, int]],
    figures: Mapping[str, Figure] | None = None,
) -> Evaluation:
    """Make the evaluation of a set from the accuracy and the rows of each of its domains."""
    n = np.array([rows for _, rows in domains.values()], np.int64)
    correct = np.rint([share * rows for share, rows in domains.values()]).astype(np.int64)
    codes = {"label": np.zeros(len(n), np.int64), "domain": np.arange(len(n))}
    cells = Cells({"label": ("all",), "domain": tuple(domains)}, codes, n, correct, 0)
    return Evaluation("", "", name, role, int(n.sum()), figures or {}, (), "domain", cells)
