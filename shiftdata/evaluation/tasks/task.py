"""Tasks: named sets of rows that a protocol makes from a dataset's metadata. No pixel is read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.format.records import Filters
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks import reading
from shiftdata.evaluation.tasks.evaluation import Evaluation, evaluate
from shiftdata.evaluation.tasks.frozen import Frozen, drawn_rows, freeze, read_frozen
from shiftdata.evaluation.tasks.report import MarginalDraw, Report, SetReport
from shiftdata.evaluation.tasks.sets import ROLES, Indices, LeakWarning, Role, RowSet

if TYPE_CHECKING:
    from PIL import Image


CANONICAL_ROLES: Mapping[str, Role] = {"train": "fit", "validation": "select", "test": "test"}
#: The sides of sets that only their roles tell: those of one side may share origins.
SIDES = {"fit": "train", "unlabelled": "train", "select": "validation", "test": "test"}


@dataclass(frozen=True, eq=False)
class Task:
    """Named sets of rows of one base, each with its roles, and the protocols that made them.

    A protocol makes a new task from a task; see `shiftdata.evaluation.tasks.making`. `metrics` names
    the official metrics of its protocols, `notes` are what they asked for and met. `stage` says how far the
    making is: a task whose sets were cut, or their rows chosen, cannot be cut any more. `cut_by` is the
    protocol that cut its sets, `promises` are those that hold, each with the protocol that made it; `draws`
    are the marginals that were drawn.
    """

    metadata: Metadata
    sets: Mapping[str, RowSet]
    history: tuple[str, ...] = ()
    leaky: bool = field(default=False, kw_only=True)
    metrics: tuple[str, ...] = field(default=(), kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    stage: int = field(default=0, kw_only=True)
    cut_by: str = field(default="", kw_only=True)
    promises: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    draws: tuple[MarginalDraw, ...] = field(default=(), kw_only=True)

    @classmethod
    def canonical(cls, metadata: Metadata) -> Task:
        """The sets train, validation and test of the `split` column."""
        split, groups = metadata.columns["split"], metadata.group_counts > 0
        sets = {}
        for number, name in enumerate(SPLITS):
            rows = np.flatnonzero(split == number)
            if len(rows):
                sets[name] = RowSet(
                    indices=rows,
                    expected=groups,
                    scope=np.ones(len(groups), bool),
                    roles=(CANONICAL_ROLES[name],),
                    filters=[[("split", "==", name)]],
                )
        made = cls(metadata, sets)
        made.check_leaks()
        return made

    @classmethod
    def frozen(cls, metadata: Metadata, path: Path) -> Task:
        """The task that `freeze` wrote, over the metadata it was made from."""
        read, rows = read_frozen(metadata, path)
        sets = {}
        for name, (indices, counts) in rows.items():
            groups = np.zeros(len(metadata.group_counts), dtype=bool)
            group = metadata.group[indices]
            groups[group[group >= 0]] = True
            groups[list(read.empty.get(name, ()))] = True
            sets[name] = RowSet(
                indices=indices,
                expected=groups,
                scope=groups,
                roles=read.roles.get(name, (CANONICAL_ROLES.get(name, "test"),)),
                counts=counts,
                reason="it was frozen as keys",
                side=read.sides.get(name, ""),
            )
        made = cls(
            metadata, sets, read.history or (f"frozen({path.name})",), metrics=read.metrics, notes=read.notes
        )
        made.check_leaks(warn=True)
        return made

    @classmethod
    def of_tars(cls, metadata: Metadata, metrics: Sequence[str] = ()) -> Task:
        """The task that tars contain: its rows, a sample for each time that one was drawn."""
        if metadata.dataset is None or metadata.task is None:
            raise InputError(f"{metadata.name} is not a task in tars: make one of it by a protocol")
        sets = {}
        for name, (rows, counts) in drawn_rows(metadata.dataset, metadata.base).items():
            groups = np.zeros(len(metadata.group_counts), bool)
            group = metadata.group[rows]
            groups[group[group >= 0]] = True
            sets[name] = RowSet(
                indices=rows,
                expected=groups,
                scope=groups,
                roles=tuple(cast(Role, role) for role in metadata.task.roles[name]),
                counts=counts,
                reason="it is in tars of its own",
                side=SIDES[metadata.task.roles[name][0]],
            )
        return cls(metadata, sets, (metadata.task.protocol,), metrics=tuple(metrics))

    def __repr__(self) -> str:
        """The protocols, the dataset, and each set with its role and size."""
        sets = ", ".join(f"{name} ({one.role}) {len(one):,}" for name, one in self.sets.items())
        return f"<Task {self.describe()} of {self.metadata.name}: {sets}>"

    @property
    def unit(self) -> Literal["row", "trajectory"]:
        """What a draw takes whole."""
        return "trajectory" if "continuous" in self.metrics else "row"

    @property
    def roles(self) -> dict[str, tuple[Role, ...]]:
        """What each set is for, its own role first."""
        return {name: rows.roles for name, rows in self.sets.items()}

    def set_of(self, role: Role) -> str:
        """The first set with this role of its own: what `loader` ("fit") and `evaluate` ("test") take."""
        if role not in ROLES:
            raise not_found("role", role, ROLES)
        mine = [name for name, rows in self.sets.items() if rows.role == role]
        whole = mine[0].partition("/")[0] if mine else ""
        if sum(name.partition("/")[0] == whole for name in mine) == 1:
            return mine[0]
        known = ", ".join(f"{name} ({rows.role})" for name, rows in islice(self.sets.items(), 12))
        if mine:  # the sets of cells or domains: the first of them would mislead
            raise InputError(f"{self.describe()} has cut {whole} into many sets: name one, such as {mine[0]}")
        raise InputError(f"{self.describe()} has no set with the role {role!r}: name one of {known}")

    def also(self, name: str, role: Role) -> Task:
        """Give a set a second role: a method that adapts at test time sees `test` as "unlabelled".

        The task says so from then on, and every record made of it.
        """
        rows = self.row_set(name)
        if role not in ROLES:
            raise not_found("role", role, ROLES)
        if role in rows.roles:
            return self
        if role != "unlabelled":
            raise InputError(
                f"{name} has the role {rows.role}; a set can only be used as unlabelled besides, got {role!r}"
            )
        return replace(
            self,
            sets={**self.sets, name: replace(rows, roles=(*rows.roles, role))},
            history=(*self.history, f"{name} also {role}"),
        )

    @cached_property
    def label_ids(self) -> Indices:
        """The numbers of the labels that training knows: those that a `fit` set should have, or all."""
        fit = [rows for rows in self.sets.values() if rows.role == "fit"] or list(self.sets.values())
        nuisances = max(1, len(self.metadata.nuisances))
        known = np.zeros(len(self.metadata.labels), bool)
        for rows in fit:
            known |= rows.expected.reshape(-1, nuisances).any(axis=1)
            label = self.metadata.label[rows.indices]
            known[label[label >= 0]] = True
        return np.flatnonzero(known)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of `label_ids`: what a model of this task has outputs for."""
        return tuple(self.metadata.labels[number] for number in self.label_ids.tolist())

    @property
    def nuisances(self) -> tuple[str, ...]:
        """The names of the dataset's nuisances: batches and tables have their positions here."""
        return self.metadata.nuisances

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the dataset's groups, "bird / leaves": batches have their positions here."""
        return tuple(map(self.metadata.group_name, range(len(self.metadata.group_counts))))

    @cached_property
    def remapped(self) -> Indices:
        """For each label of the dataset its number from 0 to k - 1; k if only other sets have it, -1 if none.

        k stands for "unknown" in universal adaptation.
        """
        result = np.full(len(self.metadata.labels), -1)
        for rows in self.sets.values():
            label = self.metadata.label[rows.indices]
            result[label[label >= 0]] = len(self.label_ids)
        result[self.label_ids] = np.arange(len(self.label_ids))
        return result

    def hides_labels(self, name: str, role: Role | None = None) -> bool:
        """Whether a set is used as unlabelled: by its own role, or by one of its others."""
        rows = self.row_set(name)
        if role is not None and role not in rows.roles:
            raise InputError(
                f"{name} has the role {' and '.join(rows.roles)}, and is asked for as {role!r}: "
                f"task.also({name!r}, {role!r}) gives a set a second role"
            )
        return (role or rows.role) == "unlabelled"

    def rows(self, name: str, role: Role | None = None) -> Indices:
        """The set's rows of the metadata, in the order of `keys`, `table` and a loader's positions.

        Where labels are hidden, in the order of hashed keys: neighbours in a file are of one group.
        """
        indices = self.row_set(name).indices
        return indices[self._hashed[name][1]] if self.hides_labels(name, role) else indices

    def keys(self, name: str, role: Role | None = None) -> list[str]:
        """The keys by which predictions are given, in the order of `rows`; hashes where labels are hidden."""
        keys: list[str] = self.key_array(name, role).to_pylist()
        return keys

    def key_array(self, name: str, role: Role | None = None) -> pa.Array:
        """`keys` as Arrow: a tenth of the memory."""
        if self.hides_labels(name, role):
            return pa.array([f"{one:016x}" for one in self._hashed[name][0].tolist()], pa.string())
        return self.metadata.keys(self.rows(name))

    def distinct(self, name: str, role: Role | None = None) -> Indices:
        """The positions, among `rows`, of one row for each different picture: the first that shows it.

        All of them but where a dataset with severities has the untouched start of many trajectories.
        """
        if not self.metadata.repeats:
            return np.arange(len(self.row_set(name).indices))
        return np.sort(np.unique(self.metadata.picture[self.rows(name, role)], return_index=True)[1])

    def hashes(self, name: str) -> Indices:
        """The hashed keys that batches of an unlabelled set have, in the order of its `rows`."""
        return self._hashed[name][0].view(np.int64)

    def counts(self, name: str, role: Role | None = None) -> Indices | None:
        """How often each of `rows` was drawn, if rows were drawn with replacement."""
        counts = self.row_set(name).counts
        if counts is None or not self.hides_labels(name, role):
            return counts
        return counts[self._hashed[name][1]]

    @cached_property
    def _hashed(self) -> Mapping[str, tuple[NDArray[np.uint64], Indices]]:
        """Of each set that may be used as unlabelled, the sorted hashes of its keys, and the order."""
        result = {}
        for name, rows in self.sets.items():
            if "unlabelled" in rows.roles:
                hashes = self.metadata.key_hashes(rows.indices)
                order = np.argsort(hashes)
                result[name] = (hashes[order], order)
        return result

    def table(self, name: str, role: Role | None = None, *, named: bool = False) -> pa.Table:
        """The rows of a set, with `count` where rows were drawn with replacement.

        `named` gives labels and nuisances by name instead of their numbers in the dataset. Where labels are
        hidden only what a method may see: the hashed key, nuisance and severity.
        """
        names, counts = self.metadata.names, self.counts(name, role)
        if hidden := self.hides_labels(name, role):
            names = [self.metadata.nuisance_column, "severity"]
        table = self.metadata.take(names, self.rows(name, role))
        if hidden:
            table = table.add_column(0, "key", self.key_array(name, role))
        known = {"label": self.metadata.labels, self.metadata.nuisance_column: self.nuisances}
        for column in set(known) & set(table.column_names) if named else ():
            place = table.column_names.index(column)
            table = table.set_column(place, column, pa.array(known[column]).take(table[column]))
        return table if counts is None else table.append_column("count", pa.array(counts))

    def filters(self) -> dict[str, Filters | None]:
        """`filters=` for each set, with which pyarrow and `datasets` read the same rows.

        Where filters cannot say it, None; `task.sets[name].reason` says why.
        """
        return {name: rows.filters for name, rows in self.sets.items()}

    def check_leaks(self, *, warn: bool = False) -> bool:
        """Refuse an origin on two sides, or warn of it; give whether there is one."""
        leaks = self.leaks()
        if not leaks:
            return False
        origin = self.metadata.origin
        name = self.metadata.origin_names[leaks[0]].as_py()
        where = [one for one, rows in self.sets.items() if (origin[rows.indices] == leaks[0]).any()]
        text = f"{len(leaks):,} origins are on two sides of the task, {name!r} in {' and '.join(where)}"
        if not warn:
            raise InputError(f"{text}: a result would be too good. Cut by fold or origin")
        warnings.warn(f"{text}, as in the paper: a result will be too good", LeakWarning, stacklevel=4)
        return True

    def leaks(self) -> list[int]:
        """The numbers of the origins that are on two sides."""
        if self.metadata.dataset is not None and self._folds_apart():
            return []
        twice = self._on_two_sides(self.metadata.origin, len(self.metadata.origin_names))
        shared: list[int] = np.flatnonzero(twice).tolist()
        return shared

    def _folds_apart(self) -> bool:
        """Whether no two sides share a fold: then none share an origin, which has one fold in a dataset."""
        fold = self.metadata.columns["fold"].view(np.uint8)
        return not self._on_two_sides(fold, 256).any()

    def _on_two_sides(self, numbers: NDArray[np.integer], size: int) -> NDArray[np.bool_]:
        """Which of some numbers, one for each row of the dataset, are on two sides."""
        sides: dict[str, NDArray[np.bool_]] = {}
        for name, rows in self.sets.items():
            sides.setdefault(rows.side or name, np.zeros(size, bool))[numbers[rows.indices]] = True
        once, twice = np.zeros((2, size), bool)
        for side in sides.values():
            twice |= once & side
            once |= side
        return twice

    def describe(self) -> str:
        """The protocols that made the task, in order."""
        return " & ".join(self.history) or "canonical"

    def report(self) -> Report:
        """What is in the task: rows, origins and groups of each set, empty groups, leaks."""
        return Report(
            task=self.describe(),
            dataset=self.metadata.name,
            sets={name: self._set_report(rows) for name, rows in self.sets.items()},
            leaks=len(self.leaks()),
            notes=self.notes,
            draws=self.draws,
            labels=self.metadata.labels,
            nuisances=self.metadata.nuisances,
        )

    def picture(self) -> Image.Image:
        """A heat map of each set: labels in rows, nuisances in columns, the darker the more examples."""
        return self.report().picture()

    def evaluate(
        self,
        predictions: Any,
        name: str | None = None,
        *,
        remap: bool = False,
        outputs: Any = None,
        marginal: Any = None,
    ) -> Evaluation:
        """What predictions are worth on a set: the official metrics of the task's protocols, each with its n.

        A row that was drawn twice counts twice.

        Args:
            predictions: a mapping by key, a table with the columns key and prediction, a file of one (.csv,
                .parquet, .json, .npy, ...), or an array, list, tensor or Series in the order of `rows`; each
                a label's number or name, or a row of scores: one a label of the dataset or of the task.
            name: the set; default: the first with the role "test".
            remap: numbers are those of `remapped`, 0 to k - 1 (and k for unknown).
            outputs: for a model with other outputs than the dataset's labels, the number of the label that
                each stands for, -1 for none; see `imagenet_outputs`.
            marginal: for label shift, estimated shares of the labels, judged instead of the predictions'.

        """
        if name is not None:
            self.row_set(name)
        return evaluate(self, predictions, name, remap=remap, outputs=outputs, marginal=marginal)

    sampler = reading.sampler
    dataset = reading.dataset
    loader = reading.loader

    def freeze(self, path: str | Path) -> str:
        """Write key, split (the set's name) and count as Parquet; give the content hash."""
        return freeze(self.metadata, self.sets, Path(path), self.about())

    def about(self) -> Frozen:
        """What a file of the frozen task says of it."""
        dataset = self.metadata.dataset
        return Frozen(
            dataset=self.metadata.name.partition("/")[0] if dataset is None else dataset.manifest.name,
            base=self.metadata.base,
            history=self.history,
            roles=self.roles,
            sides={name: rows.side for name, rows in self.sets.items()},
            metrics=self.metrics,
            notes=self.notes,
            empty={name: self._empty(rows).tolist() for name, rows in self.sets.items()},
        )

    def content_id(self) -> str:
        """A hash of every key with its set, role and count: equal in any order of rows."""
        return self._content_id

    @cached_property
    def _content_id(self) -> str:
        return freeze(self.metadata, self.sets)

    def row_set(self, name: str) -> RowSet:
        """A set by its name; `sets` has all of them."""
        if name not in self.sets:
            raise not_found("set", name, self.sets, f"It was asked of {self.describe()}.")
        return self.sets[name]

    def _empty(self, rows: RowSet) -> Indices:
        """The numbers of the groups that a set should have and does not."""
        there = np.zeros(len(rows.expected) + 1, bool)
        there[self.metadata.group[rows.indices]] = True  # the last is for rows without a group
        return np.flatnonzero(rows.expected & ~there[:-1])

    def empty_groups(self, rows: RowSet) -> tuple[str, ...]:
        """The names of the groups that a set should have and does not."""
        return tuple(self.metadata.group_name(one) for one in self._empty(rows).tolist())

    def _set_report(self, rows: RowSet) -> SetReport:
        group = self.metadata.group[rows.indices]
        known = group >= 0
        weights = None if rows.counts is None else rows.counts[known]
        counts = np.bincount(group[known], weights, minlength=len(rows.expected)).astype(np.int64)
        shape = (len(self.metadata.labels), len(self.metadata.nuisances))
        origins = np.zeros(len(self.metadata.origin_names), bool)
        origins[self.metadata.origin[rows.indices]] = True
        return SetReport(
            roles=rows.roles,
            examples=len(rows),
            rows=len(rows.indices),
            origins=int(origins.sum()),
            counts=tuple(map(tuple, counts.reshape(shape).tolist())),
            empty=self.empty_groups(rows),
        )
