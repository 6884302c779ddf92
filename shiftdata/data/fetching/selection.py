"""The selection of a part: a config, splits, and conditions on columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.format.conditions import parse_condition, resolve, rows_matching
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import in_order
from shiftdata.data.format.records import CanonicalSplit, Condition, Part
from shiftdata.errors import InputError, not_found

#: What a caller gives: values by column, or conditions in words such as "severity<=1.5".
Select: TypeAlias = Mapping[str, Any] | Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Rows of a base under conditions: of some of its splits, or of some sets of a canonical split.

    `name` is the config or the canonical split that was asked for, whose `splits` these are.
    """

    name: str
    base: str
    canonical: CanonicalSplit | None
    splits: tuple[str, ...]
    conditions: tuple[Condition, ...]

    @property
    def files(self) -> list[str]:
        """List the splits of the base in which the rows lie."""
        if self.canonical is None:
            return in_order(self.splits)
        return in_order({of for name in self.splits for of in self.canonical.sets[name].splits})

    def is_whole(self, manifest: Manifest) -> bool:
        """Return True if nothing is left out."""
        every = manifest.base(self.base).splits
        plain = self.canonical is None and not self.conditions and len(self.splits) == len(every)
        return plain and len(manifest.bases) == 1

    def record(self, digest: str, manifest: Manifest) -> Part:
        """Make the record of the part for its manifest."""
        return Part(
            manifest=digest,
            content_id=manifest.content_id,
            config=self.name,
            splits=list(self.splits),
            conditions=list(self.conditions),
        )

    def rows(self, table: pa.Table, frozen: pa.Table | None) -> NDArray[np.int64]:
        """Choose rows of a split's metadata, in their order; `frozen` are the canonical keys."""
        numbered = table.append_column("number of row", pa.array(np.arange(len(table))))
        if frozen is not None:
            asked = pc.is_in(frozen["split"], value_set=pa.array(self.splits))
            keys = frozen.filter(asked)["key"].combine_chunks()
            numbered = numbered.filter(pc.is_in(numbered["key"], value_set=keys))
        if self.conditions:
            numbered = rows_matching(numbered, [list(self.conditions)])
        rows: NDArray[np.int64] = numbered["number of row"].to_numpy()
        return rows


def selection_of(
    manifest: Manifest, config: str | None, select: Select | None, split: str | Sequence[str] | None
) -> Selection:
    """Parse a selection; an unknown name is answered with the nearest ones."""
    if manifest.is_webdataset:
        raise InputError(
            f"{manifest.name} is in WebDataset format, which has no parts: take one of the Parquet dataset"
        )
    if manifest.part is not None:
        raise InputError(f"{manifest.name} is a part itself there: fetch the part from the whole")
    authors = manifest.authors_split if split is not None else None  # their train is not that of the base
    wanted = config or (authors.name if authors else manifest.default_base)
    canonical, base, names = manifest.rows_behind(wanted)
    splits = [split] if isinstance(split, str) else list(split) if split is not None else names
    for name in splits:
        if name not in names:
            raise not_found("split", name, names, f"{wanted} has no such split.")
    conditions: list[Condition] = []
    for given in parsed(select or ()):
        if given[0] == "split":
            raise InputError("splits are chosen by --split (split=... in Python), not by --select")
        condition = resolve(
            given, labels=manifest.labels, nuisance=manifest.roles.nuisance, nuisances=manifest.nuisances
        )
        if condition not in conditions:
            conditions.append(condition)
    conditions.sort(key=lambda condition: (condition[0], condition[1], str(condition[2])))
    chosen = tuple(name for name in names if name in splits)
    return Selection(wanted, base, canonical, chosen, tuple(conditions))


def parsed(select: Select) -> list[Condition]:
    """A selection as conditions.

    >>> parsed(["style=amber,embers", "severity <= 1.5"])
    [('style', 'in', ['amber', 'embers']), ('severity', '<=', 1.5)]
    >>> parsed({"style": "cloud", "label": ["bird", "dog"]})
    [('style', 'in', ['cloud']), ('label', 'in', ['bird', 'dog'])]
    """
    if isinstance(select, Mapping):
        return [
            (name, "in", list(value) if isinstance(value, list | tuple | set | frozenset) else [value])
            for name, value in select.items()
        ]
    return [parse_condition(text) for text in ([select] if isinstance(select, str) else select)]
