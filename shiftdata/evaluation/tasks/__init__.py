"""Tasks: named sets of rows, made from metadata by a protocol.

`task` has `Task`, `sets` its sets, `rows` their rows, `report` what is in them, `frozen` tasks as files,
`evaluation` the figures of predictions, `official` the metrics that protocols name.
"""

from shiftdata.evaluation.tasks.evaluation import Evaluation as Evaluation
from shiftdata.evaluation.tasks.predictions import imagenet_outputs as imagenet_outputs
from shiftdata.evaluation.tasks.sets import LeakWarning as LeakWarning
from shiftdata.evaluation.tasks.sets import MuWarning as MuWarning
from shiftdata.evaluation.tasks.sets import OneClassWarning as OneClassWarning
from shiftdata.evaluation.tasks.sets import OnEmpty as OnEmpty
from shiftdata.evaluation.tasks.sets import Role as Role
from shiftdata.evaluation.tasks.sets import RowSet as RowSet
from shiftdata.evaluation.tasks.sets import TaskWarning as TaskWarning
from shiftdata.evaluation.tasks.task import Task as Task
