"""Methods for targets with classes of their own: what they fit, what they reject, what a task must have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy, cross_entropy, softmax

import shiftdata as sd
from shiftdata.baselines import Batch, Inputs, Training, make_method
from shiftdata.baselines.methods.osbp import boundary_losses
from shiftdata.baselines.methods.ovanet import open_entropy, open_losses
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, problem, trainer_of

OPEN = ("osbp", "ovanet")
FAR = 60


@pytest.fixture(scope="module")
def data():
    return problem()


def with_unknown():
    """Two fifths of the target are of a class that has less of what the three classes have more of."""
    data = problem(rows=600, target=150, shift=0.0)
    x, own = np.array(data.inputs.x), data.target[:FAR]
    x[own] = np.random.default_rng(1).normal(size=(FAR, x.shape[1])).astype(np.float32)
    x[own, :3] -= 4.0
    return replace(data, inputs=Inputs(x, np.arange(len(x)))), own


def batch_of(trainer, data) -> Batch:
    rows = torch.arange(30)
    return Batch(
        trainer.inputs(data.rows[:30]),
        torch.from_numpy(data.y[:30]),
        torch.from_numpy(data.group[:30]),
        torch.from_numpy(data.domain[:30]),
        rows,
        torch.linspace(0.5, 1.5, 30),
        target=trainer.inputs(data.target[:20]),
        target_row=rows[:20],
    )


def test_the_boundary_is_a_cross_entropy_with_a_half():
    scores = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    unknown = softmax(scores, dim=1)[:, -1]
    expected = binary_cross_entropy(unknown, torch.full((9,), 0.5), reduction="none")
    assert torch.allclose(boundary_losses(scores), expected, atol=1e-6)
    even = torch.tensor([[1.0, 2.0, float(np.logaddexp(1, 2))]], requires_grad=True)
    boundary_losses(even).sum().backward()
    assert torch.allclose(even.grad, torch.zeros_like(even), atol=1e-6)
    assert boundary_losses(torch.tensor([[0.0, 500.0]])).isfinite().all()


def test_the_head_is_pulled_to_the_boundary_and_the_encoder_away(data):
    trainer = trainer_of(make_method("osbp", trade_off=0.7), data)
    method, batch = trainer.method, batch_of(trainer, data)
    encoder = next(iter(trainer.network.encoder.parameters()))
    theirs, ours = torch.autograd.grad(method._boundary(batch), [encoder, method.head.weight])
    plain = 0.7 * boundary_losses(method.head(trainer.network.features(batch.target))).mean()
    of_encoder, of_head = torch.autograd.grad(plain, [encoder, method.head.weight])
    assert torch.allclose(ours, of_head)
    assert torch.allclose(theirs, -of_encoder)
    assert not torch.allclose(of_encoder, torch.zeros_like(of_encoder))
    fitted = cross_entropy(method.head(trainer.network.features(batch.x)), batch.y, reduction="none")
    weighted = (fitted * batch.weight).sum() / batch.weight.sum()
    assert torch.allclose(method.loss(batch), weighted + plain)


def test_the_released_code_moves_twice_a_step(data):
    def moves(variant: str) -> int:
        trainer = trainer_of(make_method("osbp", variant=variant), data, steps=3, **PLAIN)
        counted = []
        descend = trainer.descend
        trainer.descend = lambda loss: counted.append(1) or descend(loss)
        trainer.run()
        return len(counted)

    assert (moves("fixed"), moves("code")) == (3, 6)


def test_open_losses_by_hand():
    # Of three classes the row is of the first; the second is the hardest of the others.
    known = torch.tensor([[0.8, 0.6, 0.1]])
    logs = torch.stack([1 - known, known], dim=1).log()
    expected = (-np.log(0.8) - np.log(0.4)) / 2
    assert open_losses(logs, torch.tensor([0])).item() == pytest.approx(expected, rel=1e-5)
    entropy = np.mean([-p * np.log(p) - (1 - p) * np.log(1 - p) for p in (0.8, 0.6, 0.1)])
    assert open_entropy(logs).item() == pytest.approx(entropy, rel=1e-5)


def test_ovanet_is_its_formula(data):
    trainer = trainer_of(make_method("ovanet", entropy=0.3), data)
    method, batch = trainer.method, batch_of(trainer, data)
    z = trainer.network.features(batch.x)

    def logs(z):
        return torch.log_softmax((z @ method.open.weight.T).reshape(len(z), 2, -1), 1)

    each = cross_entropy(trainer.network.head(z), batch.y, reduction="none")
    each = each + open_losses(logs(z), batch.y)
    fitted = (each * batch.weight).sum() / batch.weight.sum()
    entropy = open_entropy(logs(trainer.network.features(batch.target))).mean()
    assert torch.allclose(method.loss(batch), fitted + 0.3 * entropy)


@pytest.mark.parametrize(("variant", "is_one"), [("fixed", True), ("code", False)])
def test_the_second_head_measures_an_angle(data, variant, is_one):
    trainer = trainer_of(make_method("ovanet", variant=variant), data, steps=3)
    trainer.run()
    lengths = trainer.method.open.weight.norm(dim=1)
    assert torch.allclose(lengths, torch.ones_like(lengths)) == is_one
    assert trainer.method.entropy == (0.1 if variant == "fixed" else 1.0)


def test_a_row_that_its_likeliest_class_disowns_is_unknown(data):
    trainer = trainer_of(make_method("ovanet"), data)
    scores = torch.from_numpy(trainer.scores(data.target))
    with torch.no_grad():
        z = trainer.network.features(trainer.inputs(data.target))
        plain, known = (
            trainer.network.head(z),
            torch.softmax(trainer.method.open(z).view(len(z), 2, -1), 1)[:, 1],
        )
    chosen = plain.argmax(1)
    disowned = known[torch.arange(len(z)), chosen] < 0.5
    assert 0 < disowned.sum() < len(z)
    assert torch.equal(scores.argmax(1), torch.where(disowned, data.classes, chosen))


@pytest.mark.parametrize(("name", "least"), [("osbp", 0.5), ("ovanet", 0.9)])
def test_a_class_that_lies_far_away_is_rejected_and_those_that_are_known_are_not(name, least):
    far, own = with_unknown()
    trainer = trainer_of(make_method(name), far, steps=400, batch=64, learning_rate=1e-3)
    trainer.run()
    assert (trainer.scores(own).argmax(1) == far.classes).mean() > least
    known = trainer.scores(far.select).argmax(1)
    assert (known == far.classes).mean() < 0.1
    assert (known == far.select_y).mean() > 0.75


@pytest.mark.parametrize("name", OPEN)
def test_an_answer_does_not_depend_on_the_batch(name, data):
    trainer = trainer_of(make_method(name), data)
    trainer.run()
    alone = np.concatenate([trainer.scores(data.target[[at]]) for at in range(20)])
    assert np.allclose(trainer.scores(data.target[:20]), alone, atol=1e-5)


class TestOnATask:
    def test_a_target_without_classes_of_its_own_is_refused(self, tiny):
        task = sd.task(tiny, "uda", source="blue", target="red", on_empty="report")
        with pytest.raises(InputError, match=r"OVANet needs a task whose target has classes of its own"):
            sd.train(task, "ovanet", backbone="small-cnn", training=Training(steps=1))

    @pytest.mark.parametrize("name", OPEN)
    def test_unknown_is_predicted_by_name_and_judged(self, tiny, name):
        labels = len(sd.read_metadata(tiny).labels)
        shared, private = max(2, labels - 2), (labels - max(2, labels - 2)) // 2
        task = sd.task(
            tiny, "unida", source="blue", target="red", shared=shared, source_private=private,
            target_private=labels - shared - private, on_empty="report",
        )  # fmt: skip
        run = sd.train(task, name, backbone="small-cnn", training=Training(steps=4, batch=8))
        named = set(run.predictions().values())
        assert named <= {*np.array(task.metadata.labels)[task.label_ids], "unknown"}
        assert run.evaluate().to_dict() == task.evaluate(run.predictions()).to_dict()
        assert run.scores.shape[1] == len(task.label_ids) + 1
        scores = np.zeros_like(run.scores)
        scores[:, -1] = 1
        all_unknown = replace(run, scores=scores)
        assert set(all_unknown.predictions().values()) == {"unknown"}
        assert all_unknown.evaluate()["known"] == 0
        assert all_unknown.evaluate()["unknown"] == 1
