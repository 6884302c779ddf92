"""`train`: one method on one task, as a record with predictions; and `fit`, on rows of your own."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from shiftdata import __version__
from shiftdata.baselines.engine import TRAINING, Data, Trainer, Training
from shiftdata.baselines.inputs import SIDE, Form, Inputs, read_inputs
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Backbone, Floats, backbone_of, build
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import CellBatches, FixedRows, RowSampler
from shiftdata.stable import content_hash, hash64
from shiftdata.tasks import Task
from shiftdata.tasks.evaluation import Evaluation

#: Protocols whose authors ask for weights that have seen no labels.
UNSUPERVISED = "domainbed-v2"


class PretrainingWarning(UserWarning):
    """A backbone has seen labels where the protocol asks for one that has not."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network that was trained; `outputs` are the numbers of the labels that its scores stand for."""

    trainer: Trainer
    outputs: IntArray

    def scores(self, rows: IntArray) -> Floats:
        """A score for each output, for each of some rows of the base."""
        return self.trainer.scores(rows)

    def predict(self, rows: IntArray) -> IntArray:
        """The number of the label of the highest score."""
        predicted: IntArray = self.outputs[self.scores(rows).argmax(axis=1)]
        return predicted


def fit(
    inputs: Inputs,
    rows: IntArray,
    targets: IntArray,
    sampler: RowSampler | CellBatches | None = None,
    *,
    method: str | Method = "erm",
    outputs: IntArray | None = None,
    backbone: str | torch.nn.Module | None = None,
    training: Training = TRAINING,
    seed: int = 0,
) -> Model:
    """Train a model to say the target of each of some rows; `sampler` draws among them, else all alike.

    `outputs` are the targets that it can say; by default those that occur.
    """
    outputs = np.unique(targets) if outputs is None else outputs
    _check_rows(rows, outputs)
    none = np.zeros(len(rows), np.int64)
    data = Data(
        inputs,
        rows,
        np.searchsorted(outputs, targets).astype(np.int64),
        len(outputs),
        none,
        none,
        sampler or FixedRows(np.arange(len(rows)), seed=seed),
    )
    trainer, _ = _trainer(make_method(method), data, backbone, training, seed, "cpu")
    trainer.run()
    return Model(trainer, outputs)


def _trainer(
    method: Method,
    data: Data,
    backbone: str | torch.nn.Module | None,
    training: Training,
    seed: int,
    device: str,
) -> tuple[Trainer, Backbone]:
    places = data.inputs.positions(data.rows)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64(seed, "baselines", "weights"))
        network, prepare, about = build(backbone, data.inputs.x, places, data.classes)
    _check_network(method, network)
    return Trainer(method, network, prepare, data, training=training, seed=seed, device=device), about


def _check_rows(rows: IntArray, outputs: IntArray) -> None:
    if not len(rows) or len(outputs) < 2:
        raise InputError(f"{len(rows):,} rows of {len(outputs)} classes: give rows of two classes or more")


def _check_network(method: Method, network: torch.nn.Module) -> None:
    layers = [one for one in network.modules() if isinstance(one, torch.nn.modules.batchnorm._BatchNorm)]
    if "batch-norm" in method.needs and not layers:
        raise InputError(
            f"{type(method).__name__} adapts batch-norm layers, and the network has none: "
            "use small-cnn or another with such layers"
        )


