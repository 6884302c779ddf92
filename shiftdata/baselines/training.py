"""One small trainer: a sampler draws the batches of a fixed number of steps; equal seeds, equal models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.baselines.inputs import Inputs
from shiftdata.baselines.models import Floats, Standardised, linear, mlp, one_thread, small_cnn
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import FixedRows, RowSampler
from shiftdata.stable import hash64, rng
from shiftdata.tasks import Task

CHUNK = 512  # rows that are predicted at a time


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained: as many steps of AdamW whatever the number of rows.

    The rate rises over a tenth of the steps and then falls to 0 along a cosine. Pictures are moved by up to
    `shift` pixels in each direction, their border repeated.
    """

    steps: int = 800
    batch: int = 64
    learning_rate: float = 0.01
    weight_decay: float = 0.05
    shift: int = 3

    def __post_init__(self) -> None:
        if min(self.steps, self.batch) < 1 or min(self.weight_decay, self.shift, self.learning_rate) < 0:
            raise InputError(f"{self}: give at least 1 step, a batch of at least 1, and no negative number")


TRAINING = Training()


@dataclass(frozen=True, eq=False)
class Model:
    """A network that was trained; `outputs` are the numbers of the labels that its outputs stand for."""

    network: Any
    prepare: Callable[[Any], Any]
    outputs: IntArray

    def scores(self, inputs: Inputs, rows: IntArray) -> Floats:
        """A score for each output, for each of some rows of the base."""
        torch, places = require("torch", "a model"), inputs.positions(rows)
        self.network.eval()
        with one_thread(), torch.inference_mode():
            made = [
                self.network(self.prepare(inputs.x[places[at : at + CHUNK]])).numpy()
                for at in range(0, len(places), CHUNK)
            ]
        return np.concatenate([np.zeros((0, len(self.outputs)), np.float32), *made])

    def predict(self, inputs: Inputs, rows: IntArray) -> IntArray:
        """The number of the label of the highest score."""
        predicted: IntArray = self.outputs[self.scores(inputs, rows).argmax(axis=1)]
        return predicted


def train(
    task: Task,
    inputs: Inputs,
    rule: str = "shuffle",
    name: str | None = None,
    *,
    training: Training = TRAINING,
    seed: int = 0,
    **options: Any,
) -> Model:
    """Train a model on a set of a task: the first to fit, if not named.

    `rule` is the sampler that draws its rows: "shuffle" (ERM), "rwg", "subg", ..., with its `options`.
    """
    name = name or task.set_of("fit")
    if task.hides_labels(name):
        raise InputError(f"the labels of {name} are hidden: its role is unlabelled. Train on a set to fit")
    sampler = task.sampler(rule, name, seed=seed, **options)
    if not isinstance(sampler, RowSampler):
        raise InputError(f"the sampler {rule!r} makes batches of its own: take one that draws rows")
    rows, counts = task.rows(name), task.counts(name)
    rows = rows if counts is None else np.repeat(rows, counts)
    labels = task.metadata.label[rows].astype(np.int64)
    return fit(inputs, rows, labels, sampler, outputs=task.label_ids, training=training, seed=seed)


def predictions(task: Task, inputs: Inputs, model: Model, name: str | None = None) -> dict[str, int]:
    """What a model says of the rows of a set, by key: for `task.evaluate`."""
    name = name or task.set_of("test")
    predicted = model.predict(inputs, task.rows(name)).tolist()
    return dict(zip(task.keys(name), predicted, strict=True))


def fit(
    inputs: Inputs,
    rows: IntArray,
    targets: IntArray,
    sampler: RowSampler | None = None,
    *,
    outputs: IntArray | None = None,
    training: Training = TRAINING,
    seed: int = 0,
) -> Model:
    """Train a model to say the target of each of some rows; `sampler` draws among them, else all alike.

    A convolutional network for pictures, a linear layer for frozen features and texts, two hidden layers for
    the columns of a table. `outputs` are the targets that it can say; by default those that occur.
    """
    torch = require("torch", "training")
    outputs = np.unique(targets) if outputs is None else outputs
    if not len(rows) or len(outputs) < 2:
        raise InputError(f"{len(rows):,} rows of {len(outputs)} classes: give rows of two classes or more")
    places, wanted = inputs.positions(rows), np.searchsorted(outputs, targets)
    drawing = sampler or FixedRows(np.arange(len(rows)), seed=seed)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64(seed, "baselines", "weights"))
        network, prepare = _model(inputs, places, len(outputs))
        steps = _Steps(network, training)
        for step, drawn in zip(range(training.steps), _batches(drawing, training.batch), strict=False):
            x = inputs.x[places[drawn]]
            if inputs.is_pictures:
                x = shifted(x, training.shift, rng(seed, "baselines", "shift", step))
            steps.take(prepare(x), torch.from_numpy(wanted[drawn]))
    return Model(network, prepare, outputs)


class _Steps:
    """The steps of an optimiser."""

    def __init__(self, network: Any, training: Training) -> None:
        torch = require("torch", "training")
        self._network = network.train()
        rate, decay = training.learning_rate, training.weight_decay
        self._optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, rate, total_steps=training.steps + 1, pct_start=0.1, cycle_momentum=False
        )
        self._loss = torch.nn.functional.cross_entropy

    def take(self, x: Any, wanted: Any) -> None:
        self._optimizer.zero_grad()
        self._loss(self._network(x), wanted).backward()
        self._optimizer.step()
        self._schedule.step()


def _model(inputs: Inputs, places: IntArray, outputs: int) -> tuple[Any, Callable[[Any], Any]]:
    """The network for some inputs, and what brings a batch of them into its form."""
    torch = require("torch", "training")
    if inputs.is_pictures:
        return small_cnn(outputs).to(memory_format=torch.channels_last), _pixels
    features = inputs.x.shape[1]
    standardised = Standardised(inputs.x[places])

    def prepare(x: Floats) -> Any:
        return torch.from_numpy(standardised(x))

    return (mlp if features < 1000 else linear)(features, outputs), prepare


def _pixels(x: Any) -> Any:
    """Networks read n x channels x height x width, from -2 to 2."""
    return require("torch", "training").from_numpy(x).permute(0, 3, 1, 2).float().div(63.75).sub(2)


def _batches(sampler: RowSampler, size: int) -> Iterator[IntArray]:
    """Batches of one size without end: those that an epoch leaves begin the next."""
    left, epoch = np.zeros(0, np.int64), 0
    while True:
        while len(left) < size:
            left, epoch = np.concatenate([left, sampler.rows_of(epoch)]), epoch + 1
        yield left[:size]
        left = left[size:]


def shifted(x: Any, most: int, generator: np.random.Generator) -> Any:
    """Pictures, each moved by up to `most` pixels in each direction; the border is repeated."""
    count, height, width = x.shape[:3]
    down, right = generator.integers(-most, most + 1, (2, count, 1))
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    return x[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
