"""The rows of a base as pages ask for them: chosen by names, in a steady order, with all that is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.bounds import text_lengths
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError, NotFoundError
from shiftdata.serve.pages.scores import Scores

Indices: TypeAlias = NDArray[np.int64]
T = TypeVar("T")

#: Rows of one answer at most, and bytes of their texts.
MOST_ROWS, MOST_TEXTS = 1000, 4 << 20
TEXTS = ("origin", "license", "attribution", "params")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which rows are wanted: by a label's number, a nuisance's (-1: without one), a split, a severity."""

    label: int | None = None
    nuisance: int | None = None
    split: str | None = None
    severity: float | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one base of an opened dataset."""

    dataset: OpenDataset
    base: str
    _kept: dict[object, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, dataset: OpenDataset, base: str) -> Rows:
        """The rows of a base, made once for an opened dataset."""
        dataset.manifest.base(base)  # refuses an unknown name
        return dataset.keep(("gallery", base), lambda: cls(dataset, base))

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives, kept; two threads may make it at once, as neither has a lock while it reads."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast(T, self._kept[key])

    @cached_property
    def metadata(self) -> Metadata:
        return read_metadata(self.dataset, self.base)

    @cached_property
    def reader(self) -> ExampleReader:
        return ExampleReader(self.dataset, self.base)

    @property
    def modality(self) -> str:
        return self.dataset.manifest.roles.modality

    @cached_property
    def order(self) -> Indices:
        """All rows: group by group in their stable-hash order, each trajectory from mild to strong."""
        rows = self.metadata
        columns = rows.columns
        parts = (columns["severity"], columns["split"], columns["quantile"], rows.nuisance, rows.label)
        return np.lexsort(parts).astype(np.int64)

    def choose(self, choice: Choice) -> Indices:
        """The rows that a choice keeps, in `order`; those of the last choice are kept."""
        before, rows = self._kept.get("choice", (None, None))
        if before != choice:
            rows = self._choose(choice)
            self._kept["choice"] = choice, rows
        return cast(Indices, rows)

    def _choose(self, choice: Choice) -> Indices:
        rows, keep = self.metadata, np.ones(len(self.metadata), bool)
        if choice.label is not None:
            keep &= rows.label == choice.label
        if choice.nuisance is not None:
            keep &= rows.nuisance == choice.nuisance
        if choice.split is not None:
            if choice.split not in SPLITS:
                raise InputError(f"split {choice.split!r} is not one of {', '.join(SPLITS)}")
            keep &= rows.columns["split"] == list(SPLITS).index(choice.split)
        if choice.severity is not None:
            keep &= rows.columns["severity"] == choice.severity
        return self.order[keep[self.order]]

    def sample(self, each: int) -> dict[tuple[int, int], Indices]:
        """The first rows of each group: `each` of them, or trajectories where the shift is continuous."""
        return self.keep(("sample", each), lambda: self._sample(each))

    def _sample(self, each: int) -> dict[tuple[int, int], Indices]:
        rows, chosen = self.metadata, {}
        group = rows.label.astype(np.int64) * (len(rows.nuisances) + 1) + rows.nuisance + 1
        ends = np.flatnonzero(np.diff(group[self.order])) + 1
        for mine in np.split(self.order, ends) if len(self.order) else ():
            key = int(rows.label[mine[0]]), int(rows.nuisance[mine[0]])
            chosen[key] = self._first(mine, each)
        return chosen

    def _first(self, mine: Indices, each: int) -> Indices:
        """Of the rows of a group so many, or so many trajectories from mild to strong."""
        if not self.is_continuous:
            return mine[:each]
        columns = self.metadata.columns
        parts = np.stack([columns["quantile"][mine], columns["split"][mine].astype(float)])
        begins = np.concatenate([[True], (np.diff(parts) != 0).any(axis=0)])
        return mine[np.cumsum(begins) <= each]

    @property
    def is_continuous(self) -> bool:
        return len(self.severities) > 1

    @cached_property
    def severities(self) -> list[float]:
        return [float(one) for one in np.unique(self.metadata.columns["severity"]) if not np.isnan(one)]

    @cached_property
    def counts(self) -> Indices:
        """Rows of each label (down) and nuisance (across); in the first column those without a nuisance."""
        known = self.metadata
        made = np.zeros((len(known.labels), len(known.nuisances) + 1), np.int64)
        np.add.at(made, (known.label, known.nuisance + 1), 1)
        return made

    @property
    def nuisances(self) -> list[int]:
        """The nuisances that have rows; -1 is without."""
        used: list[int] = (np.flatnonzero(self.counts.any(axis=0)) - 1).tolist()
        return used

    def covers(self, label: int, step: int) -> list[int | None]:
        """The first row of each nuisance under a label; at one of the severities where there are several."""
        severity = self.metadata.columns["severity"]
        rows = list[int | None]()
        for nuisance in self.nuisances:
            mine = self.sample(1).get((label, nuisance), np.empty(0, np.int64))
            if self.is_continuous and nuisance >= 0:
                mine = mine[severity[mine] == self.severities[step]]
            rows.append(int(mine[0]) if len(mine) else None)
        return rows

    def row_of(self, key: str) -> int:
        """The row with a key."""
        found = int(self.metadata.rows_of(pa.array([key], pa.large_string()))[0])
        if found < 0:
            raise NotFoundError(
                f"{self.dataset.manifest.name}/{self.base} has no row with the key {key!r:.150}"
            )
        return found

    def listed(self, rows: Sequence[int] | Indices) -> list[dict[str, Any]]:
        """What a page needs of each row to show it: place, key and names; a text or features."""
        at, known = np.asarray(rows, np.int64), self.metadata
        made = [
            {
                "row": row,
                "key": key,
                "split": list(SPLITS)[known.columns["split"][row]],
                "label": int(known.label[row]),
                "nuisance": int(known.nuisance[row]),
                "severity": _number(known.columns["severity"][row]),
            }
            for row, key in zip(at.tolist(), known.keys(at).to_pylist(), strict=True)
        ]
        if self.modality != "image" and self.dataset.manifest.pixels_included:
            for one, text in zip(made, self.texts(at), strict=True):
                one["text"] = text
        return made

    def details(self, rows: Sequence[int] | Indices) -> list[dict[str, Any]]:
        """Everything that is known of some rows, by name; hashes and sizes of their examples too."""
        at = np.asarray(rows, np.int64)
        if not len(at):
            return []
        names = ["fold", "origin", "quantile", "license", "attribution", "params", "sha256", "length"]
        order = np.argsort(at, kind="stable")
        parts = [part for _, part in self.metadata.blocks(names, at[order])]
        size = sum(text_lengths(part[name]).sum() for part in parts for name in TEXTS)
        if size > MOST_TEXTS:
            raise InputError(
                f"{len(at):,} rows have {size:,} bytes of texts, at most {MOST_TEXTS:,} are shown at once: "
                "ask for fewer rows"
            )
        found = [one for part in parts for one in part.to_pylist()]
        back = np.argsort(order, kind="stable")
        made = []
        for place, row in zip(back.tolist(), self.listed(at), strict=True):
            one = found[place]
            one["sha256"] = one["sha256"].hex()
            one["params"] = _params(one["params"])
            one["quantile"] = _number(one["quantile"])
            made.append(one | row)
        if self.scores is not None:
            measured = self.scores.of(pa.array([one["key"] for one in made], pa.string()))
            for one, scores in zip(made, measured, strict=True):
                one["scores"] = scores
        return made

    @cached_property
    def scores(self) -> Scores | None:
        """What filters measured of each rendered sample; None where the base was not filtered."""
        path = f"filters/{self.base}.parquet"
        return Scores.read(self.dataset, path) if path in self.dataset.manifest.files else None

    def appearances(self, row: int) -> Indices:
        """Every row of the same label and origin: its other nuisances, severities and copies."""
        known = self.metadata
        same = (known.origin == known.origin[row]) & (known.label == known.label[row])
        chosen: Indices = self.order[same[self.order]]
        return chosen

    def examples(self, rows: Sequence[int] | Indices) -> list[bytes]:
        """The bytes of some examples, none but theirs; none at all where the dataset lacks them."""
        if not self.dataset.manifest.pixels_included:
            return []
        return self.reader.read([int(row) for row in rows])

    def texts(self, rows: Sequence[int] | Indices) -> list[Any]:
        """Some examples as a page shows them: a text, or a table's features by name."""
        features = list(self.dataset.manifest.roles.example)
        read = self.examples(rows)
        if self.modality == "text":
            return [data.decode(errors="replace") for data in read]
        return [dict(zip(features, json.loads(data), strict=True)) for data in read]


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _params(text: str | None) -> Mapping[str, Any] | str:
    """A row's provenance as a record; what is not JSON stays a text."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return str(text)
    return read if isinstance(read, dict) else str(text)
