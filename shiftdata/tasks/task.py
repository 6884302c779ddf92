"""Tasks: named sets of rows that a protocol makes from a dataset's metadata. No pixel is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.format.conditions import both, either, matches
from shiftdata.format.manifest import Filters
from shiftdata.format.schema import SPLITS
from shiftdata.format.writer import write_keys
from shiftdata.metadata import Metadata
from shiftdata.metrics import GroupAccuracy, align, group_accuracy
from shiftdata.sampling import SAMPLERS, FixedRows, Sampler, make_sampler
from shiftdata.tasks.frozen import frozen_id, frozen_table, read_frozen
from shiftdata.tasks.report import Report, SetReport
from shiftdata.tasks.sets import Indices, LeakWarning, RowSet

if TYPE_CHECKING:
    from PIL import Image

    from shiftdata.loading.batches import Examples, Loader
    from shiftdata.loading.batches.loader import OnError, Transform
    from shiftdata.loading.byte_ranges import ExampleReader


@dataclass(frozen=True, eq=False)
class Task:
    """Named sets of rows of one base, and the protocols that made them.

    A protocol makes a new task from a task; see `restrict`, `recut` and `choose`.
    """

    metadata: Metadata
    sets: Mapping[str, RowSet]
    history: tuple[str, ...] = ()
    leaky: bool = field(default=False, kw_only=True)

    @classmethod
    def canonical(cls, metadata: Metadata) -> Task:
        """The sets train, validation and test of the `split` column."""
        split, groups = metadata.columns["split"], metadata.group_counts > 0
        sets = {}
        for number, name in enumerate(SPLITS):
            rows = np.flatnonzero(split == number)
            if len(rows):
                sets[name] = RowSet(rows, groups, filters=[[("split", "==", name)]])
        made = cls(metadata, sets)
        made.check_leaks()
        return made

    @classmethod
    def frozen(cls, metadata: Metadata, path: Path) -> Task:
        """The task that `freeze` wrote, over the metadata it was made from."""
        sets = {}
        for name, (indices, counts) in read_frozen(metadata, path).items():
            groups = np.zeros(len(metadata.group_counts), dtype=bool)
            group = metadata.group[indices]
            groups[group[group >= 0]] = True
            sets[name] = RowSet(indices, groups, counts, reason="it was frozen as keys")
        made = cls(metadata, sets, (f"frozen({path.name})",))
        made.check_leaks(warn=True)
        return made

    def keys(self, name: str) -> list[str]:
        """The keys of a set, in the metadata's order."""
        keys: list[str] = self.metadata.table["key"].take(pa.array(self._set(name).indices)).to_pylist()
        return keys

    def table(self, name: str) -> pa.Table:
        """The rows of a set, with `count` where rows were drawn with replacement."""
        rows = self._set(name)
        table = self.metadata.table.take(pa.array(rows.indices))
        return table if rows.counts is None else table.append_column("count", pa.array(rows.counts))

    def filters(self) -> dict[str, Filters | None]:
        """`filters=` for each set, with which pyarrow and `datasets` read the same rows.

        Where filters cannot say it, None; `task.sets[name].reason` says why.
        """
        return {name: rows.filters for name, rows in self.sets.items()}

    def restrict(
        self, filters: Filters, *, to: Sequence[str] | None = None, expected: Sequence[int] = ()
    ) -> Task:
        """Keep, in each set (or those in `to`), the rows that some filters keep.

        `expected` are groups that must be there, whether or not the metadata has them.
        """
        mask = matches(self.metadata.columns, filters)
        groups = matches(self.metadata.groups, filters)
        sets = dict(self.sets)
        for name in self.sets if to is None else to:
            rows = self._set(name)
            kept = mask[rows.indices]
            wanted = rows.expected & groups
            wanted[list(expected)] = True
            sets[name] = replace(
                rows,
                indices=rows.indices[kept],
                counts=None if rows.counts is None else rows.counts[kept],
                filters=None if rows.filters is None else both(rows.filters, filters),
                expected=wanted,
            )
        return replace(self, sets=sets)

    def recut(self, parts: Mapping[str, Filters], sides: Mapping[str, str] | None = None) -> Task:
        """Make new sets of the rows that are in any set, each by filters of its own."""
        pool = self.pool()
        cut = replace(self, sets={n: replace(pool, side=(sides or {}).get(n, "")) for n in parts})
        for name, filters in parts.items():
            cut = cut.restrict(filters, to=[name])
        return cut

    def choose(
        self, name: str, indices: Indices, reason: str, *, counts: Indices | None = None, **more: Any
    ) -> Task:
        """Make one set of chosen rows, which no filters can keep for a reason; `more` are fields of it."""
        old = self.sets.get(name, RowSet(indices, np.zeros(len(self.metadata.group_counts), bool)))
        order = np.argsort(indices)
        counts = None if counts is None else counts[order]
        rows = replace(old, indices=indices[order], counts=counts, filters=None, reason=reason, **more)
        return replace(self, sets={**self.sets, name: rows})

    def pool(self) -> RowSet:
        """The rows that are in any set."""
        if any(rows.counts is not None for rows in self.sets.values()):
            raise InputError(
                "rows drawn with replacement cannot be cut again: draw them in the last protocol"
            )
        sets = self.sets.values()
        member = np.zeros(len(self.metadata), dtype=bool)
        expected = np.zeros(len(self.metadata.group_counts), dtype=bool)
        for rows in sets:
            member[rows.indices] = True
            expected |= rows.expected
        filters = either([rows.filters for rows in sets])
        reason = next((rows.reason for rows in sets if rows.filters is None), "")
        return RowSet(np.flatnonzero(member), expected, filters=filters, reason=reason)

    def check_leaks(self, *, warn: bool = False) -> bool:
        """Refuse an origin on two sides, or warn of it; give whether there is one."""
        leaks = self.leaks()
        if not leaks:
            return False
        origin = self.metadata.origin
        name = self.metadata.table["origin"][int(np.argmax(origin == leaks[0]))].as_py()
        where = [one for one, rows in self.sets.items() if (origin[rows.indices] == leaks[0]).any()]
        text = f"{len(leaks):,} origins are on two sides of the task, {name!r} in {' and '.join(where)}"
        if not warn:
            raise InputError(f"{text}: a result would be too good. Cut by fold or origin")
        warnings.warn(f"{text}, as in the paper: a result will be too good", LeakWarning, stacklevel=4)
        return True

    def leaks(self) -> list[int]:
        """The numbers of the origins that are on two sides."""
        origin = self.metadata.origin
        size = int(origin.max(initial=-1)) + 1
        sides: dict[str, NDArray[np.bool_]] = {}
        for name, rows in self.sets.items():
            sides.setdefault(rows.side or name, np.zeros(size, bool))[origin[rows.indices]] = True
        on = sum((mask.astype(np.int16) for mask in sides.values()), np.zeros(size, np.int16))
        shared: list[int] = np.flatnonzero(on > 1).tolist()
        return shared

    def check_empty(self) -> None:
        """Refuse a set without rows, or groups that should have rows and have none."""
        for name, one in self.report().sets.items():
            if not one.examples:
                raise InputError(f"{self.describe()} leaves {name} without a row: choose other parameters")
            if one.empty:
                shown = ", ".join(one.empty[:5]) + (" ..." if len(one.empty) > 5 else "")
                raise InputError(
                    f"{self.describe()} leaves {len(one.empty)} groups of {name} without a row ({shown}): "
                    'take a larger base or other parameters, or on_empty="report" to have them as n = 0'
                )

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
            labels=self.metadata.labels,
            nuisances=self.metadata.nuisances,
        )

    def picture(self) -> Image.Image:
        """A heat map of each set: labels in rows, nuisances in columns, the darker the more examples."""
        return self.report().picture()

    def evaluate(self, predictions: Any, name: str = "test") -> GroupAccuracy:
        """The accuracy of each group of a set, from predictions by key.

        `predictions` maps each key of the set to a label's number, or is a table with the columns key and
        prediction. Unknown, missing and repeated keys are refused. A row that was drawn twice counts twice.
        """
        rows, metadata = self._set(name), self.metadata
        predicted = align(self.keys(name), predictions)
        label, group = metadata.columns["label"][rows.indices], metadata.group[rows.indices]
        if (group < 0).any():
            raise InputError(f"{name} has rows without a group: untouched content has no accuracy by group")
        if rows.counts is not None:
            label, group, predicted = (np.repeat(part, rows.counts) for part in (label, group, predicted))
        sizes = {"n_groups": len(metadata.group_counts), "n_classes": len(metadata.labels)}
        result = group_accuracy(label, predicted, group, **sizes)
        # An expected group without a row must show, with n = 0; the many that are not expected must not.
        shown = np.flatnonzero(rows.expected | (result.n > 0))
        return replace(result, accuracy=result.accuracy[shown], n=result.n[shown], ids=shown)

    def sampler(self, rule: str, name: str = "train", **options: Any) -> Sampler:
        """A sampler over the positions of a set's rows: "subg", "rwg", ..., see `sampling.SAMPLERS`."""
        rows = self._set(name)
        if rows.counts is not None:
            raise InputError(f"the rows of {name} were drawn with replacement: they are a sample already")
        label, group = self.metadata.columns["label"][rows.indices], self.metadata.group[rows.indices]
        groups = np.union1d(np.flatnonzero(rows.expected), group)
        ids = {"label_ids": np.unique(label).tolist(), "group_ids": groups.tolist()}
        return make_sampler(rule, labels=label, groups=group, **(ids | options))

    def dataset(
        self,
        name: str = "train",
        *,
        transform: Callable[[Any], Any] | None = None,
        decode: bool = True,
        reader: ExampleReader | None = None,
    ) -> Examples:
        """The examples of a set, `(x, y, metadata)` each: a map-style dataset, for torch or without it.

        See `loading.batches.Examples`. `reader` is your own, with a cache or hashes checked.
        """
        from shiftdata.loading.batches import Examples

        rows = self._set(name)
        return Examples(
            self.metadata, rows.indices, rows.counts, reader=reader, transform=transform, decode=decode
        )

    def loader(
        self,
        name: str = "train",
        *,
        sampler: str | Sampler | Sequence[int] | Indices | None = None,
        batch_size: int = 64,
        seed: int = 0,
        workers: int | None = None,
        size: int | tuple[int, int] | None = None,
        transform: Transform | None = None,
        drop_last: bool = False,
        on_error: OnError = "error",
        rank: int | None = None,
        world: int | None = None,
        reader: ExampleReader | None = None,
        **options: Any,
    ) -> Loader:
        """Batches `(x, y, metadata)` of a set's pictures, for training; see `loading.batches.Loader`.

        Args:
            name: the set.
            sampler: "shuffle", "subg", ...: the name of a sampler, with its `options`; one that `sampler`
                made; positions in the set; or None: every example in the stored order, as for a test.
            batch_size: pictures in a batch, on each rank.
            seed: of the order and of `transform`, with the epoch.
            workers: threads that read and decode ahead; default: one a core.
            size: height and width to resize every picture to, or one number for both.
            transform: makes another x of a batch's x and a numpy generator, in the thread that decoded it.
            drop_last: leave out a last batch that is not full, and what ranks do not share evenly.
            on_error: a picture that cannot be read is an "error", or is "skip"ped and reported.
            rank, world: this process among those that share an epoch; default: of `torch.distributed`.
            reader: your own `ExampleReader`.

        """
        from shiftdata.loading.batches import Loader

        rows = self._set(name)
        if isinstance(sampler, str) and sampler == "shuffle" and rows.counts is not None and not options:
            sampler = FixedRows(np.arange(len(rows)), seed=seed)  # rows drawn twice come twice
        elif isinstance(sampler, str):
            batches = sampler in SAMPLERS and SAMPLERS[sampler].makes_batches
            chosen = options | ({"batch_size": batch_size} if batches else {})
            sampler = self.sampler(sampler, name, seed=seed, **chosen)
        elif options:
            raise InputError(f"{', '.join(options)}: options go with the name of a sampler")
        return Loader(
            self.dataset(name, reader=reader),
            sampler,
            batch_size=batch_size,
            drop_last=drop_last,
            rank=rank,
            world=world,
            workers=workers,
            size=size,
            seed=seed,
            transform=transform,
            on_error=on_error,
        )

    def freeze(self, path: str | Path) -> str:
        """Write key, split (the set's name) and count as Parquet; give the content hash."""
        table = frozen_table(self.metadata, self.sets)
        write_keys(Path(path), table)
        return frozen_id(table)

    def content_id(self) -> str:
        """A hash of every key with its set and count: equal tasks have equal ones, in any order of rows."""
        return frozen_id(frozen_table(self.metadata, self.sets))

    def _set(self, name: str) -> RowSet:
        if name not in self.sets:
            raise not_found("set", name, self.sets, f"It was asked of {self.describe()}.")
        return self.sets[name]

    def _set_report(self, rows: RowSet) -> SetReport:
        group = self.metadata.group[rows.indices]
        known = group >= 0
        weights = None if rows.counts is None else rows.counts[known]
        counts = np.bincount(group[known], weights, minlength=len(rows.expected)).astype(np.int64)
        empty = np.flatnonzero(rows.expected & (counts == 0)).tolist()
        shape = (len(self.metadata.labels), len(self.metadata.nuisances))
        return SetReport(
            examples=len(rows),
            rows=len(rows.indices),
            origins=len(np.unique(self.metadata.origin[rows.indices])),
            counts=tuple(map(tuple, counts.reshape(shape).tolist())),
            empty=tuple(self.metadata.group_name(one) for one in empty),
        )
