"""shiftdata: distribution-shift datasets that load, repeat and can be checked.

`import shiftdata` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.baselines import losses as losses
    from shiftdata.baselines import train
    from shiftdata.bench.leaderboard import leaderboard
    from shiftdata.bench.papers import Results, published, ranking
    from shiftdata.data.dataset import OpenDataset, open_dataset
    from shiftdata.data.exporting.folders import export
    from shiftdata.data.fetching import fetch
    from shiftdata.data.format.manifest import Manifest
    from shiftdata.data.loading.plain_datasets import DatasetSummary, info, list_datasets, load_dataset
    from shiftdata.data.loading.tars import webdataset
    from shiftdata.data.metadata import Metadata, metadata_from_table, read_metadata
    from shiftdata.data.verifying import Problem, verify
    from shiftdata.errors import (
        ChangedError,
        InputError,
        IntegrityError,
        MissingExtraError,
        NotFoundError,
        ShiftdataError,
        StorageError,
    )
    from shiftdata.evaluation.protocols import GroupFairness, protocol, task
    from shiftdata.evaluation.protocols.rlsbench import rlsbench
    from shiftdata.evaluation.tasks import Task, imagenet_outputs

__version__ = "0.1.0"

#: Which module has each name.
_HOMES = {
    "baselines": "train",
    "bench.leaderboard": "leaderboard",
    "data.dataset": "OpenDataset open_dataset",
    "errors": "ChangedError InputError IntegrityError MissingExtraError NotFoundError"
    " ShiftdataError StorageError",
    "data.exporting.folders": "export",
    "data.fetching": "fetch",
    "data.format.manifest": "Manifest",
    "data.loading.plain_datasets": "DatasetSummary info list_datasets load_dataset",
    "data.loading.tars": "webdataset",
    "data.metadata": "Metadata metadata_from_table read_metadata",
    "bench.papers": "Results published ranking",
    "evaluation.protocols": "GroupFairness protocol task",
    "evaluation.protocols.rlsbench": "rlsbench",
    "evaluation.tasks": "Task imagenet_outputs",
    "data.verifying": "Problem verify",
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
    if name == "losses":  # a module, so that `from shiftdata import losses` is short
        return import_module("shiftdata.baselines.losses")
    if name not in _HOME:
        raise AttributeError(f"module 'shiftdata' has no attribute {name!r}")
    value = getattr(import_module(f"shiftdata.{_HOME[name]}"), name)
    globals()[name] = value  # so that this runs once a name
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
