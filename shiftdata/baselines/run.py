"""`train`: one method on one task, as a record with predictions; and `fit`, on rows of your own."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftdata.baselines.distributed import from_first
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Data, Method, code_of, no_rows
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Backbone, Floats, Prepare, build
from shiftdata.baselines.networks import Network, batch_norms
from shiftdata.baselines.prediction import Prediction, pretraining_flag, task_identity
from shiftdata.baselines.pretrained.model import Pretrained, encoder_of
from shiftdata.baselines.sets import TaskSets, check_rows
from shiftdata.baselines.training import TRAINING, Training
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import CellBatches, FixedRows, Ranks, RowSampler
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import UNKNOWN
from shiftdata.progress import shows
from shiftdata.stable import content_hash, hash64

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model; `outputs` has the label number of each of its logits."""

    trainer: Trainer
    outputs: IntArray

    def predict(self, rows: IntArray, source: Source | None = None) -> IntArray:
        """Return the label numbers of rows of the base."""
        predicted: IntArray = self.outputs[self.trainer.scores(rows, source).argmax(axis=1)]
        return predicted


def fit(
    source: Source | NDArray[Any],
    rows: IntArray,
    targets: IntArray,
    sampler: RowSampler | CellBatches | None = None,
    *,
    outputs: IntArray | None = None,
    backbone: str | torch.nn.Module | None = None,
    training: Training = TRAINING,
    seed: int = 0,
) -> Model:
    """Train a model by ERM to predict targets of rows of a source, or of an array with a line for each row.

    `sampler` draws among the rows, by default all alike. `outputs` are the targets that can be predicted, by
    default those that occur.
    """
    outputs = np.unique(targets) if outputs is None else outputs
    check_rows(rows, outputs)
    source = source if isinstance(source, Source) else Source(source)
    y, zero = np.searchsorted(outputs, targets).astype(np.int64), np.zeros(len(rows), np.int64)
    sampler = sampler or FixedRows(np.arange(len(rows)), seed=seed)
    data = Data(source, rows, y, len(outputs), group=zero, domain=zero, sampler=sampler)
    network, prepare, _ = network_for(source, rows, len(outputs), backbone, seed)
    trainer = Trainer(make_method("erm"), network, prepare, data, training=training, seed=seed)
    trainer.run()
    return Model(trainer, outputs)


def network_for(
    source: Source, rows: IntArray, classes: int, backbone: str | torch.nn.Module | None, seed: int
) -> tuple[Network, Prepare, Backbone]:
    """Build the network of a training from the form of its first rows."""
    # The first rows show the form of an example; numbers are standardised by the whole training set.
    sample = next(iter(source.loader(rows[:2], batch_size=2, rank=0, world=1)))[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64(seed, "baselines", "weights"))
        return build(backbone, sample, classes, fit=source.lines(rows), lines_are=source.lines_are)


def initial_network(
    task: Task,
    backbone: str | torch.nn.Module | None = None,
    *,
    name: str | None = None,
    side: int | None = None,
    features: NDArray[Any] | None = None,
    seed: int = 0,
) -> tuple[Network, Prepare]:
    """Return the network with which `train` of the same arguments begins, and its `Prepare` function.

    For a loop of your own that is compared with `train`.
    """
    sets = TaskSets.of(task, make_method("erm"), name)
    source = Source(features) if features is not None else sets.source(backbone, side)
    return network_for(source, task.rows(sets.fit), len(task.label_ids), backbone, seed)[:2]


