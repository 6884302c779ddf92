"""A task as the manifest of a dataset describes it: a canonical split."""

from __future__ import annotations

import numpy as np

from shiftdata.data.format.conditions import pinned
from shiftdata.data.format.front_matter import virtual_configs
from shiftdata.data.format.records import GAPS, CanonicalSet, CanonicalSplit
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.writer import Indices
from shiftdata.data.format.written import size_of
from shiftdata.evaluation.protocols.base import Protocol
from shiftdata.evaluation.tasks import Task


def canonical_split(
    protocol: Protocol, task: Task, base: str, sizes: Indices, *, virtual: bool
) -> CanonicalSplit:
    """Describe what a protocol made of a base, whose rows have `sizes`; `virtual` asks for configs."""
    rows, sets = task.metadata, {}
    for name, one in task.sets.items():
        at = one.indices if one.counts is None else np.repeat(one.indices, one.counts)
        splits = [list(SPLITS)[number] for number in np.unique(rows.columns["split"][at])]
        exact = one.filters is not None and one.counts is None
        sets[name] = CanonicalSet(
            roles=list(one.roles),
            size=size_of(rows.group[at], sizes[at]),
            splits=splits,
            filters=pinned(one.filters, splits) if exact and one.filters is not None else None,
            reason="" if exact else one.reason,
        )
    empty = {name: len(one.empty) for name, one in task.report().sets.items() if one.empty}
    return CanonicalSplit(
        name=protocol.config_name,
        summary=protocol.summary(rows.nuisance_column),
        base=base,
        protocol=protocol.words(),
        sets=sets,
        configs=virtual_configs(protocol.config_name, sets) if virtual else {},
        notes=[*task.notes, *(f"{GAPS} {name}: {count:,}" for name, count in empty.items())],
    )
