"""Evaluations: what a method would predict if the training ended there; nothing of the training changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from shiftdata.baselines import make_method
from tests.baselines.problems import fitting, resume, trainer_of

#: Methods that end a training in a way of their own: averaged weights, new heads, the target's statistics.
ENDING = (
    *(
        "rw-mlls+rs+erm",
        "bn-adapt",
        "eoa+erm",
        "eoa+rw+tent",
        "rw+dare",
        "swad+rw+erm",
        "swad+bn-adapt",
    ),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("dfr", "uniot")),  # regressions, transports
)
SETTINGS = {"schedule": "constant", "evaluate_every": 5, "batch": 30}

pytestmark = [
    pytest.mark.filterwarnings("ignore::shiftdata.evaluation.label_shift.estimators.EstimateWarning"),
    pytest.mark.filterwarnings("ignore:lbfgs"),
]


def trained(name, steps=15, until=None, **settings):
    data, backbone = fitting(make_method(name))
    data = replace(data, tested=data.target)
    hyper = {"start": 3} if "eoa" in name else {}
    trainer = trainer_of(
        make_method(name, **hyper), data, backbone=backbone, **{**SETTINGS, "steps": steps, **settings}
    )
    trainer.run(until=until)
    return trainer


def final(trainer):
    """The classes that a finished training predicts: of validation rows, of test rows."""
    data = trainer.data
    return trainer.source_scores(data.select).argmax(1), trainer.scores(data.tested).argmax(1)


@pytest.mark.parametrize("name", ENDING)
def test_an_evaluation_predicts_what_a_training_that_ends_there_would(name):
    whole = trained(name)
    assert [entry["step"] for entry in whole.progress.history] == [5, 10, 15]
    for entry in whole.progress.history:
        select, tested = final(trained(name, entry["step"]))
        assert (entry["predicted"].numpy() == select).all()
        assert (entry["tested"].numpy() == tested).all()


@pytest.mark.parametrize("name", [name for name in ENDING if "swad" not in str(name)])
def test_evaluations_change_no_bit_of_a_training(name):
    seen, unseen = trained(name), trained(name, evaluate_every=0)
    states = seen.method.state_dict(), unseen.method.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    for changed, unchanged in zip(final(seen), final(unseen), strict=True):
        assert (changed == unchanged).all()


@pytest.mark.parametrize("name", ["rs+rw+dann", "rs+rw+tent", "rw+eoa+dare"])
@pytest.mark.parametrize("stop", [8, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (5, 15))])
def test_a_training_that_is_resumed_leaves_the_same_history(name, stop):
    whole, first = trained(name), trained(name, until=stop)
    second = trained(name, until=0)
    resume(first, second)
    for entry, resumed in zip(whole.progress.history, second.progress.history, strict=True):
        assert entry["step"] == resumed["step"]
        assert torch.equal(entry["predicted"], resumed["predicted"])
        assert torch.equal(entry["tested"], resumed["tested"])
    assert all((labels == resumed).all() for labels, resumed in zip(final(whole), final(second), strict=True))


@pytest.mark.parametrize("name", ["rw", "rw-bbse", "rs+rw"])
def test_rw_is_selected_by_as_the_method_that_it_goes_around(name):
    around = name.removesuffix("rw").removesuffix("rw-bbse")
    plain, corrected = trained(f"{around}erm"), trained(f"{name}+erm")
    for entry, with_rw in zip(plain.progress.history, corrected.progress.history, strict=True):
        assert entry["select_loss"] == with_rw["select_loss"]
        assert torch.equal(entry["predicted"], with_rw["predicted"])
    assert (plain.source_scores(plain.data.select) == corrected.source_scores(corrected.data.select)).all()