@dataclass(frozen=True, eq=False)
class Run:
    """What a training leaves: what it was, what it predicts, what it cost.

    `about` has everything that determines it, as JSON can say it; `scores` those of the test's rows, in the
    order of `keys`; `history` one entry an evaluation on the set to select by.
    """

    task: Task
    about: Mapping[str, Any]
    test: str
    scores: Floats
    history: list[dict[str, Any]]
    model: Model

    @property
    def predictions(self) -> dict[str, str]:
        """The predicted label's name for each key of the test."""
        names = np.array(self.task.metadata.labels)[self.model.outputs[self.scores.argmax(axis=1)]]
        return dict(zip(self.task.keys(self.test), names.tolist(), strict=True))

    def evaluate(self, name: str | None = None) -> Evaluation:
        """The task's official metrics on its test, or on another set."""
        name = name or self.test
        if name == self.test:
            return self.task.evaluate(self.model.outputs[self.scores.argmax(axis=1)], name)
        return self.task.evaluate(self.model.predict(self.task.rows(name)), name)

    def save(self, folder: str | Path) -> None:
        """Write run.json, predictions.parquet and model.pt."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        predicted = self.predictions
        table = {"key": list(predicted), "prediction": list(predicted.values())}
        pq.write_table(pa.table(table), folder / "predictions.parquet")
        torch.save(self.model.trainer.method.state_dict(), folder / "model.pt")
        history = [one | {"predicted": one["predicted"].tolist()} for one in self.history]
        text = json.dumps({**self.about, "history": history}, indent=1)
        (folder / "run.json").write_text(text + "\n", encoding="utf-8")


def train(
    task: Task,
    method: str | Method = "erm",
    *,
    name: str | None = None,
    variant: str = "fixed",
    backbone: str | torch.nn.Module | None = None,
    side: int | None = None,
    inputs: Inputs | None = None,
    training: Training | None = None,
    seed: int = 0,
    device: str = "cpu",
    folder: str | Path | None = None,
    save_every: int = 100,
    on_step: Callable[[int, int], object] = lambda done, total: None,
    **hyper: float,
) -> Run:
    """Train a method on a task, and predict its test.

    Args:
        task: from `sd.task`.
        method: a name ("group-dro", "rs+rw+dann"), or a `Method` of your own; `shiftdata train` lists them.
        name: the set to train on; default: the first with the role "fit".
        variant: "fixed", or "paper" or "code" where a method has them.
        backbone: a name of `BACKBONES` (of pictures "linear" and "mlp" read frozen features), "timm:NAME",
            "transformers:NAME", or a torch module that makes rows x numbers; default: a small network that
            is trained from scratch.
        side: pixels of a picture's height and width; default: the backbone's.
        inputs: the examples, where they were read already; see `read_inputs`.
        training: steps, batch, rate, ..; see `Training`.
        seed: of weights, order and draws.
        device: "cpu", "cuda", "cuda:1", "mps".
        folder: where the run is saved, every `save_every` steps too; one that was stopped goes on.
        save_every: steps between two checkpoints.
        on_step: gets the steps done, and of how many.
        hyper: hyper-parameters of the method.

    """
    training = training or TRAINING
    made = make_method(method, variant=variant, **hyper)
    fit_set, test = name or task.set_of("fit"), task.set_of("test")
    check_needs(task, made, fit_set)
    target = _target(task) if "target" in made.needs else None
    select = next((one for one, rows in task.sets.items() if rows.role == "select"), None)
    if inputs is None:
        wanted = [fit_set, test, *([select] if select else [])]
        rows = [task.rows(one) for one in wanted]
        if target:
            rows.append(task.rows(target, "unlabelled"))
        mode, size = _reading(task, backbone)
        inputs = read_inputs(task.metadata, mode, *rows, side=side or size)
    data = task_data(task, inputs, made, fit_set, target, select, training, seed)
    begun, used = time.monotonic(), time.process_time()
    trainer, about = _trainer(made, data, backbone, training, seed, device)
    _warn_pretraining(task, about)
    identity = _identity(task, method, made, about, training, seed)
    checkpoint = None if folder is None else Path(folder) / "checkpoint.pt"
    if checkpoint is not None:
        _resume(trainer, checkpoint, identity)
    trainer.run(
        on_step=on_step,
        save=lambda one: _save(one, checkpoint, identity),
        save_every=save_every if checkpoint is not None else 0,
    )
    model = Model(trainer, task.label_ids)
    tested = trainer.scores(task.rows(test))
    cost = {"seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - used}
    run = Run(task, {**identity, **cost}, test, tested, trainer.progress.history, model)
    if folder is not None and checkpoint is not None:
        run.save(folder)
        checkpoint.unlink(missing_ok=True)
    return run


def _reading(task: Task, backbone: str | torch.nn.Module | None) -> tuple[Form, int]:
    """How a backbone reads a task's examples, and pictures in what size."""
    opened = task.metadata.dataset
    modality = "table" if opened is None else opened.manifest.roles.modality
    about = backbone_of(backbone) if isinstance(backbone, str) else None
    if about is None or modality == "table":
        return "scratch", SIDE
    if modality == "text":
        modes: dict[str, Form] = {"bytes": "bytes", "texts": "texts"}
        return modes.get(about.reads, "scratch"), SIDE
    return ("frozen" if about.reads == "numbers" else "scratch"), about.side


