"""Blocks: the units of rendering, a fixed handful of items each with all their nuisances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from builders.items import ItemTable, taken
from shiftdata.data.arrays import IntArray
from shiftdata.stable import content_hash

#: Enough to keep a process busy for longer than its file takes.
ITEMS_PER_BLOCK: Mapping[str, int] = {"image": 8, "text": 64, "table": 64}
#: Of items that come with their nuisance, each of which makes one sample.
SAMPLES_PER_BLOCK = 64
DIGITS = 20
#: Keys that are Python texts at once.
KEYS_AT_ONCE = 50_000


class Block:
    """Some items of one layer; `id` names their file in the spool.

    `weight` is how many samples they make if none is dropped. A block refers to rows of a table; pickled, for
    a worker, it takes these rows along and nothing else.
    """

    __slots__ = ("id", "layer", "rows", "table", "weight")

    def __init__(self, table: ItemTable, rows: IntArray, layer: str, name: str, weight: int) -> None:
        self.table, self.rows, self.layer, self.id, self.weight = table, rows, layer, name, weight

    @property
    def items(self) -> ItemTable:
        """The items, read when they are asked for."""
        return self.table.take(self.rows)

    def __str__(self) -> str:
        return f"the block {self.id} of {self.items[0].key} to {self.items[-1].key}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.items, np.arange(len(self.rows)), self.layer, self.id, self.weight)


def cut_into_blocks(
    table: ItemTable, rows: IntArray, layer: str, size: int, weights: Callable[[IntArray], IntArray]
) -> list[Block]:
    """Cut consecutive rows of items into blocks of at most `size`; `weights` counts the samples of rows."""
    starts = range(0, len(rows), size)
    sizes = np.add.reduceat(weights(rows), starts).tolist() if len(rows) else []
    return [
        Block(table, rows[start : start + size], layer, name, weight)
        for start, name, weight in zip(starts, _ids(table, rows, layer, size), sizes, strict=True)
    ]


def _ids(table: ItemTable, rows: IntArray, layer: str, size: int) -> Iterator[str]:
    """The name of each block in the spool, made from what is in it."""
    keys_of, step = table.columns.select(["key"]), max(1, KEYS_AT_ONCE // size) * size
    for first in range(0, len(rows), step):
        keys: Sequence[str] = taken(keys_of, rows[first : first + step])["key"].to_pylist()
        for start in range(0, len(keys), size):
            yield f"{layer}-{content_hash(*keys[start : start + size])[:DIGITS]}"