def _check_network(method: Method, network: Network, source: Source, about: Backbone) -> None:
    lacking = {
        "batch-norm": (
            not batch_norms(network),
            "adapts batch-norm layers, and the network has none",
            "small-cnn",
        ),
        "maps": (not network.maps, "reads feature maps, and the network has none", "small-resnet"),
        "pretrained": (
            not about.pretraining,
            f"fine-tunes pretrained weights, and {about.name} begins from random ones",
            "efficientnet-lite0",
        ),
        "pixels": (not source.is_pictures, "changes pictures, and the network reads features", "small-cnn"),
    }
    for need, (lacks, why, instead) in lacking.items():
        if need in method.needs and lacks:
            raise InputError(f"{type(method).__name__} {why}: use {instead} or another of that kind")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Run(Prediction):
    """The result of a training.

    `about` has everything that determines it, and its cost, as JSON values; `scores` has a line for each of
    `rows`, the rows of all test sets; `history` an entry for each evaluation on the validation set.
    """

    model: Model

    @cached_property
    def selecting(self) -> tuple[IntArray, Floats]:
        """The rows of the validation sets and their scores, as selection sees them.

        Every process of a training takes part in it, as in any prediction.
        """
        sets = [self.task.rows(name) for name, rows in self.task.sets.items() if rows.role == "select"]
        rows = np.unique(np.concatenate([no_rows(), *sets]))
        return rows, self.model.trainer.source_scores(rows)

    def scores_of(self, name: str | None = None) -> Floats:
        """Return logits for the rows of a set, by default of the test set.

        Training and validation sets are predicted as selection sees them: without what adapts to the target.
        """
        name = name or self.task.set_of("test")
        rows, role = self.task.rows(name), self.task.sets[name].role
        if role == "fit":
            return self.model.trainer.source_scores(rows)
        known, scores = self.selecting if role == "select" else (self.rows, self.scores)
        if np.isin(rows, known).all():
            found: Floats = scores[np.searchsorted(known, rows)]
            return found
        return self.model.trainer.scores(rows)

    def save(self, folder: str | Path) -> None:
        """Write run.json, model.pt, and predictions with scores for each test set and validation set."""
        super().save(folder)
        torch.save(self.model.trainer.method.state_dict(), Path(folder) / "model.pt")


