"""A task as the manifest of a dataset describes it: a canonical split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.conditions import pinned
from shiftdata.data.format.front_matter import is_config
from shiftdata.data.format.paths import data_file
from shiftdata.data.format.records import GAPS, CanonicalSet, CanonicalSplit
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.written import size_of
from shiftdata.evaluation.protocols.base import Protocol
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.official import FIGURES
from shiftdata.evaluation.tasks.rows import empty_groups


def canonical_split(
    protocol: Protocol, task: Task, base: str, sizes: IntArray, *, virtual: bool
) -> CanonicalSplit:
    """Describe what a protocol made of a base, whose rows have `sizes`; `virtual` asks for a config."""
    rows, sets = task.metadata, dict[str, CanonicalSet]()
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
        )
    if virtual and not is_config(sets):
        drawn = any(rowset.counts is not None for rowset in task.sets.values())  # files have each row once
        planned = {name: of.files_in(base) for name, of in sets.items()}  # patterns, for the files to come
        files = {} if drawn else own_files(task, base) if "shard" in rows.names else planned
        with_files = {name: replace(of, files=files.get(name, ())) for name, of in sets.items()}
        sets = with_files if is_config(with_files) else sets
    empty = {
        name: len(groups) for name, rowset in task.sets.items() if len(groups := empty_groups(task, rowset))
    }
    return CanonicalSplit(
        name=protocol.config_name,
        summary=protocol.summary(rows.nuisance_column),
        base=base,
        protocol=protocol.words(),
        sets=sets,
        is_config=virtual and is_config(sets),
        authors=protocol.own_files,
        notes=[*task.history.notes, *(f"{GAPS} {name}: {count:,}" for name, count in empty.items())],
        metrics=list(dict.fromkeys(name for metric in task.history.metrics for name in FIGURES[metric])),
    )


def own_files(task: Task, base: str) -> Mapping[str, Sequence[str]]:
    """Name the data files of each set; none unless every set is whole files."""
    split = task.metadata.columns["split"].astype(np.int64)
    shards = task.metadata.take(["shard"])["shard"].to_numpy()
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
