"""The result of a model on a task: scores by row, from which predictions, figures and files follow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from shiftdata import __version__
from shiftdata.baselines.models import Floats
from shiftdata.baselines.pretrained.registry import flagged, pretraining_of
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.encoders import FROZEN, weights_hash
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.predictions import predictions_file
from shiftdata.files import write_text
from shiftdata.notebook import box, line, shown

if TYPE_CHECKING:
    from shiftdata.baselines.pretrained.model import Pretrained


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prediction:
    """The scores of a model for sets of a task; `about` has everything that determines them.

    `scores` has a line for each of `rows`; `outputs` the label number of each column; `sets` are saved.
    `history` is that of a training or a stream.
    """

    task: Task
    about: Mapping[str, Any]
    sets: Sequence[str]
    rows: IntArray
    scores: Floats
    outputs: IntArray
    history: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def predicted(self) -> IntArray:
        """The predicted label number of each of `rows`."""
        predicted: IntArray = self.outputs[self.scores.argmax(axis=1)]
        return predicted

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.about['method']}: {self.task!r}>"

    @shown
    def _repr_html_(self) -> str:
        about = self.about
        names = ("backbone", "model", "variant", "seed", "device", "seconds")
        given = {name: about[name] for name in names if name in about} | dict(about.get("hyper", {}))
        text = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in given.items()
        )
        tests = [name for name in self.sets if self.task.sets[name].role == "test"]
        results = [self.evaluate(name)._repr_html_() or "" for name in tests[:1]]
        return box(f"{about['method']} on {self.task.metadata.name}", line(text), *results)

    def scores_of(self, name: str | None = None) -> Floats:
        """Return logits for the rows of a set, by default of the test set, in the order of `task.keys`."""
        name = name or self.task.set_of("test")
        rows = self.task.rows(name)
        if not np.isin(rows, self.rows).all():
            raise InputError(f"{name} was not predicted: give one of {', '.join(self.sets)}")
        scores: Floats = self.scores[np.searchsorted(self.rows, rows)]
        return scores

    def predictions(self, name: str | None = None) -> dict[str, str]:
        """Return the name of the predicted label by key; of an unlabelled set keys are hashes."""
        name = name or self.task.set_of("test")
        names = self._names(self.outputs[self.scores_of(name).argmax(axis=1)])
        return dict(zip(self.task.keys(name), names, strict=True))

    def evaluate(self, name: str | None = None) -> Evaluation:
        """Return the task's official metrics on a set, by default on its test set."""
        name = name or self.task.set_of("test")
        return self.task.evaluate(self.scores_of(name), name, outputs=self.outputs)

    def save(self, folder: str | Path) -> None:
        """Write run.json, and for each set a file of keys, predictions and scores."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        outputs = self._names(self.outputs)
        for name in self.sets:
            predicted, values = self.predictions(name), self.scores_of(name).astype(np.float32)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(outputs))
            table = {"key": list(predicted), "prediction": list(predicted.values()), "scores": lists}
            pq.write_table(pa.table(table), folder / predictions_file(name))
        about = {**self.about, "outputs": outputs}
        about |= {"history": list(self.history)} if self.history else {}
        write_text(folder / "run.json", json.dumps(about, indent=1, default=torch.Tensor.tolist) + "\n")

    def _names(self, numbers: IntArray) -> list[str]:
        names: list[str] = np.array([*self.task.metadata.labels, "unknown"])[numbers].tolist()
        return names  # the last is UNKNOWN, -1


def pretraining_flag(task: Task, weights: str | Pretrained) -> dict[str, Any]:
    """Return what is known of a model, or of weights of a name, and whether they saw the task's dataset."""
    sha256 = weights_hash() if weights == FROZEN else ""
    dataset = task.metadata.dataset
    name = task.metadata.name if dataset is None else dataset.manifest.name
    return flagged(pretraining_of(weights, sha256), name, task.content_id())


def task_identity(task: Task) -> dict[str, Any]:
    """Return what names the rows of a record, and the versions that computed it."""
    dataset = task.metadata.dataset
    content = "" if dataset is None else dataset.manifest.base(task.metadata.base).content_id
    return {
        "dataset": task.metadata.name,
        "content_id": content,
        "task": task.describe(),
        "task_id": task.content_id(),
        "versions": {"shiftdata": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }
