"""Methods for targets with classes of their own: what they fit, what they reject, what a task must have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy, cross_entropy, softmax
from torch.nn.functional import binary_cross_entropy_with_logits as bce

import shiftdata as sd
from shiftdata.baselines import Batch, Inputs, Training, make_method
from shiftdata.baselines.zoo.osbp import boundary_losses
from shiftdata.baselines.zoo.ovanet import open_entropy, open_losses
from shiftdata.baselines.zoo.uan import normalised, uncertainty
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, problem, trainer_of

OPEN = ("osbp", "ovanet", "uan", "uniot")
FAR = 60


@pytest.fixture(scope="module")
def data():
    return problem()


def with_unknown(near: bool = False):
    """Two fifths of the target are of a class that lies on the first class, or far from all three."""
    data = problem(rows=600, target=150, shift=0.0)
    x, own = np.array(data.inputs.x), data.target[:FAR]
    x[own] = np.random.default_rng(1).normal(size=(FAR, x.shape[1])).astype(np.float32)
    x[own, :3] += (2.0, 0.0, 0.0) if near else -4.0
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


def unit(shares):
    return np.array(shares) / np.mean(shares)


def test_weights_of_uan_by_hand():
    scores = torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [1.0, 1.0, -50.0]])
    p = softmax(scores / 2, dim=1).numpy()
    expected = -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1) / np.log(3)
    assert np.allclose(uncertainty(scores, 2.0), expected, atol=1e-5)
    assert uncertainty(scores)[0] == pytest.approx(1)
    weight = torch.tensor([-3.0, 1.0, 0.0, 5.0], requires_grad=True)
    assert np.allclose(normalised(weight), unit([0, 0.5, 0.375, 1]))
    assert not normalised(weight).requires_grad
    assert normalised(torch.full((4,), 0.3)).tolist() == [1, 1, 1, 1]
    with pytest.raises(InputError, match="one number a row"):
        normalised(weight[:, None])


def uan_parts(trainer, batch):
    """What UAN's loss is made of, by hand; the reversal changes no value."""
    method, network = trainer.method, trainer.network
    z, z_target = network.features(batch.x), network.features(batch.target)
    seen, seen_target = method.observer(z), method.observer(z_target)
    weight = normalised(uncertainty(network.head(z), 10.0) - torch.sigmoid(seen))
    weight_target = normalised(torch.sigmoid(seen_target) - uncertainty(network.head(z_target)))
    ones, zeros = torch.ones(30), torch.zeros(20)
    each = cross_entropy(network.head(z), batch.y, reduction="none")
    hidden = bce(method.adversary(z), ones, reduction="none")
    hidden_target = bce(method.adversary(z_target), zeros, reduction="none")
    observing = batch.weight @ bce(seen, ones, reduction="none") / batch.weight.sum() + bce(
        seen_target, zeros
    )
    return (
        batch.weight / batch.weight.sum(),
        each,
        (weight, hidden),
        (weight_target, hidden_target),
        observing,
    )


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_uan_is_its_formula_and_the_released_weights_do_nothing(data, variant):
    trainer = trainer_of(make_method("uan", dropout=0, trade_off=0.7, variant=variant), data)
    trainer.run(until=5)
    batch = batch_of(trainer, data)
    share, each, (weight, hidden), (weight_target, hidden_target), observing = uan_parts(trainer, batch)
    if variant == "fixed":
        hidden, hidden_target = weight * hidden, weight_target * hidden_target
    expected = share @ each + 0.7 * (share @ hidden + hidden_target.mean()) + observing
    assert torch.allclose(trainer.method.loss(batch), expected, atol=1e-6)
    assert not torch.allclose(weight, torch.ones(30))


@pytest.mark.parametrize(("variant", "moves"), [("fixed", False), ("code", True)])
def test_the_observer_does_not_move_the_encoder(data, variant, moves):
    """At the first step the reversal's coefficient is 0: only the source's loss has a gradient for it."""
    trainer = trainer_of(make_method("uan", dropout=0, variant=variant), data)
    batch = batch_of(trainer, data)
    encoder = list(trainer.network.encoder.parameters())
    share, each, *_ = uan_parts(trainer, batch)
    plain = torch.autograd.grad(share @ each, encoder)
    whole = torch.autograd.grad(trainer.method.loss(batch), encoder)
    assert all(torch.allclose(*pair, atol=1e-7) for pair in zip(plain, whole, strict=True)) != moves


