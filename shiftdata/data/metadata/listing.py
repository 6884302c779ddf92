"""The files that rows were made from, and the places of rows in the lists of a dataset's authors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.untrusted.texts import read_json

#: The list of all rows in the order of their authors' code, where names do not give it.
ORDER = "files"


@dataclass(frozen=True, eq=False)
class Listing:
    """The name of each row's file, and its place in each list, from 0; -1 if a list lacks it."""

    files: pa.ChunkedArray
    places: Mapping[str, NDArray[np.int64]]

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """A number that sorts rows as their authors' code lists them: the list `files`, else by name."""
        if ORDER in self.places:
            return self.places[ORDER]
        ranks = np.empty(len(self.files), np.int64)
        ranks[pc.sort_indices(self.files).to_numpy()] = np.arange(len(ranks))
        return ranks

    def places_in(self, name: str, dataset: str) -> NDArray[np.int64]:
        """Return the places of all rows in a list that must exist."""
        if name not in self.places:
            lists = ", ".join(map(repr, self.places)) or "none"
            raise InputError(
                f"the rows of {dataset} come without the authors' list {name!r} (lists: {lists}): put the "
                "list files next to the pictures, and build the dataset again"
            )
        return self.places[name]


def listing_of(params: Iterable[pa.ChunkedArray], dataset: str) -> Listing:
    """Read the files and lists of all rows from their `params`."""
    files: list[str] = []
    places: dict[str, dict[int, int]] = {}  # of each list, by row
    for column in params:
        for text in column.to_pylist():
            file, lists = _file_and_lists(text)
            if file is None:
                raise InputError(f"the rows of {dataset} do not name their authors' files: build from them")
            for name, place in lists.items():
                places.setdefault(name, {})[len(files)] = place
            files.append(file.rpartition("/")[2])
    every = {name: np.full(len(files), -1, np.int64) for name in places}
    for name, column in every.items():
        column[list(places[name])] = list(places[name].values())
    return Listing(pa.chunked_array([pa.array(files, pa.large_string())]), every)


def _file_and_lists(params: str | None) -> tuple[str | None, Mapping[str, int]]:
    try:
        values = read_json(params or "{}")
        lists = {name: int(place) for name, place in values.get("lists", {}).items()}
        named = isinstance(values.get("file"), str) and not values.get("nameless")
        return (values["file"] if named else None), lists
    except (ValueError, TypeError, AttributeError):
        return None, {}
