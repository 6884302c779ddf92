"""Which rows of a dataset a part holds: a config, splits, and conditions on columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.format.conditions import parse_condition, resolve, rows_matching
from shiftdata.format.manifest import Condition, Config, Manifest, Part
from shiftdata.format.schema import SPLITS

#: What a caller gives: values by column, or conditions in words such as "severity<=1.5".
Select: TypeAlias = Mapping[str, Any] | Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Rows of a base: of a canonical split if `config` is one, in some splits, under conditions."""

    base: str
    config: Config | None
    splits: tuple[str, ...]
    conditions: tuple[Condition, ...]

    @property
    def name(self) -> str:
        """The config that was asked for."""
        return self.config.name if self.config else self.base

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether nothing is left out."""
        every = manifest.base(self.base).splits
        plain = self.config is None and not self.conditions and len(self.splits) == len(every)
        return plain and len(manifest.bases) == 1

    def record(self, digest: str, manifest: Manifest) -> Part:
        """What the manifest of the part says of it."""
        return Part(
            manifest=digest,
            content_id=manifest.content_id,
            config=self.name,
            splits=list(self.splits),
            conditions=list(self.conditions),
        )

    def rows(self, table: pa.Table) -> NDArray[np.int64]:
        """The rows of a split's metadata that are chosen, in their order."""
        numbered = table.append_column("number of row", pa.array(np.arange(len(table))))
        if self.config is not None:
            numbered = rows_matching(numbered, self.config.filters)
        if self.conditions:
            numbered = rows_matching(numbered, [list(self.conditions)])
        found: NDArray[np.int64] = numbered["number of row"].to_numpy()
        return found


def selection_of(
    manifest: Manifest, config: str | None, select: Select | None, split: str | Sequence[str] | None
) -> Selection:
    """The rows that were asked for; an unknown name is answered with the nearest ones."""
    if manifest.is_webdataset:
        what = "is in WebDataset format, which has no parts: fetch a part of the Parquet dataset"
        raise InputError(f"{manifest.name} {what}")
    if manifest.part is not None:
        raise InputError(f"{manifest.name} is a part itself there: fetch the part from the whole")
    names = [base.name for base in manifest.bases] + [one.name for one in manifest.configs]
    wanted = config or manifest.default_base
    if wanted not in names:
        raise not_found("config", wanted, names, f"See `shiftdata info {manifest.name}`.")
    canonical = manifest.config(wanted)
    if canonical and not canonical.filters:
        raise InputError(f"{wanted} is frozen as keys, without filters: fetch its base, {canonical.base}")
    base = canonical.base if canonical else wanted
    held = [name for name in SPLITS if name in manifest.splits_of(wanted)]
    splits = [split] if isinstance(split, str) else list(split) if split is not None else held
    for one in splits:
        if one not in held:
            raise not_found("split", one, held, f"It was asked of {wanted}.")
    conditions: list[Condition] = []
    for given in parsed(select or ()):
        if given[0] == "split":
            raise InputError("splits are chosen by --split (split=... in Python), not by --select")
        found = resolve(
            given, labels=manifest.labels, nuisance=manifest.roles.nuisance, nuisances=manifest.nuisances
        )
        if found not in conditions:
            conditions.append(found)
    conditions.sort(key=lambda one: (one[0], one[1], str(one[2])))
    return Selection(base, canonical, tuple(name for name in held if name in splits), tuple(conditions))


def parsed(select: Select) -> list[Condition]:
    """A selection as conditions.

    >>> parsed(["style=leaves,rust", "severity <= 1.5"])
    [('style', 'in', ['leaves', 'rust']), ('severity', '<=', 1.5)]
    >>> parsed({"style": "cloud", "label": ["bird", "dog"]})
    [('style', 'in', ['cloud']), ('label', 'in', ['bird', 'dog'])]
    """
    if isinstance(select, Mapping):
        return [
            (name, "in", list(value) if isinstance(value, list | tuple | set | frozenset) else [value])
            for name, value in select.items()
        ]
    return [parse_condition(text) for text in ([select] if isinstance(select, str) else select)]
