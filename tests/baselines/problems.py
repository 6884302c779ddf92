"""Small problems with known answers, for the tests of methods: rows as numbers, no dataset."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from shiftdata.baselines import Batch, Data, Method, Source, Trainer, Training, make_method
from shiftdata.baselines.models import build
from shiftdata.baselines.networks import Network
from shiftdata.evaluation.sampling import make_sampler

#: Plain gradient descent, so that a step is the gradient.
PLAIN: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant"}


def problem(
    rows: int = 240,
    numbers: int = 6,
    classes: int = 3,
    domains: int = 3,
    target: int = 60,
    seed: int = 0,
    shift: float = 1.0,
) -> Data:
    """Classes that differ in some numbers, domains in others; the target's rows are moved by `shift`."""
    generator = np.random.default_rng(seed)
    total = rows + 2 * target
    y = generator.integers(classes, size=total)
    domain = generator.integers(domains, size=total)
    x = generator.normal(size=(total, numbers))
    x[np.arange(total), y % numbers] += 2.0
    x[np.arange(total), (classes + domain) % numbers] += 1.0
    x[rows : rows + target] += shift
    every = np.arange(total)
    fit, unlabelled, select = every[:rows], every[rows : rows + target], every[rows + target :]
    _, group = np.unique(y[fit] * domains + domain[fit], return_inverse=True)
    return Data(
        Source(x.astype(np.float32)),
        fit,
        y[fit],
        classes,
        group,
        domain[fit],
        make_sampler("shuffle", labels=y[fit]),  # type: ignore[arg-type]
        target=unlabelled,
        select=select,
        select_y=y[select],
        select_group=y[select] * domains + domain[select],
    )


def picture_problem(
    rows: int = 120, side: int = 16, domains: int = 2, target: int = 40, seed: int = 0
) -> Data:
    """Three classes of stripes (across, down, neither), on a background that says the domain."""
    generator = np.random.default_rng(seed)
    data = problem(rows, domains=domains, target=target, seed=seed)
    total = rows + 2 * target
    y, domain = np.empty(total, np.int64), generator.integers(domains, size=total)
    y[data.rows], y[data.select] = data.y, data.select_y
    y[data.target] = generator.integers(3, size=target)
    domain[data.rows] = data.domain
    stripes = np.where(np.arange(side) % 8 < 4, 70, -70)
    x = generator.normal(110, 12, (total, side, side, 3)) + 25 * domain[:, None, None, None]
    x[y == 0] += stripes[:, None, None]
    x[y == 1] += stripes[:, None]
    return replace(data, source=Source(x.clip(0, 255).astype(np.uint8)))


def fitting(method: Method) -> tuple[Data, str]:
    """A problem, and a backbone, that have what a method needs."""
    if method.needs & {"pixels", "maps"}:
        return picture_problem(), "small-cnn"
    return problem(), "mlp-bn" if "batch-norm" in method.needs else "mlp"


def network_of(data: Data, backbone: str = "mlp", seed: int = 0) -> tuple[Network, Any]:
    """A network for a problem, and what prepares its inputs; equal seeds, equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sample = next(iter(data.source.loader(data.rows[:2], batch_size=2)))[0]
        network, prepare, _ = build(backbone, sample, data.classes, fit=data.source.lines(data.rows))
    return network, prepare


def trainer_of(
    method: Method,
    data: Data,
    *,
    backbone: str = "mlp",
    seed: int = 0,
    device: str = "cpu",
    **settings: Any,
) -> Trainer:
    """A trainer of a method on a problem; `settings` are those of `Training`."""
    network, prepare = network_of(data, backbone, seed)
    chosen = Training(**({"steps": 20, "batch": 30} | settings))
    return Trainer(method, network, prepare, data, training=chosen, seed=seed, device=device)


def trainer_for(name: str, data: Data, *, variant: str = "fixed", **settings: Any) -> Trainer:
    """A trainer of a method by its name; `settings` has its hyper-parameters too."""
    hyper = {key: settings.pop(key) for key in make_method(name).space() if key in settings}
    return trainer_of(make_method(name, variant=variant, **hyper), data, **settings)


def ready(
    name: str, data: Data, sizes: tuple[int, ...], *, progress: float = 0.0, step: int = 0, **settings: Any
) -> tuple[Trainer, Batch]:
    """A trainer, and a batch with that many rows of each domain, shuffled."""
    trainer = trainer_for(name, data, **settings)
    rows = np.concatenate([np.flatnonzero(data.domain == at)[:size] for at, size in enumerate(sizes)])
    rows = np.random.default_rng(0).permutation(rows)
    columns = (torch.from_numpy(column[rows]) for column in (data.y, data.group, data.domain))
    x = inputs_of(trainer, data.rows[rows])
    return trainer, Batch(x, *columns, torch.from_numpy(rows), progress=progress, step=step)


def resume(first: Trainer, second: Trainer) -> None:
    """Let the second go on where the first is, through a file."""
    checkpoint = io.BytesIO()
    torch.save(first.state_dict(), checkpoint)
    checkpoint.seek(0)
    second.load_state_dict(torch.load(checkpoint, weights_only=True))
    second.run()


def inputs_of(trainer: Trainer, rows: np.ndarray) -> torch.Tensor:
    """Rows of the base at once, as the network reads them."""
    return next(trainer.read(rows, len(rows)))


def weights_of(trainer: Trainer) -> list[torch.Tensor]:
    """The network's parameters and buffers."""
    return [tensor.detach().clone() for tensor in trainer.network.state_dict().values()]


def same(first: Trainer, second: Trainer) -> bool:
    """Compare two networks bit for bit."""
    return all(torch.equal(*pair) for pair in zip(weights_of(first), weights_of(second), strict=True))
