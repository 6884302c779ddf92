"""Contrastive losses and methods: closed forms, plain loops, the authors' code, momentum, memory."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from scripts.compare_losses.contrast import COMPARISONS
from shiftdata.baselines import losses, make_method
from shiftdata.baselines.heads import HeadSpec
from shiftdata.baselines.zoo.pretraining import PRETRAINING, MoCo, SimCLR
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, picture_problem, resume, same, trainer_of
from tests.baselines.test_groups import spurious
from tests.baselines.test_ranks import do


@pytest.mark.parametrize("comparison", COMPARISONS, ids=[each.name for each in COMPARISONS])
def test_values_and_gradients_are_those_of_loops_and_other_packages(comparison):
    if comparison.missing():
        pytest.skip(f"{comparison.missing()} is not installed")
    assert comparison.difference(0) < 1e-6


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_orthogonal_rows_whose_views_agree_have_a_loss_in_closed_form(temperature):
    z = torch.eye(4, dtype=torch.float64)
    e = math.exp(1 / temperature)
    # Lengths do not count; of the 7 other rows one is alike, of 3 + 3 none.
    assert float(losses.ntxent(2 * z, 5 * z, temperature)) == pytest.approx(-math.log(e / (e + 6)))
    queue = torch.full((3, 4), 0.5, dtype=torch.float64)
    expected = -math.log(e / (e + 3 * math.exp(0.5 / temperature)))
    assert float(losses.info_nce(z, 2 * z, queue, temperature)) == pytest.approx(expected)


def test_mixed_precision_does_not_round_the_cosines():
    z, other = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = losses.ntxent(z, other, 0.1)
    assert torch.equal(mixed, losses.ntxent(z, other, 0.1))


def test_views_that_do_not_pair_are_refused():
    with pytest.raises(InputError, match="row for row"):
        losses.ntxent(torch.zeros(3, 4), torch.zeros(2, 4))
    with pytest.raises(InputError, match="above 0"):
        losses.info_nce(torch.zeros(3, 4), torch.zeros(3, 4), torch.zeros(5, 4), 0.0)


def test_the_queue_keeps_the_last_keys_in_order():
    queue = losses.KeyQueue(5, 3)
    first, second = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    queue.update(first)
    queue.update(second)
    expected = torch.nn.functional.normalize(torch.cat([first[-1:], second]), dim=1)
    assert torch.equal(queue.keys, expected)


METHODS = [SimCLR, lambda **hyper: MoCo(queue=64, **hyper)]


@pytest.mark.parametrize("make", METHODS, ids=["simclr", "moco"])
def test_one_that_was_stopped_ends_in_the_same_bits_and_reads_no_label(make):
    data = picture_problem()
    settings = {"backbone": "small-cnn", "steps": 6, "batch": 16}
    whole = trainer_of(make(), data, **settings)
    whole.run()
    poisoned = replace(data, y=(data.y + 1) % 3, group=data.group * 0, domain=data.domain * 0)
    second = trainer_of(make(), poisoned, **settings)
    second.run(until=2)
    third = trainer_of(make(), data, **settings)
    resume(second, third)
    assert same(whole, third)
    with pytest.raises(InputError, match="no classifier"):
        third.scores(data.rows)


@pytest.mark.parametrize("make", METHODS, ids=["simclr", "moco"])
def test_features_without_labels_are_better_than_random_ones(make):
    data = picture_problem()
    trainer = trainer_of(make(), data, backbone="small-cnn", steps=30, batch=60, learning_rate=0.003)
    before = nearest(trainer, data)
    trainer.run()
    assert nearest(trainer, data) > before


def nearest(trainer, data) -> float:
    """The share of held-out rows whose nearest training row, by cosine, has their class."""
    known, asked = (trainer.features(rows).astype(np.float64) for rows in (data.rows, data.select))
    known, asked = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (known, asked))
    return float((data.y[(asked @ known.T).argmax(1)] == data.select_y).mean())


def test_keys_follow_the_network_and_are_encoded_in_shuffled_parts(monkeypatch):
    data = picture_problem()
    method = MoCo(queue=64, momentum=0.9, parts=3)
    trainer = trainer_of(method, data, backbone="small-cnn", steps=1, batch=16)
    start = [each.clone() for each in method.key_network.encoder.parameters()]
    sizes, features = [], method.key_network.features
    monkeypatch.setattr(method.key_network, "features", lambda x: (sizes.append(len(x)), features(x))[1])
    trainer.run()
    own = method.network.encoder.parameters()
    for before, key, parameter in zip(start, method.key_network.encoder.parameters(), own, strict=True):
        assert torch.allclose(key, 0.9 * before + 0.1 * parameter, atol=1e-7)
        assert not key.requires_grad
    assert sorted(sizes) == [4, 6, 6]


def test_keys_come_back_in_the_order_of_their_rows():
    """In eval mode parts share no statistics: a row's key is the same whatever the order."""
    data = picture_problem()
    method = MoCo(queue=64)
    trainer = trainer_of(method, data, backbone="small-cnn", steps=1, batch=16)
    x = next(trainer.read(data.rows[:10], 10))
    method.eval()
    with torch.no_grad():
        expected = method.key_projection(method.key_network.features(x))
    assert torch.allclose(method._keys(x), expected, atol=1e-5)


