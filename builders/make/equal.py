"""Equal content is one origin, whatever its files are called: found when an album is listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.albums import Album, Hashed, LeavesOut
from builders.items import ItemTable, taken
from builders.sample import Item
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.names import shown
from shiftdata.data.format.records import EqualContent

MOST_SETS = 3  # that a message names
MOST_ITEMS = 4  # of a set
DIGEST_BYTES, WORD = 32, 8


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The items of an album, with one origin for equal content; `equal` has the rows of each such set."""

    album: Album
    items: ItemTable
    equal: Sequence[IntArray]

    @cached_property
    def counts(self) -> EqualContent:
        """Count equal content for the manifest and the card."""
        nuisance = self.items.codes("nuisance")
        return EqualContent(
            items=sum(map(len, self.equal)),
            sets=len(self.equal),
            labels=len(self._conflicts),
            nuisances=sum(len(np.unique(nuisance[rows])) > 1 for rows in self.equal),
        )

    @cached_property
    def _conflicts(self) -> Sequence[IntArray]:
        label = self.items.codes("label")
        return [rows for rows in self.equal if len(np.unique(label[rows])) > 1]

    def warnings(self) -> Iterator[str]:
        """Name equal content for its owner before a build, and what to do."""
        counts = self.counts
        if counts.sets:
            yield (
                f"note: equal bytes: {counts.items:,} items are {counts.sets:,} when each counts once, "
                f"such as {self._named(self.equal[0])}; equal items share an origin, and so a split"
            )
        if self._conflicts:
            named = "; ".join(map(self._named, self._conflicts[:MOST_SETS]))
            yield (
                f"warning: equal bytes under several labels ({counts.labels:,}): {named}. Where only one "
                "label can be right, keep that item and delete the others. Observations that may differ can "
                "stay: no split leaks, but a model sees different labels for one input"
            )

    def _named(self, rows: IntArray) -> str:
        """Name some items of a set with their labels, those of other labels first."""
        label = self.items.codes("label")[rows]
        _, first = np.unique(label, return_index=True)
        others = np.setdiff1d(np.arange(len(rows)), first)
        chosen = np.sort(rows[np.concatenate([first, others])[:MOST_ITEMS]])
        names = [f"{self._place(item)} ({shown(item.label)})" for item in self.items.take(chosen)]
        more = f" and {len(rows) - len(chosen):,} more" if len(rows) > len(chosen) else ""
        return " = ".join(names) + more

    def _place(self, item: Item) -> str:
        return shown(self.album.place(item)) if isinstance(self.album, LeavesOut) else item.key


def listed(album: Album, folder: Path | None = None) -> Listed:
    """List an album, each connected component of given origins and equal content as one origin.

    The origin is named as the first of those it joins, so that the order of the items does not matter. With a
    `folder`, the items are in a file there, and not in memory.
    """
    items = ItemTable.of(album.items(), folder)
    if isinstance(album, Hashed):
        digests = album.digests()
        items = items.with_column("digest", pa.array([_bytes_of(digests.get(item.key)) for item in items]))
    equal = _equal(items)
    rows = np.concatenate([np.empty(0, np.int64), *equal])
    origins = iter(taken(items.columns.select(["origin"]), rows)["origin"].to_pylist())
    name = _joined([[*islice(origins, len(members))] for members in equal])
    return Listed(album=album, items=_renamed(items, name), equal=equal)


def _equal(items: ItemTable) -> list[IntArray]:
    """The rows of each set of items with equal content, in the order of their first keys."""
    digests = items.columns["digest"]
    length = pc.fill_null(pc.binary_length(digests), 0).to_numpy()
    # Those of a scale are named by their origin, and strong shifts make equal ones by chance.
    rows = np.flatnonzero((length == DIGEST_BYTES) & np.isnan(items.severity))
    # Few begin alike, and only these are compared as a whole.
    begins = _first_words(digests)[rows]
    order = np.argsort(begins, kind="stable")
    again = np.flatnonzero(begins[order[1:]] == begins[order[:-1]])
    rows = np.sort(rows[order[np.union1d(again, again + 1)]])
    again_of = taken(items.columns.select(["digest"]), rows)["digest"]
    sets: dict[bytes, list[int]] = defaultdict(list)
    for row, digest in zip(rows.tolist(), again_of.to_pylist(), strict=True):
        sets[digest].append(row)
    return [np.array(members) for members in sets.values() if len(members) > 1]


def _first_words(digests: pa.ChunkedArray) -> NDArray[np.uint64]:
    """The first eight bytes of each digest; zeros for none."""
    words = [np.empty(0, np.uint64)]
    for chunk in digests.chunks:
        begins = pc.binary_slice(pc.fill_null(chunk, bytes(WORD)), 0, WORD)
        words.append(np.frombuffer(begins.buffers()[2] or b"", np.uint64))
    return np.concatenate(words)


def _bytes_of(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)


def _joined(equal: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """The first origin that each origin is joined with."""
    parent: dict[str, str] = {}

    def first(origin: str) -> str:
        while (above := parent.setdefault(origin, origin)) != origin:
            parent[origin] = parent.setdefault(above, above)  # halves the way for the next search
            origin = above
        return origin

    for origins in equal:
        for origin in origins[1:]:
            low, high = sorted((first(origins[0]), first(origin)))
            parent[high] = low
    return {origin: first(origin) for origin in list(parent)}


def _renamed(items: ItemTable, name: Mapping[str, str]) -> ItemTable:
    changed = {origin: to for origin, to in name.items() if origin != to}
    if not changed:
        return items
    origins, values = items.columns["origin"], pa.array(list(changed.values()), pa.string())
    at = pc.index_in(origins, value_set=pa.array(list(changed), pa.string()))
    return items.with_column("origin", pc.coalesce(pc.take(values, at), origins))