def check_needs(task: Task, method: Method, name: str) -> None:
    """Refuse a task that lacks what a method needs, before anything is read."""
    if task.hides_labels(name):
        raise InputError(f"the labels of {name} are hidden: its role is unlabelled. Train on a set to fit")
    kind, rows, metadata = type(method).__name__, task.rows(name), task.metadata
    has = {
        "groups": len(np.unique(metadata.group[rows])) > 1,
        "domains": len(np.unique(metadata.nuisance[rows])) > 1,
        "target": any("unlabelled" in one.roles for one in task.sets.values()),
        "select": any(one.role == "select" for one in task.sets.values()),
        "pixels": metadata.dataset is not None and metadata.dataset.manifest.roles.modality == "image",
    }
    why = {
        "groups": f"rows of several groups, and {name} has one",
        "domains": f"rows of several domains, and {name} has one",
        "target": "a set with the role 'unlabelled': a task of uda or label-shift has one, "
        "and task.also('test', 'unlabelled') gives a set that role besides",
        "select": "a set with the role 'select'",
        "pixels": "pictures",
    }
    for need in sorted(method.needs & has.keys()):
        if not has[need]:
            sets = ", ".join(f"{one} ({rows.role})" for one, rows in task.sets.items())
            raise InputError(f"{kind} needs {why[need]}; {task.describe()} has {sets}")


def _target(task: Task) -> str:
    return next(name for name, rows in task.sets.items() if "unlabelled" in rows.roles)


def task_data(
    task: Task,
    inputs: Inputs,
    method: Method,
    name: str,
    target: str | None = None,
    select: str | None = None,
    training: Training = TRAINING,
    seed: int = 0,
) -> Data:
    """The rows of a task's sets, as a method may see them."""
    metadata, counts = task.metadata, task.counts(name)
    rows = task.rows(name) if counts is None else np.repeat(task.rows(name), counts)
    _check_rows(rows, task.label_ids)
    _, group = np.unique(metadata.group[rows], return_inverse=True)
    _, domain = np.unique(metadata.nuisance[rows], return_inverse=True)
    if method.sampler == "per-domain":
        size = training.batch or len(rows)
        size -= size % (int(domain.max()) + 1)  # equally many of each domain
        sampler = task.sampler(method.sampler, name, seed=seed, batch_size=size)
    else:
        sampler = task.sampler(method.sampler, name, seed=seed)
    assert isinstance(sampler, RowSampler | CellBatches)  # not asked for batches
    data = Data(
        inputs, rows, task.remapped[metadata.label[rows]], len(task.label_ids), group, domain, sampler
    )
    if target is not None:
        data = replace(data, target=task.rows(target, "unlabelled"))
    if select is not None:
        held = task.rows(select)
        known = np.isin(metadata.label[held], task.label_ids)
        held = held[known]
        data = replace(data, select=held, select_y=task.remapped[metadata.label[held]])
        data = replace(data, select_group=metadata.group[held])
    return data


def _warn_pretraining(task: Task, about: Backbone) -> None:
    if about.pretraining.startswith("supervised") and UNSUPERVISED in task.describe():
        warnings.warn(
            f"{about.name} has seen labels ({about.pretraining}); domainbed-v2 asks for weights that have "
            "not: supervised ones know the classes of the domains that are tested",
            PretrainingWarning,
            stacklevel=3,
        )


def _identity(
    task: Task, name: str | Method, method: Method, about: Backbone, training: Training, seed: int
) -> dict[str, Any]:
    """Everything that determines a run."""
    dataset = task.metadata.dataset
    content = "" if dataset is None else dataset.manifest.base(task.metadata.base).content_id
    return {
        "dataset": task.metadata.name,
        "content_id": content,
        "task": task.describe(),
        "task_id": task.content_id(),
        "method": name if isinstance(name, str) else type(method).__name__,
        "variant": method.variant,
        "code_version": method.code_version,
        "hyper": method.hyper,
        "backbone": about.name,
        "pretraining": about.pretraining,
        "training": asdict(training),
        "seed": seed,
        "versions": {"shiftdata": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }


def _hash(identity: Mapping[str, Any]) -> str:
    return content_hash(json.dumps(identity, sort_keys=True))


def _save(trainer: Trainer, path: Path | None, identity: Mapping[str, Any]) -> None:
    assert path is not None  # it is asked for only then
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    torch.save({"of": _hash(identity), **trainer.state_dict()}, beside)
    os.replace(beside, path)  # whole or not at all


def _resume(trainer: Trainer, path: Path, identity: Mapping[str, Any]) -> None:
    if not path.exists():
        return
    state = torch.load(path, weights_only=True)
    if state["of"] != _hash(identity):
        raise InputError(f"{path} is of another run: delete it, or give another folder")
    trainer.load_state_dict(state)
