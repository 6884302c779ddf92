"""The trainer: batches of loaders, a method's steps, evaluations, and a state to resume from bit for bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.distributed import GradientSharing, SharedEncoder, gathered, same_everywhere
from shiftdata.baselines.method import Batch, Data, Method, Stage
from shiftdata.baselines.models import Floats, Prepare
from shiftdata.baselines.networks import Network, batch_norms, evaluating
from shiftdata.baselines.training import TRAINING, DivergedError, Training, optimizer_of, schedule_of
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.augment import ContrastiveView, DomainBed, Shift, Strong, Views
from shiftdata.data.loading.batches import Loader
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import CellBatches, FixedRows, Ranks, RowSampler
from shiftdata.stable import hash64
from shiftdata.threads import torch_threads

#: On an accelerator, steps between two checks that the loss is finite: each check waits for its queue.
CHECK_EVERY = 50


@dataclass
class Progress:
    """The position of a training: what a checkpoint needs besides weights and optimiser."""

    stage: int = 0
    done: int = 0  # steps of the stage
    total: int = 0  # steps of all stages
    begun: bool = False  # the stage's `begin` has been called
    loaders: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False


class Trainer:
    """Trains a method, which gets it to read rows, predict and step.

    With several processes, `batch` is that of all of them together: each reads and encodes its share of it.
    """

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
        self._prepare, self._ranks = prepare, Ranks.of()
        if not training.batch:
            raise InputError("batch=0, all rows at once, is for batched heads: give the rows of a step")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hash64(seed, "baselines", "method"))
            method.setup(network, data)
        if not training.encoder_rate:  # a rate of 0 changes nothing: the same bits without a gradient
            network.encoder.requires_grad_(False)
        method.to(device, torch.float64 if training.precision == "float64" else None)
        same_everywhere(method.state_dict().values())  # a network of one's own may have been drawn by each
        self.first = {name: value.cpu().clone() for name, value in network.state_dict().items()}
        if self._ranks.world > 1 and "maps" not in method.needs:  # methods of maps hook the encoder
            network.call = SharedEncoder(self._ranks)
        columns = (data.y, data.group, data.domain)
        self._y, self._group, self._domain = (torch.from_numpy(column).to(device) for column in columns)
        self.progress = Progress()
        #: How often each row of the training set is drawn, if a method has said so.
        self.counts: IntArray | None = None
        self._validation: Floats | None = None
        self._losses = torch.zeros((), device=device)
        self._sharing = GradientSharing((), 1)
        self._restart()

    def descend(self, loss: Tensor) -> Tensor:
        """Move the optimiser down the gradient of a loss, and return the loss without its graph.

        Nothing waits for an accelerator here, so that its queue stays full.
        """
        self._watch(loss.detach())
        self.optimizer.zero_grad()
        if loss.requires_grad:  # else no row of the batch has a loss
            torch.autograd.backward(loss)
            self._sharing.wait()
            if self.training.clip:
                parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
                torch.nn.utils.clip_grad_norm_(parameters, self.training.clip)
        self.optimizer.step()  # without gradients it moves nothing; schedules expect it
        torch.clear_autocast_cache()  # a second move of this step must read the new weights
        return loss.detach()

    def restart_optimizer(self) -> None:
        """Forget the optimiser's moments, as where the loss changes; rates and schedule go on."""
        self.optimizer.state.clear()

    def scores(self, rows: IntArray, source: Source | None = None) -> Floats:
        """Predict logits of rows of the base, in eval mode; a last column may be of unknown classes."""
        return self.applied(self.method.predict, rows, self._columns, source)

    def source_scores(self, rows: IntArray) -> Floats:
        """Predict logits of rows of the source, without what adapts to the target alone."""
        return self.applied(self.method.predict_source, rows, self._columns)

    def validation_scores(self) -> Floats:
        """`source_scores` of the validation set, which a method's `correct` shares with the evaluation."""
        if self._validation is None:
            self._validation = self.source_scores(self.data.select)
        return self._validation

    def features(self, rows: IntArray) -> Floats:
        """Encode rows of the base, in eval mode."""
        return self.applied(self.network.features, rows, self.network.n_features)

    def applied(
        self,
        function: Callable[[Tensor], Tensor],
        rows: IntArray,
        width: int = 0,
        source: Source | None = None,
    ) -> Floats:
        """Apply a function to rows of the base, in eval mode: an array of rows x `width`."""
        with evaluating(self.method), torch_threads(self.training.threads), torch.inference_mode():
            parts = [function(x).float().cpu().numpy() for x in self.read(rows, source=source)]
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def read(self, rows: IntArray, size: int = 0, source: Source | None = None) -> Iterator[Tensor]:
        """Read rows of the base in order, `size` at a time, in the network's form, without augmentation."""
        source = source or self.data.source
        if len(rows):
            for batch in source.loader(rows, batch_size=size or source.chunk, rank=0, world=1):
                yield self.prepared(batch[0])

    def drawn(self, epoch: int) -> IntArray:
        """Return the places in the training set that the sampler draws in an epoch, on all ranks."""
        if isinstance(self.sampler, RowSampler):
            return self.sampler.rows_of(epoch)
        return np.concatenate(list(self.sampler.among(Ranks()).items_of(epoch)))

    def prepared(self, x: Any) -> Tensor:
        """Move a loader's x to the device and into the form that the network reads."""
        prepared: Tensor = self._prepare(self._on_device(x)).to(self.device)
        double = self.training.precision == "float64" and prepared.is_floating_point()
        return prepared.double() if double else prepared

    def run(
        self,
        *,
        until: int | None = None,
        on_step: Callable[[int, int], object] = lambda done, total: None,
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
            if not self.progress.finished:
                self._finish()
                self.progress.finished = True

    @property
    def stages(self) -> list[Stage]:
        return list(self.method.stages())

    @property
    def total_steps(self) -> int:
        return sum(map(self.steps_of, self.stages))

    def steps_of(self, stage: Stage) -> int:
        """Return how many steps a stage has."""
        if stage.passes:
            return math.ceil(stage.passes * len(self.data.target) / self.training.batch)
        return round(stage.share * self.training.steps)

    @property
    def _columns(self) -> int:
        return self.data.classes + ("unknown" in self.method.needs)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on, bit for bit; it is the same on all ranks."""
        self.progress.loaders = {name: loader.state_dict() for name, loader in self._loaders.items()}
        return {
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
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
        for name, position in self.progress.loaders.items():
            self._loaders[name].load_state_dict(position)

    @property
    def sampler(self) -> RowSampler | CellBatches:
        """The rule's sampler, or one that draws each row as often as `counts` says."""
        if self.counts is None:
            return self.data.sampler
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return FixedRows(rows, seed=self.seed, names=("counted",))

    def _begin(self, number: int, stage: Stage) -> None:
        if self.progress.begun and number == self.progress.stage:
            return
        if stage.fresh:
            self.network.load_state_dict(self.first)
        torch.manual_seed(hash64(self.seed, "baselines", "begin", number))
        same_everywhere(self.method.buffers())
        self.method.eval()
        self.method.begin(stage, self)
        self.progress.stage, self.progress.done, self.progress.begun = number, 0, True
        self._restart()

    def _restart(self) -> None:
        """Make the optimiser, its schedule and the loaders of a stage that begins."""
        training, stage = self.training, self.stages[self.progress.stage]
        parameters, rate = self.method.trained(stage), training.learning_rate
        encoder = {id(parameter) for parameter in self.network.encoder.parameters()}
        if training.encoder_rate == 1:
            encoder = set()  # one group: a fused update of all parameters
        slow, rest = ([p for p in parameters if (id(p) in encoder) == inside] for inside in (True, False))
        rates = ((slow, rate * training.encoder_rate), (rest, rate))
        groups = [{"params": members, "lr": lr} for members, lr in rates if members]
        groups = groups or [{"params": [torch.zeros(1)], "lr": 0.0}]  # nothing is trained
        self.optimizer = optimizer_of(groups, training)
        self._schedule = schedule_of(self.optimizer, training.schedule, max(1, self.steps_of(stage)))
        self._sharing.close()
        self._sharing = GradientSharing(parameters, self._ranks.world)
        self._restart_loaders(stage)

    def _restart_loaders(self, stage: Stage) -> None:
        data, method, target = self.data, self.method, self.data.target
        fit = self._loader(data.rows, self.sampler, method.strong_views, self.seed)
        self._loaders, self._batches = {"fit": fit}, {"fit": _endless(fit)}
        if "target" in method.needs:
            if not len(target):
                raise InputError(f"{type(method).__name__} reads unlabelled rows, and the set has none")
            shuffled = data.target_sampler or FixedRows(np.arange(len(target)), seed=self.seed + 1)
            drawn = _EpochRows(len(target), self.seed)

            def begin_epoch(epoch: int, begins: bool) -> None:
                drawn.rows = method.target_rows(self, shuffled, epoch, begins)

            # A pass over the target takes all its rows, unless one alone would be left for the last batch.
            drop_last = len(target) > 1 and (not stage.passes or len(target) % self.training.batch == 1)
            # Other draws than the source's.
            loader = self._loader(target, drawn, method.target_strong_views, self.seed + 1, drop_last)
            self._loaders["target"], self._batches["target"] = loader, _endless(loader, begin_epoch)

    def _loader(
        self, rows: IntArray, sampler: Any, strong_views: int, seed: int, drop_last: bool = True
    ) -> Loader:
        source = self.data.source
        total = sampler.total if isinstance(sampler, RowSampler) else len(rows)
        transform = transform_of(self.training, source, strong_views) if source.is_pictures else None
        return source.loader(
            rows, sampler, transform=transform, seed=seed, batch_size=min(self.training.batch, total),
            drop_last=drop_last, workers=self.training.workers, share="batch", rank=self._ranks.rank,
            world=self._ranks.world, pin_memory=self.device.startswith("cuda"),
        )  # fmt: skip

    def _step(self, stage: Stage) -> None:
        progress = self.progress
        batch = self._batch(stage)
        # The same seed in every process (the 0 at its end keeps the draws of records). On a processor only
        # its own generator is seeded: `torch.manual_seed` takes longer, as it asks for every other device.
        generator = torch.default_generator if self.device == "cpu" else torch
        generator.manual_seed(hash64(self.seed, "baselines", "step", progress.total, 0))
        self.method.train()
        # Frozen norms use and keep their running statistics; their weights are trained all the same.
        for layer in batch_norms(self.network.encoder) if self.training.frozen_norm else ():
            layer.eval()
        kind, is_mixed = torch.device(self.device).type, self.training.precision == "bfloat16"
        with torch.autocast(kind, torch.bfloat16, enabled=is_mixed):
            loss = self._loss_of(batch)
        self._schedule.step()
        progress.done, progress.total = progress.done + 1, progress.total + 1
        self.method.after_step(batch)
        every = self.training.evaluate_every
        due = every and (progress.total % every == 0 or progress.done == self.steps_of(stage))
        if due and not stage.adapts:
            self._evaluate(loss)

    def _loss_of(self, batch: Batch) -> Tensor:
        try:
            return self.method.step(batch, self)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                "batch norm has no statistics of a batch of one row: take a larger batch, or frozen_norm=True"
            ) from error

    def _watch(self, loss: Tensor) -> None:
        """Stop a run whose loss is not finite; checked on an accelerator once in `CHECK_EVERY` steps."""
        self._losses = self._losses + loss  # a sum that is not finite stays so
        if self.device == "cpu" or (self.progress.total + 1) % CHECK_EVERY == 0:
            value = float(self._losses)
            self._losses = torch.zeros_like(self._losses)
            if not math.isfinite(value):
                raise DivergedError(
                    f"the loss is {value} at step {self.progress.total + 1}: lower learning_rate, now "
                    f"{self.training.learning_rate:g}, or a penalty's weight, or set a longer warm-up"
                )

    def _evaluate(self, loss: Tensor) -> None:
        """Record the validation loss of the weights as they are, and predictions as if training ended."""
        data, step = self.data, self.progress.total
        if not len(data.select):
            raise InputError("evaluate_every needs a set with the role 'select': the task has none")
        self._validation = None
        scores = torch.from_numpy(self.validation_scores()).double()
        held = float(torch.nn.functional.cross_entropy(scores, torch.from_numpy(data.select_y)))
        self.method.evaluated(held)
        if any(stage.fresh for stage in self.stages[self.progress.stage + 1 :]):
            return  # this network is thrown away: no checkpoint
        entry: dict[str, Any] = {"step": step, "loss": float(loss), "select_loss": held}
        with self._ended():
            entry["predicted"] = torch.from_numpy(self.validation_scores()).argmax(1)
            if data.tested is not None:
                entry["tested"] = torch.from_numpy(self.scores(data.tested)).argmax(1)
        self.progress.history.append(entry)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """Bring the method into the state in which the training would end now, and restore everything after.

        The state that is restored equals, bit for bit, the one from which a stopped run goes on.
        """
        later = enumerate(self.stages[self.progress.stage + 1 :], start=self.progress.stage + 1)
        adapts = [(number, stage) for number, stage in later if stage.adapts]
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
        """Let the method finish; validation scores are kept if the state equals `before`."""
        same_everywhere(self.method.buffers())
        self.method.eval()
        torch.manual_seed(hash64(self.seed, "baselines", "finish"))
        self.method.finish(self)
        after = self.method.state_dict()
        if before is None or not all(torch.equal(after[name], value) for name, value in before.items()):
            self._validation = None
        self.method.correct(self)

    def _batch(self, stage: Stage) -> Batch:
        (x, *strong), rows = self._taken("fit")
        columns = self._y[rows], self._group[rows], self._domain[rows], rows
        at = self.progress.done / self.steps_of(stage), self.progress.done, stage.name
        batch = Batch(x, *columns, *at, strong=tuple(strong))
        if "target" in self._loaders and self.method.reads_target(stage):
            (target, *strong), row = self._taken("target")
            batch = replace(batch, target=target, target_row=row, target_strong=tuple(strong))
        return batch

    def _taken(self, name: str) -> tuple[list[Tensor], Tensor]:
        """Return the views of the next batch, of all ranks together, and the places of its rows."""
        x, info = next(self._batches[name])
        places = gathered(self._on_device(info["position"]), self._ranks)
        if not isinstance(x, Tensor):
            return [gathered(self.prepared(x), self._ranks)], places
        x = gathered(self._on_device(x), self._ranks)  # sent as bytes: a fourth of what the network reads
        views = list(x.permute(1, 0, 4, 2, 3)) if x.ndim == 5 else [x]
        return [self.prepared(view) for view in views], places

    def _on_device(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or self.device == "cpu" or x.device.type != "cpu":
            return x
        pinned = x.pin_memory() if self.device.startswith("cuda") else x
        return pinned.to(self.device, non_blocking=True)


def _endless(
    loader: Loader, begin_epoch: Callable[[int, bool], object] = lambda epoch, begins: None
) -> Iterator[Any]:
    """Yield batches, epoch after epoch; `begin_epoch` gets the epoch, and False where it is resumed."""
    while True:  # an epoch that was resumed after its last batch has none
        position = loader.state_dict()
        begin_epoch(position["epoch"], position["done"] == 0)
        yield from loader


class _EpochRows(RowSampler):
    """A sampler of the rows that a method has chosen for an epoch."""

    def __init__(self, total: int, seed: int) -> None:
        super().__init__("chosen", total, seed=seed)
        self.rows = np.arange(total)

    def rows_of(self, epoch: int) -> IntArray:
        return self.rows


def transform_of(training: Training, source: Source, strong_views: int = 0) -> Any:
    """Return the augmentation as a loader's `transform`; with strong views it returns several pictures."""
    weak: Any = Shift(training.shift, flip=training.flip)
    if training.augment == "domainbed":
        weak = DomainBed(source.shape[0])
    if strong_views:
        strong: Any = Strong(weak)
        if training.augment == "contrastive":
            strong = ContrastiveView(source.shape[0], flip=training.flip)
        return Views(weak, *[strong] * strong_views)
    return None if training.augment == "none" or not (training.shift or training.flip) else weak
