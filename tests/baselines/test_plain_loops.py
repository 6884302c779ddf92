"""Loops of users over the public loader, losses and samplers equal `sd.train`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import shiftdata as sd
from shiftdata.baselines import Training, initial_network, losses
from shiftdata.data.loading.augment import Shift
from tests.paths import ROOT

STEPS, BATCH = 20, 24
PLAIN: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 1e-3, "schedule": "constant"}
# In float64: within 20 steps the network makes differences 10,000 times as large.
TRAINING = Training(steps=STEPS, batch=BATCH, shift=2, precision="float64", **PLAIN)
SGD: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.05}


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


def batches(task: sd.Task, sampler: str, batch_size: int = BATCH) -> Iterator[Any]:
    """The batches of a training, epoch after epoch."""
    options: dict[str, Any] = {"drop_last": True, "remap": True, "size": 24, "transform": Shift(2)}
    loader = task.loader(sampler=sampler, batch_size=batch_size, seed=0, **options)
    while True:
        yield from loader


def erm(task: sd.Task, network: Any, prepare: Any) -> Iterator[torch.Tensor]:
    for x, y, _ in batches(task, "shuffle"):
        yield cross_entropy(network(prepare(x).double()), y)


def group_dro(task: sd.Task, network: Any, prepare: Any) -> Iterator[torch.Tensor]:
    groups = torch.unique(torch.from_numpy(task.metadata.group[task.rows("train")]).long())
    dro = losses.GroupDRO(len(groups), eta=0.1)
    for x, y, info in batches(task, "rwg"):
        each = cross_entropy(network(prepare(x).double()), y, reduction="none")
        yield dro.update(each, torch.searchsorted(groups, info["group"]))


def vrex(task: sd.Task, network: Any, prepare: Any) -> Iterator[torch.Tensor]:
    for x, y, info in batches(task, "per-domain"):
        each = cross_entropy(network(prepare(x).double()), y, reduction="none")
        yield each.mean() + losses.vrex(each, info["nuisance"])


@pytest.mark.parametrize(
    ("method", "loop", "hyper"),
    [
        ("erm", erm, {}),
        ("group-dro", group_dro, {}),
        pytest.param("vrex", vrex, {"anneal": 0.0, "trade_off": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_plain_loop_equals_the_trainer(task, method, loop, hyper):
    run = sd.train(task, method, side=24, training=TRAINING, **hyper)
    network, prepare = initial_network(task, side=24)
    network.double()
    optimizer = torch.optim.SGD(network.parameters(), **SGD)
    network.train()
    for _, loss in zip(range(STEPS), loop(task, network, prepare), strict=False):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    with torch.inference_mode():
        test = task.loader("test", batch_size=64, size=24)
        logits = np.concatenate([network(prepare(x).double()).numpy() for x, *_ in test])
    rows = np.searchsorted(run.rows, task.rows("test"))
    assert np.abs(logits - run.scores[rows]).max() < 1e-6


def test_the_loop_of_the_docs_equals_the_trainer(task):
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    section = page.split("## The same training in a loop of your own")[1]
    (example, *_) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    threads = torch.get_num_threads()
    try:
        exec(compile(example, "docs/baselines.md", "exec"), {"sd": sd, "task": task})
    finally:
        torch.set_num_threads(threads)
