"""shiftdata: distribution-shift datasets that load, repeat and can be checked.

`import shiftdata` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.baselines import train
    from shiftdata.bench.leaderboard import leaderboard
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
    from shiftdata.papers import Results, published, ranking
    from shiftdata.protocols import GroupFairness, protocol, task
    from shiftdata.protocols.rlsbench import rlsbench
    from shiftdata.tasks import Task, imagenet_outputs
    from shiftdata.verifying import Problem, verify

__version__ = "0.1.0"

#: Which module has each name.
_HOMES = {
    "baselines": "train",
    "bench.leaderboard": "leaderboard",
    "dataset": "OpenDataset open_dataset",
    "errors": "ChangedError InputError IntegrityError MissingExtraError NotFoundError"
    " ShiftdataError StorageError",
    "exporting.folders": "export",
    "fetching": "fetch",
    "format.manifest": "Manifest",
    "loading.plain_datasets": "DatasetSummary info list_datasets load_dataset",
    "loading.tars": "webdataset",
    "metadata": "Metadata metadata_from_table read_metadata",
    "papers": "Results published ranking",
    "protocols": "GroupFairness protocol task",
    "protocols.rlsbench": "rlsbench",
    "tasks": "Task imagenet_outputs",
    "verifying": "Problem verify",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["ChangedError", "DatasetSummary", "GroupFairness", "InputError", "IntegrityError", "Manifest"]
__all__ += ["Metadata", "MissingExtraError", "NotFoundError", "OpenDataset", "Problem", "Results"]
__all__ += ["ShiftdataError", "StorageError", "Task"]
__all__ += ["export", "fetch", "imagenet_outputs", "info", "leaderboard", "list_datasets", "load_dataset"]
__all__ += [
    "metadata_from_table",
    "open_dataset",
    "protocol",
    "published",
    "ranking",
    "read_metadata",
    "rlsbench",
    "task",
    "train",
    "verify",
    "webdataset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'shiftdata' has no attribute {name!r}")
    value = getattr(import_module(f"shiftdata.{_HOME[name]}"), name)
    globals()[name] = value  # so that this runs once a name
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
