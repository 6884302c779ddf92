"""The rows of a training and their sizes, as methods and the trainer share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.evaluation.sampling import CellBatches, RowSampler


@dataclass(frozen=True, eq=False)
class Setup:
    """Sizes of the problem, as a method knows them before the first step."""

    classes: int
    groups: int
    domains: int
    rows: int
    target_rows: int
    features: int  # the width of the encoder's output
    #: Training rows of each class, group and domain.
    class_counts: Tensor
    group_counts: Tensor
    domain_counts: Tensor
    #: The class and the domain of each group.
    group_class: Tensor
    group_domain: Tensor


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a training, as a method sees them: neither labels nor groups of the target.

    rows, target and select are rows of the base; y, group and domain have a number from 0 for each of `rows`.
    """

    source: Source
    rows: IntArray
    y: IntArray
    classes: int
    group: IntArray
    domain: IntArray
    sampler: RowSampler | CellBatches
    target: IntArray | None = None
    target_sampler: RowSampler | None = None
    select: IntArray | None = None
    select_y: IntArray | None = None
    select_group: IntArray | None = None
    #: Test rows that each evaluation predicts too, for rules that choose a step; methods do not use them.
    tested: IntArray | None = None

    @property
    def unlabelled(self) -> IntArray:
        """The rows of the target, for methods that need them: the trainer has checked that there are some."""
        assert self.target is not None
        return self.target

    def setup(self, features: int) -> Setup:
        """Return the sizes for a network whose encoder has `features` outputs."""
        groups, domains = (int(column.max(initial=-1)) + 1 for column in (self.group, self.domain))
        of_group = np.zeros((2, groups), np.int64)
        of_group[:, self.group] = self.y, self.domain
        columns = ((self.y, self.classes), (self.group, groups), (self.domain, domains))
        counts = [torch.from_numpy(np.bincount(column, minlength=size)) for column, size in columns]
        rows, target_rows = len(self.rows), 0 if self.target is None else len(self.target)
        sizes = self.classes, groups, domains, rows, target_rows, features
        return Setup(*sizes, *counts, *torch.from_numpy(of_group))
