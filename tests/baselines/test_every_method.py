"""What every method promises: it goes on bit for bit, learns, and its numbers are documented."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest
import torch
from torch import nn

from shiftdata.baselines import METHODS, make_method
from shiftdata.baselines.methods import FIRST_CLASS
from tests.baselines.problems import PLAIN, fitting, problem, resume, same, trainer_of
from tests.paths import ROOT

#: Those that train for seconds are tried by `make test-slow`.
HEAVY = {"dfr", "erm-aug", "fact", "fixmatch", "jigen", "mixstyle", "mmld", "noisy-student", "sentry"}
HEAVY |= {"stablenet", "uan", "uniot"}
EVERY = [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in METHODS]
#: The first-class methods for every change, the zoo for every landing.
LED = [
    name if name in FIRST_CLASS and name not in HEAVY else pytest.param(name, marks=pytest.mark.slow)
    for name in METHODS
]


def trainer_for(name: str, hyper: dict[str, float] | None = None, **settings):
    method = make_method(name, **(hyper or {}))
    data, backbone = fitting(method)
    return trainer_of(method, data, backbone=backbone, **settings)


@pytest.mark.parametrize("name", LED)
@pytest.mark.parametrize("stop", [2, pytest.param(13, marks=pytest.mark.slow)])
def test_one_that_was_stopped_ends_in_the_same_bits(name, stop):
    whole = trainer_for(name, evaluate_every=4)
    whole.run()
    first = trainer_for(name, evaluate_every=4)
    first.run(until=stop)
    second = trainer_for(name, evaluate_every=4)
    resume(first, second)
    assert second.progress.total == whole.progress.total
    assert same(whole, second)
    rows = whole.data.target
    assert (whole.scores(rows) == second.scores(rows)).all()


@pytest.mark.parametrize("name", EVERY)
def test_it_learns(name):
    trainer = trainer_for(name, steps=120, evaluate_every=10 if name == "swad" else 0)
    trainer.run()
    data = trainer.data
    known = trainer.scores(data.select)[:, : data.classes]  # some have a column for unknown
    assert (known.argmax(1) == data.select_y).mean() > 0.6  # chance: 0.33


def live_bytes() -> int:
    """The memory of all tensors that something still refers to."""
    gc.collect()
    # Not those of a compiler, which have no memory.
    tensors = [tensor for tensor in gc.get_objects() if type(tensor) in (torch.Tensor, nn.Parameter)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


@pytest.mark.slow  # it looks through every object of the process
@pytest.mark.parametrize("name", METHODS)
def test_it_keeps_no_more_tensors_the_longer_it_trains(name):
    windows = {"steps": 40, "evaluate_every": 2} if name == "swad" else {"steps": 12}  # swad's are full
    trainer = trainer_for(name, **windows)
    trainer.run(until=trainer.total_steps - 6)
    before = live_bytes()
    trainer.run(until=trainer.total_steps - 1)
    assert live_bytes() - before < 50_000  # a step of the smallest network keeps more than that in graphs


@pytest.mark.parametrize("name", METHODS)
def test_its_numbers_are_documented(name):
    for kind in [type(make_method(name))]:
        assert kind.__doc__
        for number in kind.space().values():
            assert number.source
            assert number.choices or number.low is None or number.low <= number.default <= number.high


def test_predictions_do_not_depend_on_the_batch():
    data = problem()
    trainer = trainer_of(make_method("erm"), data)
    trainer.run()
    rows = data.select
    alone = np.concatenate([trainer.scores(rows[[at]]) for at in range(len(rows))])
    assert np.allclose(trainer.scores(rows), alone, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_methods_names_it(name):
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    assert re.search(rf"`{name}\+?`", page)


#: Settings in which a method is another one, bit for bit: its weight is 0, or no row is concerned.
LIMITS = [
    ("dann", {"slope": 0}, "erm"),
    ("iw-cdan", {"slope": 0, "momentum": 1}, "erm"),
    ("pseudo-label", {"tau": 1.1}, "erm"),
    ("fixmatch", {"tau": 1.1}, "erm-aug"),
    ("erm-adv", {"radius": 0}, "erm"),
    ("mldg", {"beta": 0}, "erm"),
    ("stablenet", {"weight_steps": 0}, "erm"),
    ("adaclust", {"multiple": 0}, "erm"),
    ("mixstyle", {"p": 0}, "erm"),
    ("mmld", {"trade_off": 0, "entropy": 0}, "erm"),
    ("fact", {"strength": 0, "trade_off": 0}, "erm"),
    *((name, {"trade_off": 0, "anneal": 0}, "erm") for name in ("irm", "vrex", "fishr")),
    *((name, {"trade_off": 0}, "erm") for name in ("coral", "mmd", "sd")),
    ("eqrm", {"anneal": 1}, "erm"),
    ("rsc", {"features_muted": 0}, "erm"),
    ("mixup", {"alpha": 0}, "erm"),
]


@pytest.mark.parametrize(("name", "hyper", "limit"), LIMITS)
def test_at_its_limit_it_is_a_simpler_method(name, hyper, limit):
    method = make_method(name, **hyper)
    data, backbone = fitting(method)
    pair = []
    for each in (method, make_method(limit)):
        each.sampler = "shuffle"
        trainer = trainer_of(each, data, backbone=backbone, steps=4, **PLAIN)
        trainer.run()
        pair.append(trainer)
    for first, second in zip(*(each.network.parameters() for each in pair), strict=True):
        assert torch.allclose(first, second, atol=1e-6)
