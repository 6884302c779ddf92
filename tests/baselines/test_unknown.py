"""Losses and methods for targets with classes of their own: what they fit, what they reject."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import shiftdata as sd
from shiftdata.baselines import Source, Training, losses, make_method
from shiftdata.baselines.losses.open_set import unit_range
from shiftdata.errors import InputError
from tests.baselines.problems import inputs_of, problem, trainer_of
from tests.baselines.test_adversarial import ready

OPEN = ("osbp", "ovanet", "uan", "uniot")
FAR = 60


# OSBP.


def test_the_head_is_pulled_to_the_boundary_and_the_encoder_away(data):
    trainer, batch = ready("osbp", data, trade_off=0.7)
    method, encoder = trainer.method, next(iter(trainer.network.encoder.parameters()))
    plain = 0.7 * losses.osbp(method.head(trainer.network.features(batch.target)))
    fitted = losses.cross_entropy(method.predict(batch.x), batch.y)
    loss = method.loss(batch)
    assert torch.allclose(loss, fitted + plain)
    weights = [encoder, method.head.weight]
    of_loss, of_plain, of_fitted = (torch.autograd.grad(each, weights) for each in (loss, plain, fitted))
    assert torch.allclose(of_loss[0], of_fitted[0] - of_plain[0], atol=1e-7)
    assert torch.allclose(of_loss[1], of_fitted[1] + of_plain[1], atol=1e-7)


# OVANet.


def test_a_row_is_unknown_if_its_likeliest_class_says_no():
    known = torch.tensor([[0.8, 0.6, 0.1]])
    logits_open = torch.stack([1 - known, known], dim=1).log() + 3
    logits = torch.tensor([[3.0, 1, 2], [1, 3, 2], [1, 2, 3]])
    assert losses.ovanet_unknown(logits, logits_open.repeat(3, 1, 1)).tolist() == [False, False, True]


def test_ovanet_is_its_formula_and_measures_an_angle(data):
    trainer, batch = ready("ovanet", data, entropy=0.3)
    method, z = trainer.method, trainer.network.features(batch.x)

    def logits(z):
        return (z @ method.open[0].weight.T).reshape(len(z), 2, -1)

    expected = losses.cross_entropy(trainer.network.head(z), batch.y)
    expected = expected + losses.ovanet(logits(z), batch.y)
    of_target = losses.entropy(logits(trainer.network.features(batch.target))).mean()
    assert torch.allclose(method.loss(batch), expected + 0.3 * of_target)
    for variant, is_unit, entropy in (("fixed", True, 0.1), ("code", False, 1.0)):
        trainer = trainer_of(make_method("ovanet", variant=variant), data, steps=3)
        trainer.run()
        lengths = trainer.method.open[0].weight.norm(dim=1)
        assert torch.allclose(lengths, torch.ones_like(lengths)) == is_unit
        assert trainer.method.entropy == entropy


# UAN.


def test_equal_weights_of_uan_are_1_and_a_matrix_is_refused():
    assert unit_range(torch.full((4,), 0.3)).tolist() == [1, 1, 1, 1]
    with pytest.raises(InputError, match="one number a row"):
        unit_range(torch.ones(4, 1))


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_uan_is_its_formula_and_the_released_weights_do_nothing(data, variant):
    trainer, batch = ready("uan", data, trade_off=0.7, variant=variant)
    trainer.run(until=5)
    batch = replace(batch, progress=0.1)
    method, network = trainer.method, trainer.network
    z, z_target = network.features(batch.x), network.features(batch.target)
    f, f_target = network.head(z), network.head(z_target)
    stop = (lambda x: x) if variant == "code" else torch.Tensor.detach
    seen, seen_target = method.observer(stop(z)), method.observer(stop(z_target))
    weights = losses.uan_weights(f, seen, f_target, seen_target, 10.0)
    assert not torch.allclose(weights[0], torch.ones(30))
    if variant == "code":
        weights = (torch.ones(30), torch.ones(20))
    hidden = 1.4 * losses.dann(method.discriminator(z), method.discriminator(z_target), *weights)
    fitted = losses.cross_entropy(f, batch.y)
    plain = fitted + 2 * losses.dann(seen, seen_target)
    loss, encoder = method.loss(batch), next(network.encoder.parameters())
    assert torch.allclose(loss, plain + hidden, atol=1e-6)
    of_loss, of_plain, of_hidden = (
        torch.autograd.grad(each, encoder, retain_graph=True)[0] for each in (loss, plain, hidden)
    )
    assert torch.allclose(of_loss, of_plain - losses.reversal_schedule(0.1) * of_hidden, atol=1e-6)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_rows_below_the_threshold_are_unknown(data, variant):
    trainer = trainer_of(make_method("uan", variant=variant), data)
    trainer.run()
    with torch.no_grad():
        z = trainer.network.features(inputs_of(trainer, data.target))
        plain = trainer.network.head(z)
        shared = losses.uan_scores(plain, trainer.method.observer(z))
    if variant == "code":
        shared = (shared - shared.min()) / (shared.max() - shared.min())
    else:
        trainer.method.hyper["threshold"] = float(shared.median()) + 1e-4
    below = shared < trainer.method.threshold
    assert 0 < below.sum() < len(z)
    scores = trainer.scores(data.target)
    assert scores.argmax(1).tolist() == torch.where(below, 3, plain.argmax(1)).tolist()


# All of them.


def rejected(name: str, near: bool) -> tuple[float, float]:
    """The shares that are rejected of an unknown class, on the first class or far off, and of known ones."""
    data = problem(rows=600, target=150, shift=0.0)
    x, own = np.array(data.source.array), data.target[:FAR]
    x[own] = np.random.default_rng(1).normal(size=(FAR, x.shape[1])).astype(np.float32)
    x[own, :3] += (2.0, 0.0, 0.0) if near else -4.0
    data = replace(data, source=Source(x))
    trainer = trainer_of(make_method(name), data, steps=250, batch=64, learning_rate=2e-3)
    trainer.run()
    known = trainer.scores(data.select)
    assert (known[:, :-1].argmax(1) == data.select_y).mean() > 0.75
    unknown = (trainer.scores(rows).argmax(1) == data.classes for rows in (own, data.target[FAR:]))
    return tuple(float(part.mean()) for part in unknown)


@pytest.mark.parametrize("name", OPEN)
def test_an_answer_does_not_depend_on_the_batch(name, data):
    trainer = trainer_of(make_method(name), data, steps=5)
    trainer.run()
    alone = np.concatenate([trainer.scores(data.target[[at]]) for at in range(4)])
    assert np.allclose(trainer.scores(data.target[:4]), alone, atol=1e-5)
    with pytest.raises(InputError, match="rw estimates shares of known classes"):
        make_method(f"rw+{name}")


class TestOnATask:
    def test_a_target_without_classes_of_its_own_is_refused(self, tiny):
        task = sd.task(tiny, "uda", source="blue", target="red", on_empty="report")
        with pytest.raises(InputError, match=r"OVANet needs a task whose target has classes of its own"):
            sd.train(task, "ovanet", backbone="small-cnn", training=Training(steps=1))

    def test_unknown_is_predicted_by_name_and_judged(self, tiny):
        labels = len(sd.read_metadata(tiny).labels)
        shared, private = max(2, labels - 2), (labels - max(2, labels - 2)) // 2
        task = sd.task(
            tiny, "unida", source="blue", target="red", shared=shared, source_private=private,
            target_private=labels - shared - private, on_empty="report",
        )  # fmt: skip
        run = sd.train(task, "uniot", backbone="small-cnn", training=Training(steps=4, batch=8))
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
