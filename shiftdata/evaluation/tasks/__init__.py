"""Tasks: named sets of rows, made from metadata by a protocol.

`task` has `Task`, `sets` its sets, `report` what is in them, `frozen` tasks as files,
`evaluation` what predictions are worth, `official` the metrics that protocols name, `outputs` what models
of other labels mean.
"""

from __future__ import annotations

from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.outputs import imagenet_outputs
from shiftdata.evaluation.tasks.sets import LeakWarning, OnEmpty, Role, RowSet
from shiftdata.evaluation.tasks.task import Task

__all__ = ["Evaluation", "LeakWarning", "OnEmpty", "Role", "RowSet", "Task", "imagenet_outputs"]
