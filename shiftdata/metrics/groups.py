"""Accuracy by group or by domain, and the figures that sum it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, IntArray, as_ids, as_labels_and_predictions, check_lengths
from shiftdata.metrics.chance import WorstByChance, worst_by_chance
from shiftdata.metrics.records import Record, number, table
from shiftdata.metrics.statistics import (
    Convention,
    GroupStatistic,
    accuracies,
    adjusted_average,
    count_correct,
    spread,
    statistic_of,
    worst_of,
)


@dataclass(frozen=True, eq=False)
class GroupAccuracy(Record):
    """The accuracy of each group, and its number of rows.

    A group without rows has accuracy nan and n = 0, and whatever needs its accuracy is nan too: call
    `without_empty()` to leave such groups out knowingly. `ids` are the groups' numbers
    where they are not 0, 1, 2, ...
    """

    accuracy: FloatArray
    n: IntArray
    ids: IntArray | None = None

    derived: ClassVar[tuple[str, ...]] = ("overall", "mean", "worst", "empty", "sem")

    def __post_init__(self) -> None:
        if self.accuracy.shape != self.n.shape or self.n.ndim != 1:
            raise InputError(f"accuracy {self.accuracy.shape} and n {self.n.shape}: give one of each a group")

    @property
    def group_ids(self) -> IntArray:
        """The number of each group."""
        return np.arange(len(self.n)) if self.ids is None else self.ids

    @property
    def correct(self) -> IntArray:
        """How many rows of each group are right."""
        return count_correct(self.accuracy, self.n)

    @property
    def overall(self) -> float:
        """The share of all rows that are right: micro average, NICO++'s Overall."""
        return self.summary("overall")

    @property
    def mean(self) -> float:
        """The mean over groups or domains: SMA's mean-group accuracy, NICO++'s Average."""
        return self.summary("mean")

    @property
    def worst(self) -> float:
        """The lowest accuracy of a group: worst-group accuracy."""
        return self.summary("worst")

    @property
    def worst_group(self) -> int | None:
        """The number of the group that is worst, the first if several are; None while a group is empty."""
        return None if len(self.empty) else int(self.group_ids[self.accuracy.argmin()])

    @property
    def empty(self) -> IntArray:
        """The numbers of the groups without rows."""
        return np.asarray(self.group_ids[self.n == 0])

    @property
    def sem(self) -> FloatArray:
        """The standard error of each group's accuracy (SMA's formula over its rows); nan below two rows."""
        variance = self.accuracy * (1 - self.accuracy)
        undefined = np.full(len(self.n), np.nan)
        sem: FloatArray = np.sqrt(np.divide(variance, self.n - 1, out=undefined, where=self.n > 1))
        return sem

    def worst_of(self, m: int) -> float:
        """SMA's top-M worst-group accuracy: the mean of the M groups that are worst."""
        return self.summary(worst_of(m))

    def adjusted(self, train_n: Any) -> float:
        """The average weighted by the groups' counts in training, as WILDS does for Waterbirds."""
        return self.summary(adjusted_average(train_n))

    def std(self, convention: Convention = "nico++") -> float:
        """The standard deviation over groups or domains: by K - 1 as NICO++ says, by K as its tables do."""
        return spread(self.accuracy, convention)

    def summary(self, statistic: str | GroupStatistic) -> float:
        """Any statistic over the groups."""
        return float(statistic_of(statistic)(self.accuracy, self.n))

    def without_empty(self) -> GroupAccuracy:
        """The same without the groups that have no rows; the others keep their numbers."""
        kept = self.n > 0
        return GroupAccuracy(self.accuracy[kept], self.n[kept], self.group_ids[kept])

    def worst_by_chance(self) -> WorstByChance:
        """What the worst group would be if all had the overall accuracy; empty groups are left out."""
        return worst_by_chance(self.n[self.n > 0], self.overall)

    def table(self, names: Sequence[str] | None = None, limit: int | None = None) -> str:
        """Groups from worst to best, empty ones first; `names[i]` names group number i."""
        order = np.argsort(np.where(self.n > 0, self.accuracy, -1), kind="stable")[:limit]
        ids = self.group_ids[order]
        shown = map(str, ids) if names is None else [names[i] for i in ids]
        figures = (map(number, self.accuracy[order]), map(number, self.sem[order]))
        rows = zip(shown, *figures, (f"{n:,}" for n in self.n[order]), strict=True)
        return table(["group", "accuracy", "sem", "n"], list(rows))

    def __str__(self) -> str:
        lines = [
            f"overall {number(self.overall)}, mean {number(self.mean)}, worst {number(self.worst)}, "
            f"std {number(self.std())} over {len(self.n):,} groups, {int(self.n.sum()):,} rows"
        ]
        if len(self.empty):
            lines.append(
                f"{len(self.empty):,} groups are empty: mean, worst and std are undefined; "
                "see without_empty()"
            )
        return "\n".join([*lines, self.table(limit=5)])


def group_accuracy(
    labels: Any, predictions: Any, groups: Any, *, n_groups: int, n_classes: int | None = None
) -> GroupAccuracy:
    """Accuracy by group (label and style), by domain, by style, or by whatever ids are given.

    Args:
        labels: True class ids.
        predictions: Predicted class ids, or one row of class scores for each example.
        groups: Group ids from 0 to `n_groups` - 1.
        n_groups: How many groups there are, those without rows too.
        n_classes: How many classes there are; with it, unknown classes are refused.

    >>> result = group_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 2], n_groups=4)
    >>> result.accuracy.tolist(), result.n.tolist(), result.overall
    ([1.0, 0.5, 1.0, nan], [1, 2, 1, 0], 0.75)

    """
    true, predicted = as_labels_and_predictions(labels, predictions, n_classes)
    ids = as_ids("groups", groups, n_groups)
    check_lengths(labels=true, groups=ids)
    n = np.bincount(ids, minlength=n_groups)
    correct = np.bincount(ids[true == predicted], minlength=n_groups)
    return GroupAccuracy(accuracies(correct, n), n)
