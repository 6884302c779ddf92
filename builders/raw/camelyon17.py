"""Camelyon17 as WILDS cuts it: patches of slides of lymph nodes, from five hospitals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name
from builders.raw.tables import file_named, rows_of, table_in, unlisted
from builders.raw.tree import Tree
from shiftdata.data.metadata.listing import ORDER

METADATA = "metadata.csv"
COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
#: The list of each center; that of the others stands in the column `split`.
LIST_OF_CENTER = {"1": "val", "2": "test"}
LIST_OF_SPLIT = {"0": "train", "1": "id_val"}
CENTERS = tuple(f"center_{number}" for number in range(5))


@dataclass(frozen=True, kw_only=True)
class Camelyon17:
    """`metadata.csv`, and the patch that each of its rows names, wherever that lies.

    `labels` are those of `tumor` 0 and 1. The patches of a slide have one origin, whatever they show.
    """

    code_version: ClassVar[int] = 1

    labels: Sequence[str]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every patch, with its place in its list; then what one of the two lacks."""
        files = by_name(tree)
        metadata = file_named(tree, files, METADATA, "what the patches show")
        taken, places = set[str](), Counter[str]()
        for number, cells in enumerate(rows_of(table_in(tree, metadata, COLUMNS))):
            patient, node, x, y, tumor, slide, center, split = cells
            name = f"patch_patient_{patient}_node_{node}_x_{x}_y_{y}.png"
            list_ = LIST_OF_CENTER.get(center) or LIST_OF_SPLIT.get(split, "")
            place, places[list_] = places[list_], places[list_] + 1
            if why := _fault(cells, list_) or ("there already, in an earlier row" if name in taken else ""):
                yield Odd(file=f"{metadata}, row {number} ({name})", why=why)
            elif name not in files:
                yield Odd(file=name, why=f"{METADATA} lists it, and it is not there")
            else:
                yield Row(
                    file=files[name],
                    label=self.labels[int(tumor)],
                    nuisance=f"center_{center}",
                    origin=f"slide_{slide}",
                    across=True,
                    more={
                        "patient": patient,
                        "node": node,
                        "slide": slide,
                        LISTS: {ORDER: number, list_: place},
                    },
                )
            taken.add(name)
        yield from unlisted(files, taken, METADATA)


def _fault(cells: Sequence[str], list_: str) -> str:
    """Why a row of the metadata cannot be used."""
    *_, tumor, _, center, split = cells
    if tumor not in ("0", "1"):
        return f"its tumor is {tumor!r}, neither 0 nor 1"
    if f"center_{center}" not in CENTERS:
        return f"its center is {center!r}, not one of 0 to 4"
    return "" if list_ else f"its split is {split!r}, neither 0 (train) nor 1 (id_val)"
