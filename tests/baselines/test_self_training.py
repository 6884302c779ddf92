"""Views, and labels that a network gives itself: ERM-aug, ERM-adv, FixMatch, Noisy Student, SENTRY."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, softmax

from shiftdata.baselines import losses
from tests.baselines import problems
from tests.baselines.problems import picture_problem
from tests.baselines.test_adversarial import random


@pytest.fixture(scope="module")
def data():
    return picture_problem(rows=90, target=30)


trainer_for = partial(problems.trainer_for, backbone="small-cnn", batch=15)


def next_batch(trainer):
    """The batch of the next step."""
    return trainer._batch(trainer.stages[trainer.progress.stage])


# Strong views of the source.


def test_erm_aug_is_erm_on_strong_views(data):
    trainer = trainer_for("erm-aug", data)
    batch = next_batch(trainer)
    expected = losses.cross_entropy(trainer.network(batch.strong[0]), batch.y)
    assert torch.allclose(trainer.method.loss(batch), expected)
    assert not torch.allclose(batch.strong[0], batch.x)
    assert batch.target_strong == next_batch(trainer_for("erm", data)).strong == ()


# FixMatch.


def test_losses_of_confident_weak_views_by_hand():
    weak = torch.tensor([[0.95, 0.03, 0.02], [0.8, 0.1, 0.1], [0.04, 0.04, 0.92]]).log().requires_grad_()
    strong = torch.tensor([[0.2, 0.5, 0.3], [0.91, 0.05, 0.04], [0.5, 0.3, 0.2]]).log().requires_grad_()
    loss = losses.fixmatch(weak, strong, 0.9)
    assert loss.item() == pytest.approx(-2 * np.log(0.2) / 3, rel=1e-5)
    assert losses.fixmatch(weak, strong, 0.9, "paper").item() == pytest.approx(-np.log(0.91) / 3, rel=1e-5)
    loss.backward()
    assert weak.grad is None
    assert strong.grad.abs().sum(1).gt(0).tolist() == [True, False, True]


@pytest.mark.parametrize("variant", ["fixed", "paper"])
def test_fixmatch_is_its_formula(data, variant):
    trainer = trainer_for("fixmatch", data, trade_off=0.7, variant=variant)
    batch, network = next_batch(trainer), trainer.network
    weak, strong = network(batch.target), network(batch.target_strong[0])
    trainer.method.hyper["tau"] = tau = weak.softmax(1).amax(1).median().item()
    fitted = losses.cross_entropy(network(batch.strong[0]), batch.y)
    expected = fitted + 0.7 * losses.fixmatch(weak, strong, tau, variant)
    assert torch.allclose(trainer.method.loss(batch), expected, atol=1e-6)


# Noisy Student.


def test_students_start_over_and_learn_their_teacher_s_labels(data, monkeypatch):
    trainer = trainer_for("noisy-student", data, steps=4)
    method, seen = trainer.method, []
    begin = method.begin

    def watched(stage, trainer):
        begin(stage, trainer)
        weights = trainer.network.state_dict().items()
        first = all(torch.equal(value, trainer.first[name]) for name, value in weights)
        right = (trainer.scores(data.target).argmax(1) == method.get_buffer("labels").numpy()).all()
        seen.append((stage.name, first, bool(right)))

    monkeypatch.setattr(method, "begin", watched)
    trainer.run()
    names = ["teach", "label 1", "student 1", "label 2", "student 2"]
    assert [name for name, *_ in seen] == names
    assert [first for _, first, _ in seen] == [True, False, True, False, True]
    assert [right for name, _, right in seen if name.startswith("label")] == [True, True]
    assert trainer.total_steps == 12


def test_the_teacher_is_erm_aug_and_a_student_its_formula(data):
    erm, trainer = (
        trainer_for("erm-aug", data, steps=2),
        trainer_for("noisy-student", data, steps=2, dropout=0),
    )
    erm.run()
    trainer.run(until=2)
    labels = trainer.method.get_buffer("labels")
    assert (erm.scores(data.target).argmax(1) == labels.numpy()).all()
    trainer.run(until=3)
    batch = next_batch(trainer)
    assert batch.stage == "student 1"
    labels.copy_(torch.arange(len(labels)) % 3)
    fitted = losses.cross_entropy(trainer.network(batch.strong[0]), batch.y)
    theirs = cross_entropy(trainer.network(batch.target_strong[0]), batch.target_row % 3)
    assert torch.allclose(trainer.method.loss(batch), fitted + theirs, atol=1e-6)


# SENTRY.

SURE, OTHER, UNSURE = [0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.4, 0.3, 0.3]


def h(p):
    return -sum(share * np.log(share) for share in p)


def test_a_committee_by_hand():
    """Rows whose views all agree, disagree by two, agree by two, and all disagree."""
    views = [
        [SURE, OTHER, SURE, OTHER],
        [UNSURE, SURE, OTHER, OTHER],
        [UNSURE, OTHER, UNSURE, [0.1, 0.1, 0.8]],
    ]
    whole = [(h(SURE) + 2 * h(UNSURE)) / 3, -h(OTHER), (h(SURE) + h(UNSURE)) / 2]
    whole += [-(2 * h(OTHER) + h([0.1, 0.1, 0.8])) / 3]
    last = [h(UNSURE), -h(OTHER), h(UNSURE), -h([0.1, 0.1, 0.8])]
    for row in range(4):
        weak, strong = torch.tensor([SURE]).log(), [torch.tensor([view[row]]).log() for view in views]
        assert losses.sentry(weak, strong).item() == pytest.approx(whole[row], rel=1e-5)
        assert losses.sentry(weak, strong, "code").item() == pytest.approx(last[row], rel=1e-5)
    rows = [torch.tensor(view).log() for view in views]
    assert losses.sentry(torch.tensor([SURE] * 4).log(), rows).item() == pytest.approx(
        np.mean(whole), rel=1e-5
    )


def test_predictions_are_remembered_up_to_a_number():
    recent = losses.RecentShares(3, 256)
    assert recent.update(torch.eye(3)[[0, 0, 1]]).tolist() == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    for _ in range(16):
        shares = recent.update(torch.eye(3)[[2] * 16])
    assert shares.tolist() == pytest.approx([1 / 259, 1 / 259, 257 / 259])
    assert recent.update(torch.eye(3)[[1]]).tolist() == pytest.approx([1 / 259, 2 / 259, 256 / 259])
    logits, q = random(5, 3), torch.tensor([0.5, 0.3, 0.2])
    expected = (softmax(logits, 1) * q.log()).sum(1).mean()
    assert torch.allclose(losses.sentry_balance(logits, q), expected)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_sentry_is_its_formula(data, variant):
    trainer = trainer_for("sentry", data, first=0.0, committee=0.6, balance=0.3, variant=variant)
    trainer.run(until=1)
    method, network, batch = trainer.method, trainer.network, next_batch(trainer)
    weak, strong = network(batch.target), [network(view) for view in batch.target_strong]
    assert len(strong) == 3
    predicted = torch.cat([method.recent.queue[-15:], weak.argmax(1)])
    q = (1 + torch.bincount(predicted, minlength=3)) / 33
    expected = (
        losses.cross_entropy(network(batch.x), batch.y)
        + 0.6 * losses.sentry(weak, strong, variant)
        + 0.3 * losses.sentry_balance(weak, q)
    )
    assert torch.allclose(method.loss(batch), expected, atol=1e-5)
