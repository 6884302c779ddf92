"""Views, and labels that a network gives itself: ERM-aug, ERM-adv, FixMatch, Noisy Student, SENTRY."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax, softmax

import shiftdata as sd
from shiftdata.baselines import Inputs, Training, make_method
from shiftdata.baselines.methods.fixmatch import weak_label_losses
from shiftdata.baselines.zoo.erm_adv import stepped
from shiftdata.baselines.zoo.sentry import REMEMBERED, committee_losses
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, picture_problem, problem, same, trainer_of


@pytest.fixture(scope="module")
def data():
    return picture_problem(rows=90, target=30)


def trainer_for(name: str, data: Any, **settings: Any):
    method = {key: settings.pop(key) for key in list(settings) if key in make_method(name).space()}
    variant = settings.pop("variant", "fixed")
    made = make_method(name, variant=variant, **method)
    return trainer_of(made, data, **{"backbone": "small-cnn", "batch": 15, **settings})


def parameters(trainer) -> list[torch.Tensor]:
    return [one.detach() for one in trainer.network.parameters()]


def equal(first, second) -> bool:
    return all(map(torch.equal, parameters(first), parameters(second)))


# Strong views of the source.


def test_erm_aug_is_erm_on_strong_views(data):
    trainer = trainer_for("erm-aug", data)
    batch = replace(trainer._batch(20), weight=torch.linspace(0.5, 1.5, 15))
    expected = cross_entropy(trainer.network(batch.strong[0]), batch.y, reduction="none")
    share = batch.weight / batch.weight.sum()
    assert torch.allclose(trainer.method.loss(batch), share @ expected)
    assert not torch.allclose(batch.strong[0], batch.x)
    assert batch.target_strong == ()
    assert trainer_for("erm", data)._batch(20).strong == ()


@pytest.mark.parametrize("name", ["erm-aug", "fixmatch", "noisy-student", "sentry"])
def test_pictures_are_asked_for(name, tiny):
    task = sd.task(tiny, "uda", source="red", target="blue")
    numbers = Inputs(np.zeros((len(task.metadata), 4), np.float32), np.arange(len(task.metadata)))
    with pytest.raises(InputError, match="changes pictures, and the network reads features"):
        sd.train(task, name, backbone="mlp", inputs=numbers, training=Training(steps=1))


# Adversarial examples.


def test_a_step_goes_up_the_gradient_and_stays_near():
    origin = torch.zeros(3, 2)
    gradient = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    once = stepped(origin, origin, gradient, 0.3, 0.5)
    assert torch.allclose(once, torch.tensor([[0.18, 0.24], [0.0, 0.0], [0.0, -0.3]]))
    twice = stepped(once, origin, gradient, 0.3, 0.5)
    assert torch.allclose(twice, torch.tensor([[0.3, 0.4], [0.0, 0.0], [0.0, -0.5]]))
    away = stepped(origin + 7, origin + 7, gradient, 0.3, 0.5) - 7
    assert torch.allclose(away, once, atol=1e-5)


def test_attacks_raise_the_loss_within_their_radius(data):
    trainer = trainer_for("erm-adv", data)
    trainer.run(until=5)
    method, batch = trainer.method, trainer._batch(20)
    running = [one.clone() for one in trainer.network.buffers()]
    made = method.attacked(batch.x, batch.y)
    assert all(map(torch.equal, running, trainer.network.buffers()))
    assert all(one.training for one in trainer.network.modules())
    far = (made - batch.x).flatten(1).norm(dim=1)
    assert (far <= 0.5 * 4 + 1e-4).all()  # black is -2, white 2
    assert far.mean() > 0.4 * 4
    assert (made.min(), made.max()) >= (-2, -2)
    assert made.max() <= 2
    trainer.method.eval()
    losses = [cross_entropy(trainer.network(x), batch.y, reduction="none") for x in (batch.x, made)]
    assert (losses[1] > losses[0]).all()
    noise = torch.randn_like(batch.x)
    noise = batch.x + 2 * noise / noise.flatten(1).norm(dim=1)[:, None, None, None]
    assert losses[1].mean() > cross_entropy(trainer.network(noise), batch.y)


def test_lighter_than_white_is_nothing():
    data = picture_problem(rows=30, target=10)
    white = replace(data, inputs=Inputs(np.full_like(data.inputs.x, 255), data.inputs.place))
    trainer = trainer_for("erm-adv", white)
    trainer.run(until=1)
    batch = trainer._batch(20)
    assert trainer.method.attacked(batch.x, batch.y).max() <= 2.0
    assert (batch.x == 2).all()


def test_without_a_radius_and_in_the_last_tenth_it_is_erm(data):
    erm, still = trainer_for("erm", data, steps=5), trainer_for("erm-adv", data, steps=5, radius=0)
    for one in (erm, still):
        one.run()
    assert same(erm, still)
    trainer = trainer_for("erm-adv", data, steps=20)
    trainer.run(until=1)
    batch = trainer._batch(20)
    plain = cross_entropy(trainer.network(batch.x), batch.y)
    assert torch.allclose(trainer.method.loss(replace(batch, progress=0.9)), plain)
    assert trainer.method.loss(replace(batch, progress=0.89)) > plain


def test_numbers_are_moved_by_deviations():
    data = problem()
    trainer = trainer_of(make_method("erm-adv"), data)
    trainer.run(until=2)
    batch = trainer._batch(20)
    far = (trainer.method.attacked(batch.x, batch.y) - batch.x).norm(dim=1)
    assert torch.allclose(far, torch.full_like(far, 0.5), atol=0.1)


# FixMatch.


def test_losses_of_confident_weak_views_by_hand():
    p_weak = torch.tensor([[0.95, 0.03, 0.02], [0.8, 0.1, 0.1], [0.04, 0.04, 0.92]])
    p_strong = torch.tensor([[0.2, 0.5, 0.3], [0.91, 0.05, 0.04], [0.5, 0.3, 0.2]])
    made = weak_label_losses(p_weak.log(), p_strong.log(), 0.9)
    assert made.tolist() == pytest.approx([-np.log(0.2), 0, -np.log(0.2)], rel=1e-5)
    by_strong = weak_label_losses(p_weak.log(), p_strong.log(), 0.9, by_strong=True)
    assert by_strong.tolist() == pytest.approx([0, -np.log(0.91), 0], rel=1e-5)


@pytest.mark.parametrize("variant", ["fixed", "paper"])
def test_fixmatch_is_its_formula(data, variant):
    trainer = trainer_for("fixmatch", data, trade_off=0.7, variant=variant)
    trainer.run(until=3)
    batch = replace(trainer._batch(20), weight=torch.linspace(0.5, 1.5, 15))
    network, share = trainer.network, batch.weight / batch.weight.sum()
    fitted = share @ cross_entropy(network(batch.strong[0]), batch.y, reduction="none")
    weak, strong = network(batch.target), network(batch.target_strong[0])
    confidence = (weak if variant == "fixed" else strong).softmax(1).max(1).values
    trainer.method.hyper["tau"] = confidence.median().item()
    sure = confidence >= trainer.method.tau
    assert 0 < sure.sum() < len(sure)
    each = cross_entropy(strong, weak.argmax(1), reduction="none") * sure
    assert torch.allclose(trainer.method.loss(batch), fitted + 0.7 * each.sum() / len(each), atol=1e-6)


def test_labels_of_fixmatch_have_no_gradient(data):
    trainer = trainer_for("fixmatch", data, tau=0.0)
    batch = trainer._batch(20)
    weak, strong = batch.target.clone().requires_grad_(), batch.target_strong[0].clone().requires_grad_()
    loss = trainer.method.loss(replace(batch, target=weak, target_strong=(strong,)))
    loss.backward()
    assert weak.grad is None
    assert strong.grad.abs().sum() > 0


def test_where_nothing_is_confident_fixmatch_is_erm_aug(data):
    erm, mine = trainer_for("erm-aug", data, steps=5), trainer_for("fixmatch", data, steps=5, tau=1.1)
    for one in (erm, mine):
        one.run()
    assert equal(erm, mine)


# Noisy Student.


def test_students_begin_anew_and_learn_their_teacher_s_labels(data, monkeypatch):
    trainer = trainer_for("noisy-student", data, steps=6)
    method, seen = trainer.method, []
    begin = method.begin

    def watched(stage, one):
        begin(stage, one)
        first = all(
            torch.equal(value, one.first[name]) for name, value in trainer.network.state_dict().items()
        )
        right = (trainer.scores(data.target).argmax(1) == method.get_buffer("labels").numpy()).all()
        seen.append((stage.name, first, bool(right)))

    monkeypatch.setattr(method, "begin", watched)
    trainer.run()
    names = ["teach", "label 1", "student 1", "label 2", "student 2"]
    assert [name for name, *_ in seen] == names
    assert [first for _, first, _ in seen] == [True, False, True, False, True]
    assert [right for name, _, right in seen if name.startswith("label")] == [True, True]
    assert trainer.total_steps == 18


def test_the_teacher_is_erm_aug_and_a_student_its_formula(data):
    erm, trainer = trainer_for("erm-aug", data, steps=4), trainer_for("noisy-student", data, steps=4)
    erm.run()
    trainer.run(until=4)
    labels = trainer.method.get_buffer("labels")
    assert (erm.scores(data.target).argmax(1) == labels.numpy()).all()
    trainer = trainer_for("noisy-student", data, steps=4, dropout=0.0)
    trainer.run(until=5)
    batch = replace(trainer._batch(4), weight=torch.linspace(0.5, 1.5, 15))
    assert batch.stage == "student 1"
    labels = trainer.method.get_buffer("labels")
    labels.copy_(torch.arange(len(labels)) % 3)
    share = batch.weight / batch.weight.sum()
    fitted = share @ cross_entropy(trainer.network(batch.strong[0]), batch.y, reduction="none")
    theirs = cross_entropy(trainer.network(batch.target_strong[0]), batch.target_row % 3)
    assert torch.allclose(trainer.method.loss(batch), fitted + theirs, atol=1e-6)


def test_students_drop_features_in_training_alone(data):
    trainer = trainer_for("noisy-student", data, dropout=0.5)
    x = trainer.inputs(data.rows[:15])
    z = trainer.network.eval().features(x)
    head = torch.nn.Linear(z.shape[1], z.shape[1])
    torch.nn.init.eye_(head.weight)
    torch.nn.init.zeros_(head.bias)
    trainer.network.head = head
    trainer.method.eval()
    assert torch.allclose(trainer.method.noisy(x), z, atol=1e-6)
    trainer.method.training = True
    dropped = trainer.method.noisy(x)[z > 0.01] / z[z > 0.01]
    assert {0.0, 2.0} == {round(float(one), 2) for one in dropped.detach().unique()}


# SENTRY.


def scores_of(*rows):
    return torch.tensor(rows).log()


SURE, OTHER, UNSURE = [0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.4, 0.3, 0.3]


def h(p):
    return -sum(one * np.log(one) for one in p)


def test_a_committee_by_hand():
    weak = scores_of(SURE, SURE, SURE, SURE)
    views = [
        scores_of(SURE, OTHER, SURE, OTHER),
        scores_of(UNSURE, SURE, OTHER, OTHER),
        scores_of(UNSURE, OTHER, UNSURE, [0.1, 0.1, 0.8]),
    ]
    expected = [
        (h(SURE) + 2 * h(UNSURE)) / 3,  # all agree
        -h(OTHER),  # two do not
        (h(SURE) + h(UNSURE)) / 2,  # two agree
        -(2 * h(OTHER) + h([0.1, 0.1, 0.8])) / 3,
    ]
    assert committee_losses(weak, views).tolist() == pytest.approx(expected, rel=1e-5)
    last = [h(UNSURE), -h(OTHER), h(UNSURE), -h([0.1, 0.1, 0.8])]
    assert committee_losses(weak, views, last=True).tolist() == pytest.approx(last, rel=1e-5)


def test_views_that_are_the_picture_agree():
    weak = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    made = committee_losses(weak, [weak, weak, weak])
    p = softmax(weak, 1)
    assert torch.allclose(made, -(p * p.log()).sum(1), atol=1e-6)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_sentry_is_its_formula(data, variant):
    trainer = trainer_for(
        "sentry", data, first=0.0, committee=0.6, balance=0.3, variant=variant, steps=40, **PLAIN
    )
    trainer.run(until=5)  # within the third epoch of the target
    method, network = trainer.method, trainer.network
    batch = replace(trainer._batch(40), weight=torch.linspace(0.5, 1.5, 15))
    weak, strong = network(batch.target), [network(one) for one in batch.target_strong]
    assert len(strong) == 3
    if variant == "fixed":
        queue = method.get_buffer("remembered")
        assert (queue >= 0).sum() == 75
        counts = torch.bincount(torch.cat([queue[queue >= 0], weak.argmax(1)]), minlength=3) + 1
        q = counts / counts.sum()
    else:
        q = method.get_buffer("shares").clone()
        assert q.sum() == pytest.approx(1, abs=1e-4)
        assert method.get_buffer("sums")[-1] == 15
    p = softmax(weak, 1)
    expected = (
        batch.weight @ cross_entropy(network(batch.x), batch.y, reduction="none") / batch.weight.sum()
        + 0.6 * committee_losses(weak, strong, last=variant == "code").mean()
        + 0.3 * (p * q.log()).sum(1).mean()
    )
    assert torch.allclose(method.loss(batch), expected, atol=1e-5)


def test_sentry_draws_the_source_by_class_and_may_be_balanced_further(data):
    assert make_method("sentry").sampler == make_method("rwy").sampler
    wrapped = trainer_for("sentry", data, first=0.0, steps=2)
    around = trainer_of(make_method("rs+sentry", first=0.0), data, backbone="small-cnn", batch=15, steps=2)
    for one in (wrapped, around):
        one.run()
    assert equal(wrapped, around)  # rs draws as it does


def test_sentry_begins_with_a_source_model(data):
    sampled = replace(data)
    source = trainer_for("sentry", sampled, steps=4)
    source.run(until=4)
    erm = trainer_for("erm", sampled, steps=4)
    erm.run()
    assert equal(erm, source)
    assert source.total_steps == 8
    assert trainer_for("sentry", sampled, steps=4, variant="code").total_steps == 4


def test_predictions_are_remembered_up_to_a_number(data):
    trainer = trainer_for("sentry", data, first=0.0, steps=30)
    method = trainer.method
    for step in range(REMEMBERED // 15 + 3):
        logs = log_softmax(torch.nn.functional.one_hot(torch.full((15,), step % 3), 3).float() * 9, 1)
        shares = method.log_shares(logs).exp()
    queue = method.get_buffer("remembered")
    assert (queue >= 0).all()
    assert queue[-15:].tolist() == [step % 3] * 15
    assert shares.sum().item() == pytest.approx(1, abs=1e-5)
    expected = (1 + (queue == 0).sum().item()) / (REMEMBERED + 3)
    assert shares[0].item() == pytest.approx(expected, rel=1e-5)
    for _ in range(256 // 16):
        shares = method.log_shares(torch.eye(3)[[2] * 16]).exp()
    # 256 times class 2 and, as always, each class once more.
    assert shares.tolist() == pytest.approx([1 / 259, 1 / 259, 257 / 259], rel=1e-5)


def test_the_target_is_drawn_by_predicted_class(data):
    trainer = trainer_for("sentry", data, first=0.0, steps=10)
    predicted = np.repeat([0, 1], [27, 3])
    trainer.run(until=1)
    trainer.scores = lambda rows: np.eye(3, dtype=np.float32)[predicted]
    trainer._streams["target"].take()  # what is left of the epoch that has begun
    drawn = np.concatenate([trainer._batch(10).target_row.numpy() for _ in range(20)])
    assert abs((predicted[drawn] == 1).mean() - 0.5) < 0.1