@shows("train", on_rows=" rows", on_step=" steps")
def train(
    task: Task,
    method: str | Method = "erm",
    *,
    name: str | None = None,
    variant: str = "fixed",
    backbone: str | torch.nn.Module | None = None,
    side: int | None = None,
    features: NDArray[Any] | None = None,
    encoder: str | Pretrained | None = None,
    training: Training | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    test_steps: bool = False,
    folder: str | Path | None = None,
    save_every: int = 100,
    on_rows: Callable[[int], object] = lambda rows: None,
    on_step: Callable[[int, int], object] = lambda done, total: None,
    **hyper: float,
) -> Run:
    """Train a method on a task, and predict its test.

    Args:
        task: from `sd.task`.
        method: a name ("group-dro", "rs+rw+dann"), or a `Method` of your own; `shiftdata train` lists them.
        name: the training set; default: the first with the role "fit".
        variant: "fixed", or "paper" or "code" where a method has them.
        backbone: a name of `BACKBONES` (of pictures "linear" and "mlp" read frozen features), a trained
            model such as "timm:NAME", or a torch module that returns rows x features; default: a small
            network from scratch.
        side: pixels of a picture's height and width; default: the backbone's.
        features: an array with a line for each row of the base, read instead of the examples.
        encoder: a trained model, or its name as `sd.predict` takes it, whose frozen features "linear" and
            "mlp" read; default: of pictures EfficientNet-Lite0 at 96 pixels.
        training: steps, batch, rate, ..; see `Training`.
        steps: replaces that of `training`.
        batch_size: replaces the `batch` of `training`; 0 takes all rows at once.
        seed: of weights, order and draws.
        device: "cpu", "cuda", "cuda:1", "mps".
        test_steps: predict the test sets at each evaluation too, for rules that choose a step.
        folder: the run is saved there, every `save_every` steps too, and goes on from there after a stop.
        save_every: steps between two checkpoints.
        on_rows: gets the number of examples that were read since its last call; default, as of `on_step`: a
            progress bar.
        on_step: gets the number of steps done, and of all steps.
        hyper: hyper-parameters of the method.

    """
    given = {"steps": steps, "batch": batch_size}
    settings: dict[str, Any] = {name: number for name, number in given.items() if number is not None}
    training = replace(training or TRAINING, **settings)
    algorithm = make_method(method, variant=variant, **hyper)
    sets = TaskSets.of(task, algorithm, name)
    if features is not None and encoder is not None:
        raise InputError(
            "features= are read instead of examples, and encoder= encodes these: give one of them"
        )
    encodes = None if encoder is None else encoder_of(encoder, device)
    if features is not None:
        source = Source(features, pretraining="features of your own")
    else:
        source = sets.source(backbone, side, on_rows, encodes)
    data = sets.data(source, training, seed, test_steps=test_steps)
    begun, used = time.monotonic(), time.process_time()
    network, prepare, about = network_for(source, data.rows, data.classes, backbone, seed)
    _check_network(algorithm, network, source, about)
    trainer = Trainer(algorithm, network, prepare, data, training=training, seed=seed, device=device)
    about = replace(about, pretraining=about.pretraining or source.pretraining)
    identity = run_identity(task, method, algorithm, about, training, seed) | {"input": [*source.shape]}
    if encodes is not None:
        identity["pretraining"] = pretraining_flag(task, encodes.model)
        identity["encoder"] = {"name": encodes.model.name, "weights": encodes.model.weights}
    train_steps(trainer, folder, identity, save_every, on_step)
    scores = trainer.scores(sets.tested)
    cost = {"seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - used}
    outputs = np.append(task.label_ids, UNKNOWN) if "unknown" in algorithm.needs else task.label_ids
    about_run = {**identity, **cost, "report": algorithm.report()}
    judged = [each for each, rows in task.sets.items() if rows.role in ("select", "test")]
    run = Run(
        task=task, about=about_run, sets=judged, rows=sets.tested, scores=scores, outputs=outputs,
        history=trainer.progress.history, model=Model(trainer, outputs),
    )  # fmt: skip
    if folder is not None:
        _ = run.selecting  # by all processes, before one of them writes
        if Ranks.of().rank == 0:
            run.save(folder)
            (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
    return run


def train_steps(
    trainer: Trainer,
    folder: str | Path | None,
    identity: Mapping[str, Any],
    save_every: int,
    on_step: Callable[[int, int], object],
) -> None:
    """Take every step; with a folder, from its checkpoint on, which is written every `save_every` steps."""
    if folder is None:
        trainer.run(on_step=on_step)
        return
    path, of = Path(folder) / CHECKPOINT, content_hash(json.dumps(identity, sort_keys=True))
    saved = from_first(path.read_bytes() if path.exists() else None)  # other machines lack the folder
    if saved is not None:
        state = torch.load(io.BytesIO(saved), weights_only=True)
        if state["of"] != of:
            raise InputError(f"{path} is of another run: delete it, or give another folder")
        trainer.load_state_dict(state)

    def step(done: int, total: int) -> None:
        on_step(done, total)
        if save_every and done % save_every == 0 and Ranks.of().rank == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".tmp")
            torch.save({"of": of, **trainer.state_dict()}, unfinished)
            os.replace(unfinished, path)  # atomic: a killed run leaves a whole checkpoint

    trainer.run(on_step=step)


def run_identity(
    task: Task, name: str | Method, method: Method, about: Backbone, training: Training, seed: int
) -> dict[str, Any]:
    """Everything that determines a run."""
    return {
        **task_identity(task),
        "method": name if isinstance(name, str) else type(method).__name__,
        "variant": method.variant,
        **code_of(method),
        "hyper": method.hyper,
        "trains_on_select": method.trains_on_select,
        "backbone": about.name,
        "pretraining": pretraining_flag(task, about.pretraining),
        "training": asdict(training),
        "seed": seed,
    }
