"""Evaluations: what a method would predict if the training ended there; nothing of the training changes."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from shiftdata.baselines import Source, make_method
from shiftdata.baselines.methods.erm import ERM
from tests.baselines.problems import fitting, problem, trainer_of

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
    pytest.mark.filterwarnings("ignore::shiftdata.evaluation.label_shift.ratios.EstimateWarning"),
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
    for one, other in zip(final(seen), final(unseen), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("name", ["rs+rw+dann", "rs+rw+tent", "rw+eoa+dare"])
@pytest.mark.parametrize("stop", [5, 8, 15])
def test_a_training_that_is_resumed_leaves_the_same_history(name, stop):
    whole, first = trained(name), trained(name, until=stop)
    kept = io.BytesIO()
    torch.save(first.state_dict(), kept)
    kept.seek(0)
    second = trained(name, until=0)
    second.load_state_dict(torch.load(kept, weights_only=True))
    second.run()
    for entry, other in zip(whole.progress.history, second.progress.history, strict=True):
        assert entry["step"] == other["step"]
        assert torch.equal(entry["predicted"], other["predicted"])
        assert torch.equal(entry["tested"], other["tested"])
    assert all((one == other).all() for one, other in zip(final(whole), final(second), strict=True))


@pytest.mark.parametrize("name", ["rw", "rw-bbse", "rs+rw"])
def test_rw_is_selected_by_as_the_method_that_it_goes_around(name):
    around = name.removesuffix("rw").removesuffix("rw-bbse")
    plain, corrected = trained(f"{around}erm"), trained(f"{name}+erm")
    for entry, other in zip(plain.progress.history, corrected.progress.history, strict=True):
        assert entry["select_loss"] == other["select_loss"]
        assert torch.equal(entry["predicted"], other["predicted"])
    assert (plain.source_scores(plain.data.select) == corrected.source_scores(corrected.data.select)).all()


@pytest.mark.parametrize("name", ["bn-adapt", "tent"])
def test_source_rows_are_predicted_with_the_layers_of_the_source(name):
    adapted = trained(name)
    data, backbone = fitting(make_method(name))
    plain = trainer_of(make_method("erm"), data, backbone=backbone, **{**SETTINGS, "steps": 15})
    plain.run()
    assert (adapted.source_scores(data.select) == plain.scores(data.select)).all()
    assert (adapted.scores(data.select) != plain.scores(data.select)).any()


def test_dare_predicts_source_rows_alike_wherever_the_target_lies():
    near, far = (
        trainer_of(make_method("dare"), problem(shift=shift), **SETTINGS, steps=15) for shift in (0, 30)
    )
    for trainer in (near, far):
        trainer.run()
    select = near.data.select
    right = [(one.source_scores(select).argmax(1) == near.data.select_y).mean() for one in (near, far)]
    assert right[0] == pytest.approx(right[1], abs=0.05)
    assert right[0] > 0.6


@pytest.mark.parametrize("name", ["erm", "bn-adapt", "dare"])
def test_rw_sees_a_severe_shift_around_what_adapts_to_the_target_too(name):
    """Estimated by one classifier: by one for each side, the adapted one would hide the shift."""
    data = problem(rows=1500, target=800, shift=0)
    generator = np.random.default_rng(1)
    y = generator.choice(3, size=800, p=(0.8, 0.15, 0.05))
    x = data.source.array.copy()
    x[data.target] = generator.normal(size=(800, 6))
    x[data.target, y] += 2
    x[data.target, 3 + generator.integers(3, size=800)] += 1
    data, backbone = replace(data, source=Source(x)), fitting(make_method(name))[1]
    right = []
    for method in (name, f"rw+{name}"):
        trainer = trainer_of(make_method(method), data, backbone=backbone, steps=100, batch=64)
        trainer.run()
        right.append((trainer.scores(data.target).argmax(1) == y).mean())
    assert right[1] > right[0] + 0.03


def test_an_evaluation_scores_each_set_once():
    """The validation set's scores are those that the loss, the estimate and the record share."""
    rows = []

    class Counted(ERM):
        def predict(self, x):
            if not self.training:
                rows.append(len(x))
            return super().predict(x)

    data = problem(target=50)
    data = replace(data, tested=np.concatenate([data.select[:7], data.target[:30]]))
    wrapper = type(make_method("rw+erm"))
    trainer = trainer_of(wrapper(Counted()), data, steps=10, evaluate_every=5)
    trainer.run(until=5)
    assert sorted(rows) == [37, 50, 50]


@pytest.mark.parametrize(
    ("method", "begins"), [(make_method("jtt", first=1), 15), (make_method("noisy-student", rounds=2), 30)]
)
def test_a_network_that_is_thrown_away_is_no_checkpoint(method, begins):
    data, backbone = fitting(method)
    trainer = trainer_of(method, data, backbone=backbone, **SETTINGS, steps=15)
    trainer.run()
    assert [one["step"] for one in trainer.progress.history] == [begins + 5, begins + 10, begins + 15]
