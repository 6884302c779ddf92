"""Tasks: named sets of rows, made from metadata by a protocol.

`task` has `Task`, `sets` its sets, `report` what is in them, `frozen` tasks as files.
"""

from __future__ import annotations

from shiftdata.tasks.sets import LeakWarning, OnEmpty, Role, RowSet
from shiftdata.tasks.task import Task

__all__ = ["LeakWarning", "OnEmpty", "Role", "RowSet", "Task"]
