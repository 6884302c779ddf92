"""`predict`: a trained model on a task, as a record with predictions and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from shiftdata.baselines.method import code_commit
from shiftdata.baselines.models import Floats
from shiftdata.baselines.prediction import Prediction, pretraining_flag, task_identity
from shiftdata.baselines.pretrained.heads import Head, make_head
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import FeatureEncoder, Precision, Pretrained
from shiftdata.baselines.sets import modality_of
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.features import features_of
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import Ranks
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import row_set
from shiftdata.progress import shows

#: Rows whose features are in memory at a time.
CHUNK = 1 << 15


@shows("encode", on_rows=" rows")
def predict(
    task: Task,
    model: str | Pretrained,
    *,
    head: str = "auto",
    sets: Iterable[str] | None = None,
    size: int | None = None,
    device: str = "cpu",
    precision: Precision = "float32",
    folder: str | Path | None = None,
    cache: bool | str | Path = True,
    on_rows: Callable[[int], object] = int,
    **options: Any,
) -> Prediction:
    """Predict a task's sets by a trained model: by its own classes, by prompts, by a probe.

    Features are computed once and cached by row: a stopped prediction goes on, another head computes none,
    and the processes of `torchrun` share them.

    Args:
        task: from `sd.task`.
        model: a name such as "timm:resnet50.a1_in1k" or "efficientnet-lite0", which `shiftdata predict`
            lists, or a `Pretrained`.
        head: "labels", "zero-shot", "probe" or "knn"; "auto": "labels" if the model's classes name the task's
            labels, else "zero-shot" if it encodes captions, else "probe".
        sets: names of sets; default: all test sets and validation sets.
        size: pixels of a side (of texts: tokens) instead of the model's own.
        device: "cpu", "cuda", "cuda:1", "mps".
        precision: "float32" or "bfloat16", of the encoder.
        folder: the prediction is saved there.
        cache: keep features in the user's cache folder, in a folder of yours, or (False) not at all.
        on_rows: gets the number of rows whose features became ready since its last call; default: a bar.
        options: of the head, such as `prompts` or `l2`.

    """
    if isinstance(model, str):
        model = load(model, size=size)
    elif size is not None:
        raise InputError("size= is for a model by its name: give the Pretrained its size")
    if (modality := modality_of(task.metadata)) != model.modality:
        reads = f"{model.name} reads examples of the modality {model.modality}"
        raise InputError(f"{reads}, and {task.metadata.name} has {modality}: take a model of these")
    if precision not in get_args(Precision):
        raise InputError(f"precision={precision!r}: give 'float32' or 'bfloat16'")
    chosen = _sets(task, sets)
    encoder = FeatureEncoder(model, device, precision)

    def lines(rows: IntArray) -> tuple[Any, IntArray]:
        every = features_of(task.metadata, np.unique(rows), encoder, cache=cache, on_rows=on_rows)
        return every, task.metadata.picture[rows]

    def features(rows: IntArray) -> Floats:
        every, at = lines(rows)
        found: Floats = every[at]
        return found

    fitted, why = _head(head, task, model, features, options)
    rows = np.unique(np.concatenate([task.rows(name) for name in chosen]))
    every, at = lines(rows)
    values = [fitted.scores(every[at[start : start + CHUNK]]) for start in range(0, len(rows), CHUNK)]
    about = {
        **task_identity(task),
        "model": model.name,
        "weights": model.weights,
        "preprocessing": dict(model.about),
        "pretraining": pretraining_flag(task, model),
        "commit": code_commit(),
        "method": fitted.name,
        "head": {**fitted.about, **why},
        "sets": list(chosen),
        "device": torch.device(device).type,
        "precision": precision,
    }
    prediction = Prediction(
        task=task, about=about, sets=chosen, rows=rows, scores=np.concatenate(values), outputs=fitted.outputs
    )
    if folder is not None and Ranks.of().rank == 0:
        prediction.save(folder)
    return prediction


def _sets(task: Task, given: Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        given = [name for name, rows in task.sets.items() if rows.role in ("select", "test")]
    names = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not sum(len(row_set(task, name)) for name in names):
        raise InputError(f"{task.describe()} has no rows to predict in {', '.join(names) or 'no set'}")
    return names


def _head(
    name: str, task: Task, model: Pretrained, features: Callable[[IntArray], Floats], options: dict[str, Any]
) -> tuple[Head, dict[str, str]]:
    """Return the head of a name, or with "auto" the first that the model allows, and why it was chosen."""
    if name != "auto":
        return make_head(name, model, task, features, **options), {}
    why = "the model has no classes of its own"
    if model.classifier is not None:
        try:
            found = make_head("labels", model, task, features)
        except InputError as error:
            why = str(error).partition(": ")[0]
        else:
            return (make_head("labels", model, task, features, **options) if options else found), {}
    name = "zero-shot" if model.caption is not None else "probe"
    return make_head(name, model, task, features, **options), {"auto": why}
