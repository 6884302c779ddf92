"""Subjects of adaptation: the network of a run, of the folder of one, or of a pretrained model."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftdata.baselines.method import Method, Wrapper
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.pretrained.heads import highest, labels_of_outputs
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.run import Run, _network, pretraining_flag
from shiftdata.baselines.sets import TaskSets
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.order import EpochSampler, Ranks
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json

#: Rows of the source at most that an adapter remembers, as EATA's code has them.
REMEMBERED = 2000


@dataclass(frozen=True, eq=False)
class Subject:
    """A network that adapts, with its reader, its preparation of batches, and its part of the record.

    `known` are rows of the source, which some adapters see without labels before the stream.
    """

    network: nn.Module
    prepare: Callable[[Any], Tensor]
    source: Source
    known: IntArray
    about: Mapping[str, Any]

    def read(self, rows: IntArray, batches: Sequence[IntArray], device: str) -> Iterator[Tensor]:
        """Yield batches of rows in the form that the network reads; nothing but x leaves the loader."""
        if not len(batches):
            return
        for x, _ in self.source.loader(rows, GivenBatches(batches), batch_size=1, rank=0, world=1):
            x = x.to(device) if isinstance(x, Tensor) else x
            yield self.prepare(x).to(device)


class GivenBatches(EpochSampler[list[int]]):
    """Batches of positions that are the same in each epoch."""

    def __init__(self, batches: Sequence[IntArray]) -> None:
        flat = np.concatenate([*batches, np.cumsum([len(batch) for batch in batches])])
        super().__init__("given", len(batches), names=(content_hash(flat.tobytes()),))
        self.given, self.ranks = batches, Ranks()

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        yield from (batch.tolist() for batch in self.given[start:])


def subject_of(task: Task, model: Run | Pretrained | str | Path) -> Subject:
    """Return what adapts, and check that its outputs are the labels of the task."""
    if isinstance(model, Pretrained):
        return _of_pretrained(task, model)
    if isinstance(model, Run):
        trainer = model.model.trainer
        _check_run(task, trainer.method, model.task.labels)
        return _of_run(task, trainer.network, trainer.prepared, trainer.data.source, model.about)
    return _of_folder(task, Path(model))


def _of_folder(task: Task, folder: Path) -> Subject:
    """Build the network of a saved run again, over the training set of the task, and load its weights."""
    if not (folder / "run.json").is_file() or not (folder / "model.pt").is_file():
        raise InputError(f"{folder} is not the folder of a run: `shiftdata train ... --folder` writes one")
    about = read_json(folder / "run.json")
    content = task.metadata.dataset and task.metadata.dataset.manifest.base(task.metadata.base).content_id
    if about["content_id"] != (content or ""):
        raise InputError(f"{folder} was trained on {about['dataset']}, not on this {task.metadata.name}")
    method = make_method(about["method"])
    _check_run(task, method, about.get("outputs", task.labels))
    side = about["input"][0] if len(about["input"]) == 3 else None
    sets = TaskSets.of(task, make_method("erm"), None)
    source = sets.source(about["backbone"], side)
    rows, classes = task.rows(sets.fit), len(task.label_ids)
    network, prepare, _ = _network(source, rows, classes, about["backbone"], about["seed"])
    state = torch.load(io.BytesIO((folder / "model.pt").read_bytes()), weights_only=True)
    weights = {
        name.removeprefix("network."): value for name, value in state.items() if "network." in name[:8]
    }
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"the weights of {folder} do not fit this task: {error}") from error
    return _of_run(task, network, prepare, source, about)


def _check_run(task: Task, method: Method, labels: Sequence[str]) -> None:
    if tuple(labels) != task.labels:
        raise InputError(
            f"the run predicts {len(labels)} labels that are not the {len(task.labels)} of {task.describe()}"
        )
    inner = method
    while isinstance(inner, Wrapper) and type(inner).predict is Wrapper.predict:
        inner = inner.inner
    if type(inner).predict is not Method.predict:
        raise InputError(
            f"{type(inner).__name__} predicts by more than its network, which adapts alone: take a run "
            "of erm or another method that does not"
        )


def _of_run(
    task: Task, network: nn.Module, prepare: Callable[[Any], Tensor], source: Source, run: Mapping[str, Any]
) -> Subject:
    about = {
        "model": run["backbone"],
        "weights": weights_hash(network),
        "pretraining": run["pretraining"],
        "trained": {name: run[name] for name in ("method", "variant", "hyper", "seed", "task", "task_id")},
    }
    return Subject(network, prepare, source, _known_rows(task), about)


def _known_rows(task: Task) -> IntArray:
    """Return rows of the source in an order of hashes: of the validation set, else of the training set."""
    for role in ("select", "fit"):
        for rows in task.sets.values():
            if rows.role == role:
                chosen = np.argsort(task.metadata.hashes(rows.indices, "known"))[:REMEMBERED]
                return rows.indices[chosen]
    return np.zeros(0, np.int64)


class Classifier(nn.Module):
    """A pretrained model as one network, whose logits are of the labels of a task: those of `label_map`."""

    column: Tensor

    def __init__(self, model: Pretrained, task: Task) -> None:
        super().__init__()
        try:
            label = labels_of_outputs(model, task)
        except InputError as error:
            raise InputError(f"{model.name} cannot adapt: {str(error).partition(': ')[0]}") from error
        lacking = [task.metadata.labels[number] for number in task.label_ids if number not in label]
        if not isinstance(model.encoder, nn.Module) or lacking:
            raise InputError(
                f"{model.name} cannot adapt: its encoder must be a torch module, with a classifier that has "
                f"an output for every label{f', and lacks {lacking[0]!r}' if lacking else ''}"
            )
        self.encoder, self.classify, self.maps = model.encoder, model.classifier, model.maps
        self.labels = len(task.label_ids)
        column = np.where(label >= 0, task.remapped[label], self.labels)
        self.register_buffer("column", torch.from_numpy(column), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.encoder(x))
        return highest(logits, self.column, self.labels + 1)[:, : self.labels]


def _of_pretrained(task: Task, model: Pretrained) -> Subject:
    about = {
        "model": model.name,
        "weights": model.weights,
        "preprocessing": dict(model.about),
        "pretraining": pretraining_flag(task, model),
    }
    source = Source(metadata=task.metadata, size=model.size)
    return Subject(Classifier(model, task), model.prepare, source, _known_rows(task), about)
