"""Tasks: named sets of rows that a protocol makes from a dataset's metadata. No pixel is read.

`core` is the task itself, `sets` its parts, `report` what is in it, `frozen` its form on disk, `cli` the
verb `shiftdata task`.
"""

from __future__ import annotations

from shiftdata.tasks.core import Task
from shiftdata.tasks.make import task
from shiftdata.tasks.report import Report, SetReport
from shiftdata.tasks.sets import LeakWarning, OnEmpty, RowSet

__all__ = ["LeakWarning", "OnEmpty", "Report", "RowSet", "SetReport", "Task", "task"]
