"""From a dataset and a protocol to a task: what `sd.task` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shiftdata.dataset import DatasetName
from shiftdata.errors import InputError
from shiftdata.metadata import Metadata, read_metadata
from shiftdata.protocols import Protocol, protocol
from shiftdata.tasks.core import Task
from shiftdata.tasks.sets import OnEmpty


def task(
    dataset: DatasetName | Metadata,
    of: str | Protocol | None = None,
    *,
    base: str | None = None,
    on_empty: OnEmpty = "error",
    **params: Any,
) -> Task:
    """The task that a protocol makes from a dataset.

    Args:
        dataset: a name, `shift/<name>`, a folder, a URL, or metadata.
        of: a protocol, the name of one, or a file that `freeze` wrote (its name ends in .parquet);
            None is the canonical train, validation and test.
        base: the dataset's base; default: its default base.
        on_empty: "error" refuses a group without rows where the protocol promises some, "report" has it
            as n = 0 in the report.
        params: of the named protocol, see `shiftdata.protocols.protocols()`.

    """
    frozen = isinstance(of, str) and of.endswith(".parquet")
    if params and (frozen or not isinstance(of, str)):
        raise InputError(
            f"{', '.join(params)}: parameters go with the name of a protocol, not with an object or a file"
        )
    if isinstance(dataset, Metadata) and base is not None:
        raise InputError(f"base={base!r} goes with the name of a dataset; metadata is of one base")
    metadata = dataset if isinstance(dataset, Metadata) else read_metadata(dataset, base)
    if isinstance(of, str):
        if frozen:
            return Task.frozen(metadata, Path(of))
        of = protocol(of, **params)
    made = Task.canonical(metadata)
    return made if of is None else of(made, on_empty=on_empty)