def test_the_adversary_is_reversed(data):
    trainer = trainer_of(make_method("uan", dropout=0), data)
    batch = replace(batch_of(trainer, data), progress=0.1)
    encoder, adversary = (
        next(one.parameters()) for one in (trainer.network.encoder, trainer.method.adversary)
    )
    share, each, (weight, hidden), (weight_target, hidden_target), _ = uan_parts(trainer, batch)
    domain = share @ (weight * hidden) + (weight_target * hidden_target).mean()
    plain = torch.autograd.grad(share @ each, encoder, retain_graph=True)[0]
    of_encoder, of_adversary = torch.autograd.grad(domain, [encoder, adversary])
    made = torch.autograd.grad(trainer.method.loss(batch), [encoder, adversary])
    assert torch.allclose(made[0], plain - (2 / (1 + np.exp(-1.0)) - 1) * of_encoder, atol=1e-6)
    assert torch.allclose(made[1], of_adversary, atol=1e-6)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_rows_below_the_threshold_are_unknown(data, variant):
    trainer = trainer_of(make_method("uan", variant=variant), data)
    trainer.run()
    with torch.no_grad():
        z = trainer.network.features(trainer.inputs(data.target))
        shared = torch.sigmoid(trainer.method.observer(z)) - uncertainty(trainer.network.head(z))
        plain = trainer.network.head(z).argmax(1)
    if variant == "code":
        shared = (shared - shared.min()) / (shared.max() - shared.min())
    else:
        trainer.method.hyper["threshold"] = float(shared.median()) + 1e-4
    scores = trainer.scores(data.target)
    below = shared < trainer.method.threshold
    assert 0 < below.sum() < len(z)
    assert scores.argmax(1).tolist() == torch.where(below, 3, plain).tolist()
    alone = np.concatenate([trainer.scores(data.target[[at]]) for at in range(len(z))]).argmax(1)
    assert (alone == scores.argmax(1)).all() == (variant == "fixed")


#: The least of the far class that is rejected, and the most of what is known.
REJECTED = {"osbp": (0.5, 0.1), "ovanet": (0.9, 0.1), "uan": (0.5, 0.1), "uniot": (0.8, 0.4)}


def rejected(name: str, near: bool) -> tuple[float, float]:
    """The shares that are rejected of an unknown class, and of the known ones."""
    placed, own = with_unknown(near)
    trainer = trainer_of(make_method(name), placed, steps=250, batch=64, learning_rate=2e-3)
    trainer.run()
    known = trainer.scores(placed.select)
    assert (known[:, :-1].argmax(1) == placed.select_y).mean() > 0.75
    unknown = (trainer.scores(rows).argmax(1) == placed.classes for rows in (own, placed.target[FAR:]))
    return tuple(float(one.mean()) for one in unknown)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_an_unknown_class_is_rejected_where_it_lies_apart(name):
    far, known = rejected(name, near=False)
    near, _ = rejected(name, near=True)
    assert (far > REJECTED[name][0], known < REJECTED[name][1]) == (True, True)
    assert far > near + 0.3


@pytest.mark.parametrize("name", OPEN)
def test_an_answer_does_not_depend_on_the_batch(name, data):
    trainer = trainer_of(make_method(name), data)
    trainer.run()
    alone = np.concatenate([trainer.scores(data.target[[at]]) for at in range(20)])
    assert np.allclose(trainer.scores(data.target[:20]), alone, atol=1e-5)


@pytest.mark.parametrize("name", OPEN)
def test_shares_of_known_classes_do_not_weigh_unknown_ones(name, data):
    with pytest.raises(InputError, match="predicts unknown classes, and rw knows shares of known ones alone"):
        make_method(f"rw+{name}")
    trainer = trainer_of(make_method(f"rs+{name}"), data, steps=6)
    trainer.run()
    assert trainer.scores(data.select).shape == (len(data.select), data.classes + 1)


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
