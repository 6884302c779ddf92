"""Settings of a training: steps, batch, optimiser, schedule, precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch

from shiftdata.errors import InputError, ShiftdataError

Optimizer: TypeAlias = Literal["adamw", "adam", "sgd"]
Schedule: TypeAlias = Literal["one-cycle", "cosine", "inverse", "constant"]
Augment: TypeAlias = Literal["shift", "domainbed", "contrastive", "none"]
Precision: TypeAlias = Literal["float32", "bfloat16", "float64"]


class DivergedError(ShiftdataError):
    """A training whose loss is not finite."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of a training; its length is in steps, whatever the number of rows.

    "one-cycle": the rate rises over a tenth of the steps and then falls to 0 along a cosine; "inverse"
    divides it by (1 + 10 t / T) ** .75. `batch` 0 is all rows, for batched heads alone. Pictures are moved
    by up to `shift` pixels in each direction, their border repeated. The encoder's learning rate is
    `encoder_rate` times that of the rest, and at 0 it stays as it is: a linear probe, with `frozen_norm`, by
    which its batch norms keep their statistics, as DomainBed's do with pretrained weights. `augment`
    "domainbed" is DomainBed's: crops, flips, colours; "contrastive" makes strong views as MoCo v2 does.
    Every `evaluate_every` steps the validation set is predicted; 0: never. Gradients are scaled down to the
    norm `clip` where that is above 0. `workers` are the loader's threads (default: one a core for pictures),
    `threads` those of torch on a processor.
    """

    steps: int = 800
    batch: int = 64
    learning_rate: float = 0.01
    weight_decay: float = 0.05
    optimizer: Optimizer = "adamw"
    momentum: float = 0.9  # of sgd
    schedule: Schedule = "one-cycle"
    encoder_rate: float = 1.0
    frozen_norm: bool = False
    shift: int = 3
    flip: bool = False  # for things, not for letters
    evaluate_every: int = 0
    augment: Augment = "shift"
    clip: float = 0.0
    workers: int | None = None
    threads: int = 1
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        numbers = (self.weight_decay, self.shift, self.learning_rate, self.encoder_rate, self.evaluate_every)
        limits = (self.clip, self.workers or 0)
        if min(self.steps, self.threads) < 1 or self.batch < 0 or min(*numbers, *limits) < 0:
            raise InputError(f"{self}: at least 1 step and thread, nothing negative")
        words = self.optimizer, self.schedule, self.precision, self.augment
        for word, allowed in zip(words, (Optimizer, Schedule, Precision, Augment), strict=True):
            if word not in get_args(allowed):
                raise InputError(f"{word!r} is not one of {', '.join(get_args(allowed))}")


TRAINING = Training()


def optimizer_of(groups: list[dict[str, Any]], training: Training) -> torch.optim.Optimizer:
    """Return the optimiser of the settings."""
    rate, decay = training.learning_rate, training.weight_decay
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, rate, momentum=training.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, rate, weight_decay=decay)


def schedule_of(optimizer: torch.optim.Optimizer, name: Schedule, steps: int) -> Any:
    """Return the schedule of a stage of `steps` steps."""
    schedules = torch.optim.lr_scheduler
    if name == "one-cycle":
        rates = [group["lr"] for group in optimizer.param_groups]
        rise = 0.2 if steps == 9 else 0.1  # torch divides by .1 * (steps + 1) - 1, which is 0 for 9
        return schedules.OneCycleLR(
            optimizer, rates, total_steps=steps + 1, pct_start=rise, cycle_momentum=False
        )
    factor: dict[str, Callable[[int], float]] = {
        "constant": lambda step: 1.0,
        "cosine": lambda step: (1 + math.cos(math.pi * min(1.0, step / steps))) / 2,
        "inverse": lambda step: (1 + 10 * step / steps) ** -0.75,
    }
    return schedules.LambdaLR(optimizer, factor[name])
