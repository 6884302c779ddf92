"""Models whose outputs are not the labels of a task, such as the 1,000 of ImageNet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError

if TYPE_CHECKING:
    from shiftdata.evaluation.tasks.task import Task

IMAGENET_CLASSES = 1000
#: How a label of CNS-Bench begins: `022_bald eagle` is the output 22.
NUMBERED = re.compile(r"(\d{1,3})(?:_|$)")


def imagenet_outputs(task: Task) -> IntArray:
    """For each of the 1,000 outputs of an ImageNet model the number of the label that it stands for.

    It is -1 for those that are none of the task's labels, whose numbers their names begin with. All outputs
    compete, as in CNS-Bench's results, or those of the task alone, by its option of a mask:

        outputs = shiftdata.imagenet_outputs(task)
        task.evaluate(scores, outputs=outputs)
        mask = outputs >= 0
        task.evaluate(scores[:, mask], outputs=outputs[mask])
    """
    outputs = np.full(IMAGENET_CLASSES, -1, np.int64)
    for number, label in zip(task.label_ids.tolist(), task.labels, strict=True):
        found = NUMBERED.match(label)
        if found is None or outputs[int(found[1])] >= 0:
            raise InputError(
                f"the label {label!r} of {task.metadata.name} does not begin with the number of an ImageNet "
                "class of its own, such as `022_bald eagle`: make the array yourself, of each output the "
                "number of its label, and -1 for none"
            )
        outputs[int(found[1])] = number
    return outputs
