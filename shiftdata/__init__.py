"""shiftdata: distribution-shift datasets that load, repeat and can be checked.

`import shiftdata` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftdata.errors import (
        InputError,
        IntegrityError,
        MissingExtraError,
        NotFoundError,
        ShiftdataError,
        StorageError,
    )
    from shiftdata.fetching import fetch
    from shiftdata.layouts import export
    from shiftdata.loading import DatasetSummary, info, list_datasets, load_dataset
    from shiftdata.manifest import Manifest
    from shiftdata.protocols import GroupFairness, protocol
    from shiftdata.results import Results, leaderboard, published
    from shiftdata.rows import Metadata
    from shiftdata.tasks import Task, task
    from shiftdata.verification import Problem, verify
    from shiftdata.wds import webdataset

__version__ = "0.1.0"

_HOME = {
    "DatasetSummary": "loading",
    "GroupFairness": "protocols",
    "InputError": "errors",
    "IntegrityError": "errors",
    "Manifest": "manifest",
    "Metadata": "rows",
    "MissingExtraError": "errors",
    "NotFoundError": "errors",
    "Problem": "verification",
    "Results": "results",
    "ShiftdataError": "errors",
    "StorageError": "errors",
    "Task": "tasks",
    "export": "layouts",
    "fetch": "fetching",
    "info": "loading",
    "leaderboard": "results",
    "list_datasets": "loading",
    "load_dataset": "loading",
    "protocol": "protocols",
    "published": "results",
    "task": "tasks",
    "verify": "verification",
    "webdataset": "wds",
}

__all__ = [
    "DatasetSummary",
    "GroupFairness",
    "InputError",
    "IntegrityError",
    "Manifest",
    "Metadata",
    "MissingExtraError",
    "NotFoundError",
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
    "protocol",
    "published",
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
