"""A task as the manifest of a dataset describes it: a canonical split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.conditions import pinned
from shiftdata.data.format.front_matter import virtual_configs
from shiftdata.data.format.paths import data_file
from shiftdata.data.format.records import GAPS, CanonicalSet, CanonicalSplit
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.written import size_of
from shiftdata.evaluation.protocols.base import Protocol
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import empty_groups


def canonical_split(
    protocol: Protocol,
    task: Task,
    base: str,
    sizes: IntArray,
    shards: IntArray | None = None,
    *,
    virtual: bool,
) -> CanonicalSplit:
    """Describe what a protocol made of a base, whose rows have `sizes`; `virtual` asks for configs.

    With the number of each row's data file, `shards`, a protocol of which sets have files names these.
    """
    rows, sets = task.metadata, {}
    files = {} if shards is None or not protocol.own_files else _own_files(task, base, shards)
    for name, rowset in task.sets.items():
        at = rowset.indices if rowset.counts is None else np.repeat(rowset.indices, rowset.counts)
        splits = [list(SPLITS)[number] for number in np.unique(rows.columns["split"][at])]
        exact = rowset.filters is not None and rowset.counts is None
        sets[name] = CanonicalSet(
            roles=list(rowset.roles),
            size=size_of(rows.group[at], sizes[at]),
            splits=splits,
            filters=pinned(rowset.filters, splits) if exact and rowset.filters is not None else None,
            reason="" if exact else rowset.reason,
            files=files.get(name, ()),
        )
    empty = {
        name: len(groups) for name, rowset in task.sets.items() if len(groups := empty_groups(task, rowset))
    }
    return CanonicalSplit(
        name=protocol.config_name,
        summary=protocol.summary(rows.nuisance_column),
        base=base,
        protocol=protocol.words(),
        sets=sets,
        configs=virtual_configs(protocol.config_name, sets) if virtual else {},
        notes=[*task.history.notes, *(f"{GAPS} {name}: {count:,}" for name, count in empty.items())],
    )


def _own_files(task: Task, base: str, shards: IntArray) -> Mapping[str, Sequence[str]]:
    """Name the data files of each set; none unless every set is whole files."""
    split = task.metadata.columns["split"].astype(np.int64)
    counts = [int(shards[split == number].max(initial=-1)) + 1 for number in range(len(SPLITS))]
    names = [
        data_file(base, of, shard, count)
        for of, count in zip(SPLITS, counts, strict=True)
        for shard in range(count)
    ]
    file = (np.cumsum(counts) - counts)[split] + shards
    files = {name: np.unique(file[rowset.indices]) for name, rowset in task.sets.items()}
    if any(np.isin(file, files[name]).sum() != len(rowset) for name, rowset in task.sets.items()):
        return {}
    return {name: [names[number] for number in numbers] for name, numbers in files.items()}
