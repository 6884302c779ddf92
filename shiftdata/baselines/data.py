"""The rows of a training, and the order in which they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from shiftdata.baselines.inputs import Inputs
from shiftdata.baselines.method import Setup
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import CellBatches, Ranks, RowSampler


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a training. Labels of `target` are not here, nor groups: no method can see them.

    rows, target and select are rows of the base; y, group and domain have a number from 0 for each of `rows`.
    """

    inputs: Inputs
    rows: IntArray
    y: IntArray
    classes: int
    group: IntArray
    domain: IntArray
    sampler: RowSampler | CellBatches
    target: IntArray | None = None
    select: IntArray | None = None
    select_y: IntArray | None = None
    select_group: IntArray | None = None
    #: Rows that are predicted at each evaluation too, and that no method gets to know of.
    tested: IntArray | None = None

    def known(self, features: int) -> Setup:
        """What a method may know before the first step."""
        groups, domains = (int(one.max(initial=-1)) + 1 for one in (self.group, self.domain))
        of_group = np.zeros((2, groups), np.int64)
        of_group[:, self.group] = self.y, self.domain
        counts = [
            torch.from_numpy(np.bincount(one, minlength=size))
            for one, size in ((self.y, self.classes), (self.group, groups), (self.domain, domains))
        ]
        return Setup(
            classes=self.classes,
            groups=groups,
            domains=domains,
            rows=len(self.rows),
            target_rows=0 if self.target is None else len(self.target),
            features=features,
            class_counts=counts[0],
            group_counts=counts[1],
            domain_counts=counts[2],
            group_class=torch.from_numpy(of_group[0]),
            group_domain=torch.from_numpy(of_group[1]),
        )


class Stream:
    """Positions batch by batch without end: what an epoch leaves begins the next batch."""

    def __init__(self, draw: Callable[[int, bool], IntArray], size: int) -> None:
        self._draw, self._size = draw, size
        self.epoch = self.used = 0
        self._rows: IntArray | None = None

    def take(self) -> IntArray:
        """The positions of the next batch."""
        parts: list[IntArray] = []
        wanted = self._size
        while wanted:
            if self._rows is None:
                self._rows = self._draw(self.epoch, self.used == 0)
                if not len(self._rows):
                    raise InputError("there is no row to draw: the sampler keeps none")
            parts.append(self._rows[self.used : self.used + wanted])
            wanted -= len(parts[-1])
            self.used += len(parts[-1])
            if self.used == len(self._rows):
                self.epoch, self.used, self._rows = self.epoch + 1, 0, None
        return np.concatenate(parts)


def epoch_rows(sampler: RowSampler | CellBatches, epoch: int) -> IntArray:
    """The positions that a sampler gives in an epoch, in order, on all ranks."""
    if isinstance(sampler, RowSampler):
        return sampler.rows_of(epoch)
    return np.concatenate([np.asarray(one) for one in sampler.among(Ranks()).items_of(epoch)])
