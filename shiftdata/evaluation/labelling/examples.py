"""Labels of a dataset's examples, for filters: each beside its untouched origin, or in its trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.conditions import matches, parse_condition, resolve
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.labelling.purposes import FILTER
from shiftdata.evaluation.labelling.table import Key
from shiftdata.evaluation.labelling.work import Item, Shown
from shiftdata.serve.pages.rows import Rows
from shiftdata.stable import ranks

#: The base of untouched pictures.
CONTENT = "content"


class Examples:
    """Examples of a base in an order by stable hash; of each group so many, where `each` says how many."""

    purpose = FILTER

    def __init__(
        self,
        name: DatasetName,
        base: str | None = None,
        conditions: Sequence[str] = (),
        *,
        each: int | None = None,
        seed: int = 0,
    ) -> None:
        self.dataset = open_dataset(name)
        self.rows = pictures_of(self.dataset, base)
        self._made_from: dict[int, int | None] = {}
        chosen = chosen_rows(self.rows, conditions)
        order = chosen[np.argsort(ranks(self.rows.metadata.keys(chosen).to_pylist(), "label", seed))]
        self._chosen = order if each is None else order[_places(self._groups[order]) < each]
        self.keys: list[Key] = [(key,) for key in self.rows.metadata.keys(self._chosen).to_pylist()]
        self.title = f"{self.dataset.manifest.title}: {self.rows.base}"

    @property
    def _groups(self) -> NDArray[np.int64]:
        known = self.rows.metadata
        return known.label.astype(np.int64) * (len(known.nuisances) + 1) + known.nuisance + 1

    @cached_property
    def _content(self) -> Rows | None:
        """The untouched pictures, if the dataset has them in a base of their own."""
        names = [one.name for one in self.dataset.manifest.bases]
        return Rows.of(self.dataset, CONTENT) if CONTENT in names and self.rows.base != CONTENT else None

    def item(self, number: int) -> Item:
        row = int(self._chosen[number])
        known, roles = self.rows.details([row])[0], self.dataset.manifest.roles
        severity = known["severity"]
        along = [
            Shown(f"{one['severity']:g}", one["row"] == row)
            for one in self.rows.listed(self._trajectory(row))
        ]
        facts = {
            roles.label: self.rows.metadata.labels[known["label"]],
            roles.nuisance: self._nuisance(known),
        }
        if severity is not None and self.rows.is_continuous:
            facts["severity"] = f"{severity:g}"
        pictures = [Shown(f"{facts[roles.label]}, {facts[roles.nuisance]}")]
        if self._untouched(row) is not None:
            pictures.append(Shown("untouched", asked=False))
        return Item(title=known["key"], facts=facts, pictures=pictures, trajectory=along)

    def picture(self, number: int, place: int) -> bytes:
        row = int(self._chosen[number])
        untouched = self._untouched(row)
        places: list[tuple[Rows, int]] = [(self.rows, row)]
        if untouched is not None and self._content is not None:
            places.append((self._content, untouched))
        places += [(self.rows, int(one)) for one in self._trajectory(row)]
        if place >= len(places):
            raise NotFoundError(f"picture {place} does not exist here")
        rows, at = places[place]
        return rows.examples([at])[0]

    def knows(self, key: Key) -> bool:
        return bool((self.rows.metadata.rows_of(pa.array([key[0]], pa.large_string())) >= 0).all())

    def _nuisance(self, known: dict[str, Any]) -> str:
        at = known["nuisance"]
        return "untouched" if at < 0 else self.rows.metadata.nuisances[at]

    def _trajectory(self, row: int) -> NDArray[np.int64]:
        """The rows of its trajectory from mild to strong; none where the shift has one strength."""
        if not self.rows.is_continuous:
            return np.empty(0, np.int64)
        known = self.rows.metadata
        mine = np.flatnonzero(known.trajectory == known.trajectory[row])
        ordered: NDArray[np.int64] = mine[np.argsort(known.columns["severity"][mine], kind="stable")]
        return ordered

    def _untouched(self, row: int) -> int | None:
        """The content that it was made from; where its provenance does not say, the first of its origin."""
        if row not in self._made_from:
            self._made_from[row] = None if self._content is None else self._content_of(row, self._content)
        return self._made_from[row]

    def _content_of(self, row: int, rows: Rows) -> int | None:
        params = self.rows.details([row])[0]["params"]
        content, known = rows.metadata, self.rows.metadata
        made_from = params.get("content") if isinstance(params, dict) else None
        at = int(content.rows_of(pa.array([str(made_from)], pa.large_string()))[0])
        if at >= 0:
            return at
        origin = content.origin_names.index(known.origin_names[int(known.origin[row])]).as_py()
        same = np.flatnonzero((content.origin == origin) & (content.label == known.label[row]))
        return int(same[0]) if len(same) else None


def pictures_of(dataset: OpenDataset, base: str | None) -> Rows:
    """The rows of a base of a dataset of pictures."""
    manifest = dataset.manifest
    manifest.require_pixels(dataset.address)
    if manifest.roles.modality != "image" or manifest.is_webdataset:
        raise InputError(f"{manifest.name} has no pictures in Parquet files: only those can be labelled")
    return Rows.of(dataset, base or manifest.default_base)


def chosen_rows(rows: Rows, conditions: Sequence[str]) -> NDArray[np.int64]:
    """The rows that all conditions keep."""
    known = rows.metadata
    names = {"labels": known.labels, "nuisances": known.nuisances}
    clause = [resolve(parse_condition(one), nuisance=known.nuisance_column, **names) for one in conditions]
    texts = sorted({column for column, *_ in clause} - {*known.columns})
    if texts:
        raise InputError(f"{', '.join(texts)}: conditions here are on {', '.join(known.columns)}")
    chosen = np.flatnonzero(matches(known.columns, [clause]))
    if not len(chosen):
        raise InputError(
            f"no row of {rows.dataset.manifest.name}/{rows.base} meets {' '.join(conditions)}: "
            "`shiftdata info` shows what it has"
        )
    return chosen


def _places(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows of its group stand before each row."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.searchsorted(ordered, ordered)
    places = np.empty(len(groups), np.int64)
    places[order] = np.arange(len(groups)) - begins
    return places
