"""shiftdata: distribution-shift datasets that load, repeat and can be checked.

`import shiftdata` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.dataset import OpenDataset, open_dataset
    from shiftdata.errors import (
        ChangedError,
        InputError,
        IntegrityError,
        MissingExtraError,
        NotFoundError,
        ShiftdataError,
        StorageError,
    )
    from shiftdata.exporting.folders import export
    from shiftdata.fetching import fetch
    from shiftdata.format.manifest import Manifest
    from shiftdata.loading.plain_datasets import DatasetSummary, info, list_datasets, load_dataset
    from shiftdata.loading.tars import webdataset
    from shiftdata.metadata import Metadata, metadata_from_table, read_metadata
    from shiftdata.papers import Results, leaderboard, published
    from shiftdata.protocols import GroupFairness, protocol, task
    from shiftdata.tasks import Task
    from shiftdata.verifying import Problem, verify

__version__ = "0.1.0"

_HOME = {
    "ChangedError": "errors",
    "DatasetSummary": "loading.plain_datasets",
    "GroupFairness": "protocols",
    "InputError": "errors",
    "IntegrityError": "errors",
    "Manifest": "format.manifest",
    "Metadata": "metadata",
    "MissingExtraError": "errors",
    "NotFoundError": "errors",
    "OpenDataset": "dataset",
    "Problem": "verifying",
    "Results": "papers",
    "ShiftdataError": "errors",
    "StorageError": "errors",
    "Task": "tasks",
    "export": "exporting.folders",
    "fetch": "fetching",
    "info": "loading.plain_datasets",
    "leaderboard": "papers",
    "list_datasets": "loading.plain_datasets",
    "load_dataset": "loading.plain_datasets",
    "metadata_from_table": "metadata",
    "open_dataset": "dataset",
    "protocol": "protocols",
    "published": "papers",
    "read_metadata": "metadata",
    "task": "protocols",
    "verify": "verifying",
    "webdataset": "loading.tars",
}

__all__ = [
    "ChangedError",
    "DatasetSummary",
    "GroupFairness",
    "InputError",
    "IntegrityError",
    "Manifest",
    "Metadata",
    "MissingExtraError",
    "NotFoundError",
    "OpenDataset",
    "Problem",
    "Results",
    "ShiftdataError",
    "StorageError",
    "Task",
    "export",
    "fetch",
    "info",
    "leaderboard",
    "list_datasets",
    "load_dataset",
    "metadata_from_table",
    "open_dataset",
    "protocol",
    "published",
    "read_metadata",
    "task",
    "verify",
    "webdataset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'shiftdata' has no attribute {name!r}")
    value = getattr(import_module(f"shiftdata.{_HOME[name]}"), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
