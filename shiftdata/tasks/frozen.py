"""Tasks as files: which keys are in which set, how often, and what each set is for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.errors import InputError
from shiftdata.format.typed import read_json
from shiftdata.metadata import Metadata
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from shiftdata.tasks.sets import Indices, Role, RowSet

KEY = b"shiftdata"


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """What a frozen task says of itself: where it is from, its metrics, and what its sets are for."""

    dataset: str = ""
    base: str = ""
    history: tuple[str, ...] = ()
    roles: Mapping[str, tuple[Role, ...]] = field(default_factory=dict)
    sides: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: The numbers of the groups that a set should have and does not.
    empty: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Frozen:
        """What a file says; nothing where it was written by others."""
        text = (_opened(path).schema_arrow.metadata or {}).get(KEY)
        if text is None:
            return cls()
        try:
            raw: dict[str, Any] = read_json(text)
            raw["roles"] = {name: tuple(roles) for name, roles in raw["roles"].items()}
            raw |= {name: tuple(raw[name]) for name in ("history", "metrics", "notes")}
            raw["empty"] = {name: tuple(groups) for name, groups in raw["empty"].items()}
            return cls(**raw)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path} was frozen by another version of shiftdata ({error!r}): freeze the task again"
            ) from error


def frozen_table(metadata: Metadata, sets: Mapping[str, RowSet], about: Frozen | None = None) -> pa.Table:
    """Each set in the order of its keys: key, split (the set's name), count."""
    parts = []
    for name, rows in sets.items():
        counts = np.ones(len(rows.indices), np.int64) if rows.counts is None else rows.counts
        keys = metadata.keys(rows.indices)
        columns = {"key": keys, "split": [name] * len(keys), "count": pa.array(counts, pa.int32())}
        parts.append(pa.table(columns).sort_by("key"))
    table = pa.concat_tables(parts)
    return table if about is None else table.replace_schema_metadata({KEY: json.dumps(asdict(about))})


def read_frozen(metadata: Metadata, path: Path) -> tuple[Frozen, dict[str, tuple[Indices, Indices | None]]]:
    """What a frozen task says, the rows of each set, and how often each was drawn where that is not once."""
    try:
        table = _opened(path).read(columns=["key", "split", "count"])
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise InputError(
            f"{path} is not a frozen task with the columns key, split, count: {error}"
        ) from error
    rows = pc.index_in(table["key"], value_set=metadata.table["key"].combine_chunks())
    if rows.null_count:
        key = table["key"].filter(rows.is_null())[0].as_py()
        raise InputError(
            f"{rows.null_count} keys of {path} are not in {metadata.name}, such as {key!r}: "
            "give the base that the task was frozen from"
        )
    sets: dict[str, tuple[Indices, Indices | None]] = {}
    for name in pc.unique(table["split"]).to_pylist():
        mine = pc.equal(table["split"], name)
        indices = rows.filter(mine).to_numpy().astype(np.int64)
        counts = table["count"].filter(mine).to_numpy().astype(np.int64)
        order = np.argsort(indices)
        sets[name] = (indices[order], counts[order] if (counts != 1).any() else None)
    return Frozen.read(path), sets


def frozen_id(table: pa.Table, roles: Mapping[str, tuple[Role, ...]]) -> str:
    """The hash of a frozen task: of its sets, their roles, keys and counts."""
    columns = (table[name].to_pylist() for name in ("split", "key", "count"))
    lines = "\n".join("\t".join(map(str, row)) for row in zip(*columns, strict=True))
    return content_hash(json.dumps({name: list(roles[name]) for name in sorted(roles)}), lines)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{path} is not a frozen task with the columns key, split, count: {error}"
        ) from error
