"""Subjects of adaptation: the network of a run, of the folder of one, or of a pretrained model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftdata.baselines.method import by_network
from shiftdata.baselines.prediction import pretraining_flag
from shiftdata.baselines.pretrained.heads import highest, labels_of_outputs
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash
from shiftdata.baselines.run import Run
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.order import EpochSampler, Ranks
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import content_hash

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


def subject_of(task: Task, model: Run | Pretrained | str | Path, size: int | None = None) -> Subject:
    """Return what adapts, and check that its outputs are the labels of the task."""
    if size is not None and isinstance(model, Run | Pretrained):
        raise InputError("size= is for a model by its name: a run has its own")
    if not isinstance(model, Run):
        if not isinstance(model, Pretrained):
            name = f"run:{model}" if (Path(model) / "run.json").is_file() else str(model)
            model = load(name, size=size)
        about = {"model": model.name, "weights": model.weights, "pretraining": pretraining_flag(task, model)}
        about["preprocessing"] = dict(model.about)
        source = Source(metadata=task.metadata, size=model.size)
        return Subject(Classifier(model, task), model.prepare, source, _known_rows(task), about)
    if model.task.labels != task.labels:
        raise InputError(
            f"the run predicts {', '.join(model.task.labels)}, not the labels of {task.describe()}"
        )
    trainer = model.model.trainer
    if not by_network(trainer.method):
        raise InputError(
            f"{model.about['method']} predicts by more than its network, which adapts alone: take a run "
            "of erm or another method that does not"
        )
    about = {"model": model.about["backbone"], "weights": weights_hash(trainer.network)}
    about |= {"pretraining": model.about["pretraining"], "trained": dict(model.about)}
    return Subject(trainer.network, trainer.prepared, trainer.data.source, _known_rows(task), about)


def _known_rows(task: Task) -> IntArray:
    """Return rows of the source in an order of hashes: of the validation set, else of the training set."""
    roles = {rows.role: rows.indices for rows in [*task.sets.values()][::-1]}  # the first set of each
    known: IntArray = roles.get("select", roles.get("fit", np.zeros(0, np.int64)))
    return known[np.argsort(task.metadata.hashes(known, "known"))[:REMEMBERED]]


class Classifier(nn.Module):
    """A pretrained model as one network, whose logits are of the labels of a task: those of `label_map`."""

    column: Tensor
    classify: Any  # it has outputs

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