def test_a_rate_of_0_is_a_linear_probe():
    data = picture_problem()
    settings = {"backbone": "small-cnn", "steps": 8, "batch": 16}
    probe = trainer_of(make_method("erm"), data, encoder_rate=0, frozen_norm=True, **settings)
    head = probe.network.head.weight.detach().clone()
    before = {name: value.clone() for name, value in probe.network.encoder.state_dict().items()}
    probe.run()
    after = probe.network.encoder.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not torch.equal(head, probe.network.head.weight)


def stepped(name: str) -> list[torch.Tensor]:
    """The state of a method after a few steps in float64."""
    method = PRETRAINING[name]()
    settings = {"backbone": "small-cnn", "steps": 4, "batch": 20, "precision": "float64"}
    trainer_of(method, picture_problem(), **settings, **PLAIN).run()
    return list(method.state_dict().values())


STEPPED = """
from tests.baselines.test_contrast import stepped
torch.save(stepped(sys.argv[2]), f"{sys.argv[1]}/{rank}.pt")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRETRAINING)
def test_two_processes_take_the_steps_of_one(name, tmp_path):
    do(STEPPED, tmp_path, name)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for value, other, alone in zip(first, second, stepped(name), strict=True):
        assert torch.equal(value, other)
        assert torch.allclose(value, alone, atol=1e-7)


# --- Correct-N-Contrast


def test_rows_without_a_positive_or_a_negative_have_no_contrast():
    z, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 0, 1, 1, 1])
    assert losses.cnc(z, y, y) == 0
    assert losses.cnc(z, y, torch.zeros_like(y)) == 0  # negatives alone
    with pytest.raises(InputError, match="two numbers a row"):
        losses.cnc(z, y, y[:3])


def test_alike_features_of_a_class_and_opposite_ones_of_two_have_a_loss_in_closed_form():
    y, predicted = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    z = torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]], dtype=torch.float64)
    expected = math.log(1 + math.exp(-2 / 0.5))  # a positive at cosine 1, a negative at -1
    assert float(losses.cnc(z, y, predicted, 0.5)) == pytest.approx(expected)
    assert float(losses.cnc(z, y, predicted, 0.5, opposed=True)) == pytest.approx(2 * expected)


def test_cnc_pairs_by_the_first_model_and_balances_its_errors():
    data = spurious()
    trainer = trainer_of(make_method("cnc", first=0.1), data, backbone="mlp", steps=100)
    trainer.run()
    method, wrong = trainer.method, trainer.method.wrong.numpy()
    assert 0 < wrong.sum() == method.report()["error_set"] < len(wrong) / 4
    assert (method.predicted.numpy() == np.where(wrong, 1 - data.y, data.y)).all()
    for label in np.unique(data.y):
        sides = [trainer.counts[(data.y == label) & (wrong == side)].sum() for side in (False, True)]
        assert 0.8 < sides[0] / sides[1] < 1.25


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_cnc_resumes_in_the_same_bits_on_pictures(variant):
    data, settings = picture_problem(), {"backbone": "small-cnn", "steps": 8, "batch": 16}

    def make():
        return trainer_of(make_method("cnc", variant=variant, first=0.5), data, **settings)

    whole, first, second = make(), make(), make()
    whole.run()
    first.run(until=6)  # of 4 and 8 steps
    resume(first, second)
    assert same(whole, second)


def test_an_encoder_that_does_not_train_is_refused():
    with pytest.raises(InputError, match="this encoder does not train"):
        trainer_of(make_method("cnc"), spurious(), backbone="linear").run()
    with pytest.raises(InputError, match="give shares"):
        trainer_of(make_method("cnc", weight=2), spurious(), backbone="mlp")
    with pytest.raises(InputError, match="unknown method of linear heads 'cnc'"):
        HeadSpec(method="cnc")
