"""The engine: it draws batches, lets a method take steps, and can go on where it was stopped."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines import views
from shiftdata.baselines.data import Data, Stream, epoch_rows
from shiftdata.baselines.distributed import SharedEncoder, average, same_everywhere
from shiftdata.baselines.inputs import as_batch
from shiftdata.baselines.method import Batch, Method, Stage
from shiftdata.baselines.models import Floats, Prepare
from shiftdata.baselines.networks import Network, evaluating
from shiftdata.baselines.training import TRAINING, DivergedError, Training, optimizer_of, schedule_of
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import CellBatches, FixedRows, Ranks, Reweighted, RowSampler, row_weights
from shiftdata.stable import hash64, rng
from shiftdata.threads import torch_threads

CHUNK = 512  # rows that are predicted at a time


@dataclass
class Progress:
    """Where a training is."""

    stage: int = 0
    done: int = 0  # steps of the stage
    total: int = 0  # steps of all stages
    begun: bool = False  # whether the stage's `begin` has been called
    streams: dict[str, tuple[int, int]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False


class Trainer:
    """Trains a method on some rows; what a method may ask of is public."""

    def __init__(
        self,
        method: Method,
        network: Network,
        prepare: Prepare,
        data: Data,
        *,
        training: Training = TRAINING,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.method, self.network, self.data = method, network, data
        self.training, self.seed, self.device = training, seed, device
        self._prepare = prepare
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hash64(seed, "baselines", "method"))
            method.setup(network, data.known(network.n_features))
        method.to(device)
        same_everywhere(method.state_dict().values())  # a network of one's own may have been drawn by each
        self.first = {name: one.cpu().clone() for name, one in network.state_dict().items()}
        ranks = Ranks.of()
        if ranks.world > 1 and "maps" not in method.needs:  # which reach into the encoder
            network.call = SharedEncoder(ranks)
        self.progress = Progress()
        #: How often each row to fit is drawn, if a method has said so.
        self.counts: IntArray | None = None
        self._validation: Floats | None = None
        self._restart()

    # What methods use.

    def descend(self, loss: Tensor, *, optimizer: torch.optim.Optimizer | None = None) -> float:
        """One move of the optimiser down the gradient of a loss; a loss that is not finite stops the run."""
        optimizer = optimizer or self.optimizer
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DivergedError(
                f"the loss is {value} at step {self.progress.total + 1}: lower learning_rate, now "
                f"{self.training.learning_rate:g}, or a penalty's weight, or set a longer warm-up"
            )
        optimizer.zero_grad()
        if loss.requires_grad:  # a batch without a row to learn from moves nothing
            torch.autograd.backward(self._scaler.scale(loss))
            average(
                one.grad
                for group in optimizer.param_groups
                for one in group["params"]
                if one.grad is not None
            )
            self._scaler.step(optimizer)
            self._scaler.update()
        else:
            optimizer.step()  # without gradients it moves nothing; schedules expect it
        torch.clear_autocast_cache()  # of the weights as they were: a second move reads them anew
        return value

    def restart_optimizer(self) -> None:
        """Forget the optimiser's moments, as where the loss changes; rates and schedule go on."""
        self.optimizer.state.clear()

    def scores(self, rows: IntArray) -> Floats:
        """The method's scores of rows of the base, in eval mode; a last column may be of unknown classes."""
        return self.applied(self.method.predict, rows, self._columns)

    def source_scores(self, rows: IntArray) -> Floats:
        """The method's scores of rows of the source, without what adapts to the target alone."""
        return self.applied(self.method.predict_source, rows, self._columns)

    def validation_scores(self) -> Floats:
        """`source_scores` of the set to select by, which a method's `correct` shares with the evaluation."""
        assert self.data.select is not None
        if self._validation is None:
            self._validation = self.source_scores(self.data.select)
        return self._validation

    def features(self, rows: IntArray) -> Floats:
        """What the encoder makes of some rows of the base, in eval mode."""
        return self.applied(self.network.features, rows, self.network.n_features)

    def applied(self, function: Callable[[Tensor], Tensor], rows: IntArray, width: int = 0) -> Floats:
        """What a function makes of some rows of the base, in eval mode: a line of `width` numbers a row."""
        with evaluating(self.method), torch_threads(self.training.threads), torch.inference_mode():
            made = [
                function(self.inputs(rows[at : at + CHUNK])).float().cpu().numpy()
                for at in range(0, len(rows), CHUNK)
            ]
        return np.concatenate(made) if made else np.zeros((0, width), np.float32)

    def inputs(self, rows: IntArray) -> Tensor:
        """Some rows of the base in the form that the network reads, without augmentation."""
        data = self.data.inputs
        return self.prepared(data.x[data.positions(rows)])

    def prepared(self, x: Any) -> Tensor:
        """Inputs in the form that the network reads."""
        return self._prepare(as_batch(x)).to(self.device)

    # The run.

    def run(
        self,
        *,
        until: int | None = None,
        on_step: Callable[[int, int], object] = lambda done, total: None,
        save: Callable[[Trainer], object] = lambda trainer: None,
        save_every: int = 0,
    ) -> None:
        """Take every step that is left, or up to step `until` of all stages."""
        with torch_threads(self.training.threads), torch.random.fork_rng(devices=[]):
            for number, stage in enumerate(self.stages):
                if number < self.progress.stage:
                    continue
                self._begin(number, stage)
                while self.progress.done < self.steps_of(stage):
                    if until is not None and self.progress.total >= until:
                        return
                    self._step(stage)
                    on_step(self.progress.total, self.total_steps)
                    if save_every and self.progress.total % save_every == 0:
                        save(self)
            if not self.progress.finished:
                self._finish()
                self.progress.finished = True

    @property
    def stages(self) -> list[Stage]:
        return list(self.method.stages())

    @property
    def total_steps(self) -> int:
        return sum(self.steps_of(stage) for stage in self.stages)

    def steps_of(self, stage: Stage) -> int:
        """How many steps a stage has."""
        if stage.passes:
            rows = 0 if self.data.target is None else len(self.data.target)
            return math.ceil(stage.passes * rows / (self.training.batch or max(rows, 1)))
        return round(stage.share * self.training.steps)

    @property
    def _columns(self) -> int:
        return self.data.classes + ("unknown" in self.method.needs)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on, bit for bit."""
        self.progress.streams = {name: (one.epoch, one.used) for name, one in self._streams.items()}
        return {
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
            "scaler": self._scaler.state_dict(),
            "progress": asdict(self.progress),
            "counts": None if self.counts is None else torch.from_numpy(self.counts),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another trainer, of the same method, data and settings, was."""
        self.progress = Progress(**copy.deepcopy(state["progress"]))
        self.counts = None if state["counts"] is None else state["counts"].numpy()
        self.method.load_state_dict(state["method"])
        self._restart()
        self.optimizer.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        self._scaler.load_state_dict(state["scaler"])
        for name, (epoch, used) in self.progress.streams.items():
            self._streams[name].epoch, self._streams[name].used = epoch, used

    def _begin(self, number: int, stage: Stage) -> None:
        if self.progress.begun and number == self.progress.stage:
            return
        if number > self.progress.stage or not self.progress.begun:
            if stage.fresh:
                self.network.load_state_dict(self.first)
            torch.manual_seed(hash64(self.seed, "baselines", "begin", number))
            same_everywhere(self.method.buffers())
            self.method.eval()
            self.method.begin(stage, self)
            self.progress.stage, self.progress.done, self.progress.begun = number, 0, True
            self._restart()

    def _restart(self) -> None:
        """The optimiser, its schedule and the streams of a stage that begins."""
        training, stage = self.training, self.stages[self.progress.stage]
        encoder = {id(one) for one in self.network.encoder.parameters()}
        parameters = self.method.trained(stage)
        groups = [{"params": parameters, "lr": training.learning_rate}]
        if training.encoder_rate != 1:
            groups = [
                {
                    "params": [one for one in parameters if (id(one) in encoder) == inside],
                    "lr": training.learning_rate * (training.encoder_rate if inside else 1),
                }
                for inside in (True, False)
            ]
        groups = [one for one in groups if one["params"]] or [{"params": [torch.zeros(1)], "lr": 0.0}]
        self.optimizer = optimizer_of(groups, training)
        self._schedule = schedule_of(self.optimizer, training.schedule, max(1, self.steps_of(stage)))
        self._scaler = torch.amp.GradScaler(self.device, enabled=training.precision == "float16")
        size, target = training.batch, self.data.target
        # Batches that are made to a plan stay whole: as many rows of each domain, say.
        planned = self.sampler.batch_size if isinstance(self.sampler, CellBatches) else size
        self._streams = {"fit": Stream(self._fit_rows, planned)}
        if target is not None and "target" in self.method.needs:
            if not len(target):
                raise InputError(f"{type(self.method).__name__} reads unlabelled rows, and the set has none")
            shuffled = FixedRows(np.arange(len(target)), seed=self.seed, names=("target",))
            self._streams["target"] = Stream(
                lambda epoch, begins: self.method.target_rows(self, shuffled, epoch, begins), size
            )

    def _fit_rows(self, epoch: int, begins: bool) -> IntArray:
        return epoch_rows(self.sampler, epoch)

    @property
    def sampler(self) -> RowSampler | CellBatches:
        """What draws the rows to fit: the rule's sampler, or each row as often as `counts` say."""
        if self.counts is None:
            return self.data.sampler
        return FixedRows(
            np.repeat(np.arange(len(self.counts)), self.counts), seed=self.seed, names=("counted",)
        )

    def _step(self, stage: Stage) -> None:
        progress = self.progress
        batch = self._batch(self.steps_of(stage))
        # The same in every process.
        # Of the CPU alone where it trains there: `torch.manual_seed` walks the stack for every other device.
        generator = torch.default_generator if self.device == "cpu" else torch
        generator.manual_seed(hash64(self.seed, "baselines", "step", progress.total, 0))
        self.method.train()
        if self.training.frozen_norm:
            _freeze_norms(self.network.encoder)
        kind = "cuda" if self.device.startswith("cuda") else "cpu"
        dtype = getattr(torch, self.training.precision)
        with torch.autocast(kind, dtype, enabled=self.training.precision != "float32"):
            loss = self._loss_of(batch)
        self._schedule.step()
        progress.done, progress.total = progress.done + 1, progress.total + 1
        self.method.after_step(batch)
        every = self.training.evaluate_every
        due = every and (progress.total % every == 0 or progress.done == self.steps_of(stage))
        if due and not stage.adapts:
            self._evaluate(loss)

    def _loss_of(self, batch: Batch) -> float:
        try:
            return self.method.step(batch, self)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                "batch norm has no statistics of a batch of one row: take a larger batch, or frozen_norm=True"
            ) from error

    def _evaluate(self, loss: float) -> None:
        """The loss of the weights as they are; what is predicted if the training ends with this step."""
        data, step = self.data, self.progress.total
        if data.select is None or data.select_y is None:
            raise InputError("evaluate_every needs a set with the role 'select': the task has none")
        self._validation = None
        scores = torch.from_numpy(self.validation_scores()).double()
        held = float(torch.nn.functional.cross_entropy(scores, torch.from_numpy(data.select_y)))
        self.method.evaluated(step, held)
        if any(one.fresh for one in self.stages[self.progress.stage + 1 :]):
            return  # this network is thrown away, and no checkpoint
        entry: dict[str, Any] = {"step": step, "loss": loss, "select_loss": held}
        with self._ended():
            entry["predicted"] = torch.from_numpy(self.validation_scores()).argmax(1)
            if data.tested is not None:
                entry["tested"] = torch.from_numpy(self.scores(data.tested)).argmax(1)
        self.progress.history.append(entry)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """The method as it would be if the training ended now, and afterwards everything as it was.

        What is put back is what a run that goes on after a stop starts from, bit for bit.
        """
        adapts = [
            (number, stage)
            for number, stage in enumerate(self.stages)
            if number > self.progress.stage and stage.adapts
        ]
        saved = copy.deepcopy(self.state_dict() if adapts else {"method": self.method.state_dict()})
        with evaluating(self.method), torch.random.fork_rng(devices=[]):
            try:
                for number, stage in adapts:
                    self._begin(number, stage)
                    while self.progress.done < self.steps_of(stage):
                        self._step(stage)
                self._finish(saved["method"])
                yield
            finally:
                if adapts:
                    self.load_state_dict(saved)
                else:
                    self.method.load_state_dict(saved["method"])

    def _finish(self, before: Mapping[str, Tensor] | None = None) -> None:
        """Let the method finish; validation scores stay if it leaves the state as it was `before`."""
        same_everywhere(self.method.buffers())
        self.method.eval()
        torch.manual_seed(hash64(self.seed, "baselines", "finish"))
        self.method.finish(self)
        after = self.method.state_dict()
        if before is None or not all(torch.equal(after[name], one) for name, one in before.items()):
            self._validation = None
        self.method.correct(self)

    def _batch(self, steps: int) -> Batch:
        data, whole = self.data, self.training.batch == 0
        drawn, weight = self._whole() if whole else (self._streams["fit"].take(), None)
        x = self._view(data.rows[drawn], "shift")
        strong = self._strong(data.rows[drawn], "strong", self.method.strong_views)
        target = target_row = None
        target_strong: tuple[Tensor, ...] = ()
        if data.target is not None and self.method.reads_target(self.stages[self.progress.stage]):
            target_row = np.arange(len(data.target)) if whole else self._streams["target"].take()
            target = self._view(data.target[target_row], "target shift")
            views_of_target = self.method.target_strong_views
            target_strong = self._strong(data.target[target_row], "target strong", views_of_target)
        if weight is None:
            weight = np.ones(len(drawn))

        def there(values: Any) -> Tensor:
            return torch.from_numpy(values).to(self.device)

        return Batch(
            x,
            there(data.y[drawn]),
            there(data.group[drawn]),
            there(data.domain[drawn]),
            there(drawn),
            there(weight.astype(np.float32)),
            progress=self.progress.done / steps,
            step=self.progress.done,
            stage=self.stages[self.progress.stage].name,
            target=target,
            target_row=None if target_row is None else there(target_row),
            strong=strong,
            target_strong=target_strong,
        )

    def _whole(self) -> tuple[IntArray, Any]:
        """All rows at once, each with the weight that its sampler draws it by."""
        sampler = self.sampler
        if isinstance(sampler, Reweighted | CellBatches):  # both draw each cell equally often
            return np.arange(len(self.data.rows)), row_weights(sampler.cells)
        return np.sort(epoch_rows(sampler, 0)), None

    def _strong(self, rows: IntArray, purpose: str, number: int) -> tuple[Tensor, ...]:
        return tuple(self._view(rows, f"{purpose} {one}", strong=True) for one in range(number))

    def _view(self, rows: IntArray, purpose: str, *, strong: bool = False) -> Tensor:
        inputs = self.data.inputs
        x = inputs.x[inputs.positions(rows)]
        if inputs.is_pictures:
            make, training = (views.strong if strong else views.weak), self.training
            drawn = rng(self.seed, "baselines", purpose, self.progress.total)
            x = make(x, drawn, shift=training.shift, flip=training.flip)
        return self.prepared(x)


def _freeze_norms(encoder: torch.nn.Module) -> None:
    """Batch norms use and keep their running statistics; their weights are trained all the same."""
    for module in encoder.modules():  # nested ones too
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.eval()
