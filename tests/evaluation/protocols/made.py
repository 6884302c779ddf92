"""Made metadata for tests of protocols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shiftdata.data.metadata import Metadata, metadata_from_table
from shiftdata.evaluation.tasks import Task

NICO = ("autumn", "dark", "dim", "grass", "indoor", "outdoor", "rock", "sand", "water", "winter")


def table(
    labels: int = 4,
    kinds: int | Sequence[str] = 5,
    each: int = 20,
    shared: bool = True,
    severities: Sequence[float] = (),
) -> pa.Table:
    """`each` rows a (label, nuisance, severity); where shared, an origin is in every nuisance."""
    names = [f"kind{n}" for n in range(kinds)] if isinstance(kinds, int) else list(kinds)
    rows = []
    for label in range(labels):
        for kind in names:
            for number in range(each):
                origin = f"o{label}-{number}" if shared else f"o{label}-{kind}-{number}"
                for step in severities or (None,):
                    key = f"{label}-{kind}-{number}-{step}"
                    rows.append(
                        {"key": key, "y": f"label{label:02d}", "a": kind, "origin": origin, "step": step}
                    )
    return pa.Table.from_pylist(rows)


def metadata(*args, order: int | None = None, **options) -> Metadata:
    rows = table(*args, **options)
    if order is not None:
        rows = rows.take(pa.array(np.random.default_rng(order).permutation(len(rows))))
    severity = "step" if options.get("severities") else None
    return metadata_from_table(rows, label="y", nuisance="a", origin="origin", severity=severity)


def column(task: Task, name: str, of: str) -> list:
    """Return a column of a set, labelled or not."""
    return task.metadata.table[of].take(pa.array(task.sets[name].indices)).to_pylist()


def origins(task: Task, name: str) -> set[str]:
    return set(column(task, name, "origin"))


def kinds(task: Task, name: str) -> set[str]:
    return {task.metadata.nuisances[n] for n in column(task, name, "a")}


def labels(task: Task, name: str) -> set[int]:
    return set(column(task, name, "label"))
