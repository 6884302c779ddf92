"""The halves of source and target in RLSbench's 14 datasets, by its table 1 and by its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import first_of_each
from shiftdata.evaluation.protocols.cuts import Shares, cut
from shiftdata.evaluation.tasks.sets import Part

Rows: TypeAlias = NDArray[np.bool_]
Domains: TypeAlias = tuple[str, ...]
#: Per cent of the source: to train, to select; and, where it is its own target, to adapt to and to test.
Four: TypeAlias = tuple[float, float, float, float]

NAMES = ("source_train", "source_test", "target_train", "target_test")
#: A target of its own is cut 80/20.
TARGET = 80
#: Of origins that source and target share, in folds.
SHARED: Shares = dict(zip(NAMES, ((0, 40), (40, 50), (50, 90), (90, 100)), strict=True))
#: A fifth of the source is a target, the rest is cut 80/20; or no target is the source.
OWN: Four = (64, 16, 16, 4)
OTHERS: Four = (80, 20, 0, 0)
BY_LIST = "the authors' lists determine its rows"
BY_FILES = "the order of the authors' files determines its rows"
BALANCED = "as many rows of each label are drawn"


@dataclass(frozen=True, kw_only=True)
class Halves:
    """The source and the targets of a dataset, each one domain or several, and how they are cut.

    `shares` of the source are the same whatever the target is, so that one source model serves all targets.
    Where `select` names an authors' list, its rows of the source select, and its rows do nothing else.
    `lists` of a target name the authors' lists that adapt and test. `balanced` leaves rows out until all
    labels have equally many.
    """

    source: Domains
    targets: Sequence[Domains]
    shares: Four = OWN
    select: str = ""
    lists: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    balanced: bool = False


def _each(*targets: str) -> tuple[Domains, ...]:
    return tuple((target,) for target in targets)


_CENTERS = ("center_0", "center_3", "center_4")
_BREEDS = Halves(
    source=("imagenet_1",),
    targets=_each("imagenet_1", "imagenet_2", "imagenetv2_1", "imagenetv2_2"),
    shares=(80, 0, 16, 4),
    select="val",
)

#: By the paper.
RLSBENCH: Mapping[str, Halves] = {
    "cifar10": Halves(
        source=("train",),
        targets=_each("test", "cifar10_1", "frost_4", "pixelate_5", "saturate_5"),
        shares=OTHERS,
    ),
    "cifar100": Halves(
        source=("train",),
        targets=_each("test", "fog_4", "motion_blur_2", "contrast_4", "spatter_2"),
        shares=OTHERS,
    ),
    # Of a hospital there are ten slides, which are not cut: a twentieth of them is none.
    "camelyon17": Halves(
        source=_CENTERS, targets=(_CENTERS, *_each("center_1", "center_2")), shares=(60, 20, 10, 10)
    ),
    "fmow": Halves(
        source=("2002-2012",),
        targets=_each("2002-2012", "2013-2015", "2016-2017"),
        shares=(59.5, 10.5, 18, 12),
    ),
    **dict.fromkeys(("entity13", "entity30", "living17", "nonliving26"), _BREEDS),
    "office_home": Halves(source=("Product",), targets=_each("Product", "Real World", "Clipart", "Art")),
    "domainnet": Halves(source=("real",), targets=_each("real", "clipart", "sketch", "painting")),
    "visda": Halves(source=("train",), targets=_each("train", "validation", "test")),
    "civilcomments": Halves(source=("train",), targets=_each("train", "val", "test"), balanced=True),
    "mimic_readmission": Halves(source=("2008",), targets=_each(*map(str, range(2008, 2014))), balanced=True),
    "retiring_adults": Halves(source=("2014",), targets=_each("2015", "2016", "2017", "2018"), shares=OTHERS),
}

#: By the released code, where it differs.
IN_CODE: Mapping[str, Halves] = {
    **RLSBENCH,
    "cifar10": replace(
        RLSBENCH["cifar10"],
        targets=_each("test", "cifar10_2", "frost_4", "pixelate_5", "saturate_5"),
        lists={"cifar10_2": ("train", "test")},
    ),
    "camelyon17": replace(RLSBENCH["camelyon17"], select="id_val", shares=(80, 0, 16, 4)),
    "mimic_readmission": replace(
        RLSBENCH["mimic_readmission"], targets=_each(*map(str, range(2009, 2020))), shares=OTHERS
    ),
    "retiring_adults": replace(
        RLSBENCH["retiring_adults"],
        targets=(*RLSBENCH["retiring_adults"].targets, *_each("sd_2014", "ar_2017", "pr_2014", "pr_2018")),
    ),
}


@dataclass(frozen=True, eq=False)
class Sides:
    """The rows of a source and of a target, and those of the source that only select."""

    metadata: Metadata
    halves: Halves
    source: Rows
    target: Rows
    same: bool
    lists: tuple[str, str] | None

    @classmethod
    def of(cls, metadata: Metadata, halves: Halves, source: Sequence[int], target: Sequence[int]) -> Sides:
        same = source == target
        if same and not halves.shares[2]:
            targets = ", ".join(map(" and ".join, halves.targets))
            raise InputError(f"here the source is not a target of its own; targets: {targets}")
        in_source, in_target = (np.isin(metadata.nuisance, side) for side in (source, target))
        lists = halves.lists.get(metadata.nuisances[target[0]]) if len(target) == 1 else None
        return cls(metadata, halves, in_source, in_target, same, lists)

    def parts(self, seed: int) -> dict[str, Part]:
        """Cut each half by the folds of origins, those that source and target share apart."""
        origin = self.metadata.origin
        both = np.intersect1d(origin[self.source], origin[self.target])
        shared = np.isin(origin, both) & (not self.same)
        parts = cut(self.metadata, SHARED, self._single, seed=seed, recurs=shared)
        if self.halves.select:
            listed = self.metadata.listed(self.halves.select)
            parts = {name: Part(part.rows & ~listed, None, BY_LIST) for name, part in parts.items()}
            parts["source_test"] = Part(listed, None, BY_LIST)
        if self.halves.balanced:
            parts = {name: self._balanced(name, part.rows, seed) for name, part in parts.items()}
        return parts

    @property
    def _single(self) -> Shares:
        """The shares in folds, which are whole per cents."""
        ends = np.rint(np.cumsum([0, *self.halves.shares])).astype(int).tolist()
        shares = dict(zip(NAMES, pairwise(ends), strict=True))
        return shares if self.same else {**shares, NAMES[2]: (0, TARGET), NAMES[3]: (TARGET, 100)}

    def _balanced(self, name: str, rows: Rows, seed: int) -> Part:
        """Take equally many rows of each label, of the side of a half."""
        side = np.flatnonzero(rows & (self.source if name.startswith("source") else self.target))
        labels = self.metadata.label[side].astype(np.int64)
        counts = np.bincount(labels)
        least = counts[counts > 0].min() if len(side) else 0
        order = self.metadata.hashes(side, "balanced", name, seed)
        first = first_of_each(labels, order, np.full(len(counts), least))
        return Part(self._mask([side[first]]), None, BALANCED)

    def by_files(self, seed: int) -> dict[str, Part]:
        """Draw each half as the released code does, by NumPy's generator out of the files in their order."""
        first, second, third, fourth = self.halves.shares
        selects = np.zeros(len(self.source), bool)
        if self.halves.select:
            selects = self.metadata.listed(self.halves.select)
        source, rest = self._rows(self.source & ~selects, seed), list[NDArray[np.int64]]()
        if third + fourth:
            source, rest = drawn(source, (first + second) / 100, seed)
        halves = {NAMES[0]: source, NAMES[1]: [np.flatnonzero(selects & self.source)]}
        if not self.halves.select:
            halves[NAMES[0]], halves[NAMES[1]] = drawn(source, first / (first + second), seed)
        if self.lists:
            for name, list_ in zip(NAMES[2:], self.lists, strict=True):
                halves[name] = [np.flatnonzero(self.metadata.listed(list_) & self.target)]
        elif self.same:
            halves[NAMES[2]], halves[NAMES[3]] = drawn(rest, third / (third + fourth), seed)
        else:
            target = self._rows(self.target & ~selects, seed)
            halves[NAMES[2]], halves[NAMES[3]] = drawn(target, TARGET / 100, seed)
        return {name: Part(self._mask(rows), None, BY_FILES) for name, rows in halves.items()}

    def _rows(self, side: Rows, seed: int) -> list[NDArray[np.int64]]:
        """Return the rows of each label in the order of the files; balanced, those that the code draws."""
        labels, order = self.metadata.label, self.metadata.listing.order
        listed = np.flatnonzero(side & (order >= 0))  # the code does not read what the list lacks
        listed = listed[np.argsort(order[listed], kind="stable")]
        of_each = [listed[labels[listed] == label] for label in range(len(self.metadata.labels))]
        if not self.halves.balanced:
            return of_each
        random, least = np.random.RandomState(seed), min(map(len, of_each))
        return [random.choice(rows, least, replace=False) for rows in of_each]

    def _mask(self, rows: Sequence[NDArray[np.int64]]) -> Rows:
        mask = np.zeros(len(self.metadata), bool)
        mask[np.concatenate(list(rows))] = True
        return mask


def drawn(
    of_each: Sequence[NDArray[np.int64]], share: float, seed: int
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Draw a share of the rows of each label, in the order of the draw; return the others too, sorted.

    >>> drawn([np.arange(5)], 0.8, seed=42)
    ([array([1, 4, 2, 0])], [array([3])])
    """
    random = np.random.RandomState(seed)
    chosen = [random.choice(rows, int(share * len(rows)), replace=False) for rows in of_each]
    others = [rows[~np.isin(rows, drawn)] for rows, drawn in zip(of_each, chosen, strict=True)]
    return chosen, others


def halves_of(dataset: str, *, in_code: bool) -> Halves:
    """Look up a dataset of RLSbench, by the paper or by its code."""
    datasets = IN_CODE if in_code else RLSBENCH
    if dataset not in datasets:
        raise InputError(f"rlsbench names one of its datasets, {', '.join(datasets)}; got {dataset!r}")
    return datasets[dataset]
