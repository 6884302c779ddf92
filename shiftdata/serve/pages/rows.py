"""The rows of a base as pages ask for them: chosen by names, in a stable order, with all that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.conditions import USES
from shiftdata.data.format.licenses import rights
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.data.metadata.columns import as_array
from shiftdata.errors import InputError, NotFoundError, not_found
from shiftdata.evaluation.metrics.records import plain
from shiftdata.serve.pages.finding import matching, ordered
from shiftdata.untrusted.texts import read_json

T = TypeVar("T")

#: Rows of one answer at most.
MOST_ROWS = 1000
DETAILS = ("fold", "quantile", "attribution", "params", "sha256", "length")


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one base of an opened dataset."""

    dataset: OpenDataset
    base: str

    @classmethod
    def of(cls, dataset: OpenDataset, base: str) -> Rows:
        """Return the rows of a base, made once for an opened dataset."""
        dataset.manifest.base(base)  # refuses an unknown name
        return dataset.keep(("gallery", base), lambda: cls(dataset, base))

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` gives, kept for the opened dataset."""
        return self.dataset.keep(("gallery", self.base, key), make)

    # All is kept by the dataset, under its one lock: threads that hold it never wait for another.

    @property
    def metadata(self) -> Metadata:
        return read_metadata(self.dataset, self.base)

    @property
    def reader(self) -> ExampleReader:
        return self.keep("reader", lambda: ExampleReader(self.dataset, self.base))

    @property
    def modality(self) -> str:
        return self.dataset.manifest.roles.modality

    @property
    def has_pictures(self) -> bool:
        return self.modality == "image" and self.dataset.manifest.pixels_included

    @property
    def order(self) -> IntArray:
        """All rows: group by group in their stable-hash order, each trajectory from mild to strong."""
        return self.keep("order", self._order)

    def _order(self) -> IntArray:
        rows, columns = self.metadata, self.metadata.columns
        parts = (columns["severity"], columns["split"], columns["quantile"], rows.nuisance, rows.label)
        return np.lexsort(parts).astype(np.int64)

    def choose(
        self,
        label: int | None = None,
        nuisance: int | None = None,
        split: str | None = None,
        severity: float | None = None,
        *,
        license: str | None = None,  # noqa: A002 - the name of the column
        use: str | None = None,
        text: str = "",
        sort: str = "",
    ) -> IntArray:
        """Return the rows of a label, a nuisance (-1: without one), a split, a severity, in `order`.

        `license` keeps the rows under a licence, `use` those whose licence allows it (`commercial`), and
        `text` those that have it in a name or the example; `sort` names a column to order them by.
        """
        rows = self.metadata
        if split is not None and split not in SPLITS:
            raise InputError(f"split {split!r} is not one of {', '.join(SPLITS)}")
        mask = np.ones(len(rows), bool)
        for column, value in (
            (rows.label, label),
            (rows.nuisance, nuisance),
            (rows.columns["split"], None if split is None else list(SPLITS).index(split)),
            (rows.columns["severity"], severity),
        ):
            if value is not None:
                mask &= column == value
        if license is not None or use is not None:
            mask &= np.isin(self.license, self._licenses(license, use))
        if text.strip():
            mask &= matching(self, text)
        order = ordered(self, sort) if sort else self.order
        return order[mask[order]]

    def _licenses(self, name: str | None, use: str | None) -> list[int]:
        """Return the numbers of the licences of a name that allow a use."""
        if name is not None and name not in self.licenses:
            raise not_found("license", name, self.licenses)
        if use is not None and use not in USES:
            raise not_found("use", use, USES)
        return [
            number
            for number, known in enumerate(self.licenses)
            if name in (None, known) and (use is None or rights(known)[use] == "yes")
        ]

    @property
    def license(self) -> IntArray:
        """The number of each row's licence."""
        return self.keep("license", lambda: self.metadata.coded("license"))[0]

    @property
    def licenses(self) -> list[str]:
        """The licences of the rows."""
        names: list[str] = self.keep("license", lambda: self.metadata.coded("license"))[1].to_pylist()
        return names

    @property
    def lengths(self) -> IntArray:
        """The number of bytes of each example."""
        return self.keep("lengths", lambda: as_array(self.metadata.take(["length"])["length"]))

    def sample(self, each: int) -> dict[tuple[int, int], IntArray]:
        """Return the first rows of each group: `each`, or as many trajectories of a continuous shift."""
        return self.keep(("sample", each), lambda: self._sample(each))

    def _sample(self, each: int) -> dict[tuple[int, int], IntArray]:
        rows, chosen = self.metadata, {}
        group = rows.label.astype(np.int64) * (len(rows.nuisances) + 1) + rows.nuisance + 1
        order = self.order[rows.label[self.order] >= 0]  # a row without its label is in no group
        ends = np.flatnonzero(np.diff(group[order])) + 1
        for mine in np.split(order, ends) if len(order) else ():
            key = int(rows.label[mine[0]]), int(rows.nuisance[mine[0]])
            chosen[key] = self._first(mine, each)
        return chosen

    def _first(self, mine: IntArray, each: int) -> IntArray:
        if not self.is_continuous:
            return mine[:each]
        columns = self.metadata.columns
        parts = np.stack([columns["quantile"][mine], columns["split"][mine].astype(float)])
        begins = np.concatenate([[True], (np.diff(parts) != 0).any(axis=0)])
        return mine[np.cumsum(begins) <= each]

    @property
    def is_continuous(self) -> bool:
        return len(self.severities) > 1

    @property
    def severities(self) -> list[float]:
        return self.keep("severities", self._severities)

    def _severities(self) -> list[float]:
        steps = np.unique(self.metadata.columns["severity"])
        return [float(step) for step in steps if np.isfinite(step)]

    @property
    def counts(self) -> IntArray:
        """Rows of each label (down) and nuisance (across); in the first column those without a nuisance."""
        return self.keep("counts", self._counts)

    def _counts(self) -> IntArray:
        known = self.metadata
        counts = np.zeros((len(known.labels), len(known.nuisances) + 1), np.int64)
        shown = known.label >= 0  # a publisher may keep the labels of some rows
        np.add.at(counts, (known.label[shown], known.nuisance[shown] + 1), 1)
        return counts

    @property
    def nuisances(self) -> list[int]:
        """The nuisances that have rows; -1 is without."""
        used: list[int] = (np.flatnonzero(self.counts.any(axis=0)) - 1).tolist()
        return used

    def covers(self, label: int, step: int) -> list[int | None]:
        """Return the first row of each nuisance under a label, at a step of the severities."""
        severity = self.metadata.columns["severity"]
        rows = list[int | None]()
        for nuisance in self.nuisances:
            mine = self.sample(1).get((label, nuisance), np.empty(0, np.int64))
            if self.is_continuous and nuisance >= 0:
                mine = mine[severity[mine] == self.severities[step]]
            rows.append(int(mine[0]) if len(mine) else None)
        return rows

    def row_of(self, key: str) -> int:
        """Return the row with a key."""
        row = int(self.metadata.rows_of(pa.array([key], pa.large_string()))[0])
        if row < 0:
            raise NotFoundError(
                f"{self.dataset.manifest.name}/{self.base} has no row with the key {key!r:.150}"
            )
        return row

    def listed(self, rows: Sequence[int] | IntArray) -> list[dict[str, Any]]:
        """Return what a page needs to show each row: place, key and names; a text or features."""
        at, known = np.asarray(rows, np.int64), self.metadata
        named = known.take(["key", "origin", "license"], at).to_pylist() if len(at) else []
        records: list[dict[str, Any]] = [
            {
                "row": row,
                "key": names["key"],
                "split": list(SPLITS)[known.columns["split"][row]],
                "label": int(known.label[row]),
                "nuisance": int(known.nuisance[row]),
                "severity": plain(known.columns["severity"][row]),
                "origin": names["origin"],
                "license": names["license"],
                "commercial": rights(names["license"] or "")["commercial"],
            }
            for row, names in zip(at.tolist(), named, strict=True)
        ]
        if self.modality != "image" and self.dataset.manifest.pixels_included:
            for record, text in zip(records, self.texts(at), strict=True):
                record["text"] = text
        return records

    def details(self, rows: Sequence[int] | IntArray) -> list[dict[str, Any]]:
        """Return all that is known of some rows, by name; the hashes and sizes of their examples too."""
        at = np.asarray(rows, np.int64)
        known = self.metadata.take(DETAILS, at).to_pylist() if len(at) else []
        return [
            record
            | {
                "sha256": record["sha256"].hex(),
                "params": read_json(record["params"] or "{}"),
                "quantile": plain(record["quantile"]),
            }
            | row
            for record, row in zip(known, self.listed(at), strict=True)
        ]

    def appearances(self, row: int) -> IntArray:
        """Return every row of the same label and origin: its other nuisances, severities and copies."""
        known = self.metadata
        same = (known.origin == known.origin[row]) & (known.label == known.label[row])
        rows: IntArray = self.order[same[self.order]]
        return rows

    def examples(self, rows: Sequence[int] | IntArray) -> list[bytes]:
        """Read the bytes of some examples, none but theirs; nothing where the dataset lacks them."""
        if not self.dataset.manifest.pixels_included:
            return []
        return self.reader.read([int(row) for row in rows])

    def texts(self, rows: Sequence[int] | IntArray) -> list[Any]:
        """Return some examples as a page shows them: a text, or a table's features by name."""
        examples = self.examples(rows)
        if self.modality == "text":
            return [data.decode(errors="replace") for data in examples]
        return [self._features(read_json(data)) for data in examples]

    def _features(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the features of a row by name, with the names of categories."""
        features = self.dataset.manifest.roles.example.items()
        return {
            name: value if isinstance(kind, str) or value is None else kind[value]
            for (name, kind), value in zip(features, values, strict=True)
        }
