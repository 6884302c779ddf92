"""Averages of weights: valleys of a given list of losses, running means, sums of runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from shiftdata.baselines import make_method
from shiftdata.baselines.data import epoch_rows
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods.averages import renew_statistics
from shiftdata.baselines.methods.swad import SWAD
from shiftdata.baselines.run import Model, Run
from shiftdata.baselines.zoo.eoa import EoA, ensemble
from shiftdata.errors import InputError, ShiftdataError
from tests.baselines.problems import problem, same, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


class Scalar(Method):
    """A model that is one number."""

    def __init__(self):
        super().__init__()
        self.number = nn.Parameter(torch.zeros(1))


def driven(wrapper, values, losses=(), every=1):
    """The number after a wrapper has seen one value a step, and a loss after every so many."""
    wrapper.setup(nn.Identity(), None)
    wrapper.active.fill_(True)
    losses = iter(losses)
    for step, value in enumerate(values):
        wrapper.inner.number.data.fill_(float(value))
        wrapper.after_step(SimpleNamespace(step=step))
        if (step + 1) % every == 0 or step + 1 == len(values):
            wrapper.evaluated(step + 1, float(next(losses, 0.0)))
    trainer = SimpleNamespace(network=nn.Identity(), training=SimpleNamespace(frozen_norm=False))
    wrapper.place(trainer)
    return wrapper.inner.number.item()


def valley(losses, window, patience, ratio):
    """The segments of the valley, from the whole list; None: not converged."""
    for start in range(len(losses) - window + 1):
        if losses[start] == min(losses[start : start + window]):
            break
    else:
        return None
    threshold = (1 + ratio) * np.mean(losses[start : start + window])
    begin = start
    while begin > max(0, start - max(0, patience - window)) and losses[begin - 1] <= threshold:
        begin -= 1
    end = 1 + max(at for at in range(len(losses)) if losses[at] <= threshold)
    for at in range(start, len(losses) - patience + 1):
        if min(losses[at : at + patience]) > threshold:
            end = min(end, at)
            break
    return list(range(begin, end))


def authors(losses, window, patience, ratio):
    """Which segments the authors' code counts how often, by its queue of the last N_e."""
    least = [losses[at] == min(losses[at : at + window]) for at in range(len(losses) - window + 1)]
    if not any(least):
        return None
    start = least.index(True)
    threshold = (1 + ratio) * np.mean(losses[start : start + window])
    queues = [list(range(max(0, now - patience + 1), now + 1)) for now in range(len(losses))]
    front = queues[start + window - 1][: max(0, patience - window + 1)] if patience > window else []
    counted = list(range(start + 1, start + 1 + window - patience))
    counted += front[
        max((at + 1 for at, one in enumerate(front) if losses[one] > threshold), default=0) + 1 :
    ]
    for queue in queues[start + window :]:
        if queue[0] >= start:
            if min(losses[queue[0] :][: len(queue)]) > threshold:
                return counted or [start]
            counted.append(queue[0])
    rest = queues[-1][1:]
    counted += [one for one in rest if min(losses[one:]) <= threshold]
    return counted or [start]


LOSSES = np.random.default_rng(0)


@pytest.mark.parametrize("variant", ["fixed", "code"])
@pytest.mark.parametrize(
    "sizes", [(3, 6, 0.3), (3, 6, 0.05), (2, 5, 0.1), (4, 2, 0.1), (3, 3, 0.2), (1, 1, 0)]
)
def test_swad_averages_the_valley(variant, sizes):
    window, patience, ratio = sizes
    seen = set()
    for trial in range(40):
        n = 1 + trial % 24
        shape = np.abs(np.linspace(-1, 1.5, n)) if trial % 2 else np.ones(n)
        losses = (0.2 + shape + 0.4 * LOSSES.random(n)).astype(np.float32).astype(float)
        values = LOSSES.normal(size=2 * n - (trial % 3 == 0))  # two steps a segment, or one in the last
        found = SWAD(Scalar(), variant=variant, converge=window, tolerance=patience, ratio=ratio)
        made = driven(found, values, losses, every=2)
        segments = (valley if variant == "fixed" else authors)(losses, window, patience, ratio)
        seen.add(segments is None)
        parts = [values[2 * at : 2 * at + 2] for at in (segments or [n - 1])]
        wanted = np.mean(np.concatenate(parts)) if variant == "fixed" else np.mean([p.mean() for p in parts])
        assert np.isclose(made, wanted, atol=1e-5), (losses, segments)
    assert False in seen


def test_swad_of_constant_weights_is_the_weights():
    assert driven(SWAD(Scalar()), [3.0] * 20, [1.0] * 20) == 3.0


def test_swad_counts_every_step_once_and_the_authors_count_some_twice():
    losses = [9, 8, 7, 1.2, 1, 1.1, 1.2, 1.1, 1.2, 1.1]
    values = np.arange(10.0)
    assert driven(SWAD(Scalar()), values, losses) == 6  # 3 .. 9
    assert np.isclose(driven(SWAD(Scalar(), variant="code"), values, losses), np.mean([4, *range(4, 10)]))


def test_swad_ends_with_the_valley():
    losses = [1, 1.1, 1.2, 1.1] + [9] * 9
    assert driven(SWAD(Scalar()), np.arange(13.0), losses) == 1.5


def test_swad_without_a_valley_takes_the_last_segment():
    assert driven(SWAD(Scalar()), np.arange(12.0), [6, 5, 4, 3, 2, 1], every=2) == 10.5


def test_swad_needs_evaluations(data):
    with pytest.raises(InputError, match="set evaluate_every above 0"):
        trainer_of(make_method("swad"), data).run()
    with pytest.raises(ShiftdataError, match="role 'select'"):
        trainer_of(make_method("swad"), replace(data, select=None, select_y=None), evaluate_every=2).run()
    assert make_method("swad+cdan").needs == {"select", "target"}


def test_swad_renews_the_statistics_of_batch_norm(data):
    trainer = trainer_of(make_method("swad"), data, backbone="mlp-bn", evaluate_every=4, batch=40)
    trainer.run()
    z = trainer.network.encoder[0](trainer.inputs(data.rows))
    norm = trainer.network.encoder[1]
    assert torch.allclose(norm.running_mean, z.mean(0), atol=1e-5)
    assert norm.momentum == 0.1
    frozen = trainer_of(
        make_method("swad"), data, backbone="mlp-bn", evaluate_every=4, batch=40, frozen_norm=True
    )
    frozen.run()
    assert not frozen.network.encoder[1].running_mean.any()


def test_statistics_are_a_mean_over_batches_and_the_rest_counts_from_two_rows(data):
    for batch in (34, 239):  # the rest of 240 rows: 2, and 1, which has no variance
        trainer = trainer_of(make_method("erm"), data, backbone="mlp-bn", batch=batch)
        renew_statistics(trainer)
        rows = data.rows[epoch_rows(trainer.sampler, 0)]
        parts = [rows[at : at + batch] for at in range(0, 240, batch)]
        z = [trainer.network.encoder[0](trainer.inputs(part)) for part in parts if len(part) > 1]
        norm = trainer.network.encoder[1]
        assert len(z) == {34: 8, 239: 1}[batch]
        assert torch.allclose(norm.running_mean, torch.stack([one.mean(0) for one in z]).mean(0), atol=1e-5)
        assert torch.allclose(norm.running_var, torch.stack([one.var(0) for one in z]).mean(0), atol=1e-5)


def test_statistics_are_of_at_most_500_batches():
    trainer = trainer_of(make_method("erm"), problem(1010), backbone="mlp-bn", batch=2)
    renew_statistics(trainer)
    assert trainer.network.encoder[1].num_batches_tracked == 500


@pytest.mark.parametrize("name", ["swad", "eoa"])
def test_training_goes_its_way_beside_the_mean(name, data):
    """The loss of each evaluation's step is that of training without an average."""
    one, other = (trainer_of(make_method(n), data, evaluate_every=2) for n in (name, "erm"))
    one.run()
    other.run()
    losses = [[entry["loss"] for entry in trainer.progress.history] for trainer in (one, other)]
    assert losses[0] == losses[1]
    assert not same(one, other) or name == "eoa"


def test_eoa_is_the_mean_from_the_step_before_its_start():
    assert driven(EoA(Scalar(), start=5), np.arange(1.0, 11)) == np.mean(range(4, 11))
    assert driven(EoA(Scalar(), start=1), np.arange(1.0, 4)) == 2
    assert driven(EoA(Scalar(), start=50), np.arange(1.0, 4)) == 3


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_eoa_validates_and_predicts_with_the_mean(variant, data):
    chosen = {"backbone": "mlp-bn", "evaluate_every": 1}
    plain, kept, buffers = trainer_of(make_method("erm"), data, **chosen), [], []
    trainer = trainer_of(make_method("eoa", variant=variant, start=3), data, **chosen)
    for step in range(1, 21):
        plain.run(until=step)
        if step >= 2:
            kept.append([one.detach().clone() for one in plain.network.parameters()])
            buffers.append(plain.network.encoder[1].running_var.clone())
        if step == 19:
            trainer.run(until=step)
            scores = trainer.scores(data.select)
            assert (trainer.progress.history[-1]["predicted"].numpy() == scores.argmax(1)).all()
            assert not np.allclose(scores, plain.scores(data.select), atol=1e-3)
            assert same(trainer, plain)  # the weights themselves are those of training
    trainer.run()
    for at, one in enumerate(trainer.network.parameters()):
        assert torch.allclose(one, torch.stack([weights[at] for weights in kept]).mean(0), atol=1e-5)
    wanted = torch.stack(buffers).mean(0) if variant == "fixed" else buffers[-1]
    assert torch.allclose(trainer.network.encoder[1].running_var, wanted, atol=1e-5)
    assert (trainer.progress.history[-1]["predicted"].numpy() == trainer.scores(data.select).argmax(1)).all()


def test_one_stage_is_averaged_for_itself(data):
    """JTT's second training alone; the pass of TENT not at all; DFR's head is fitted after the mean."""
    one, other = trainer_of(make_method("eoa+jtt", up=1, start=3), data), None
    one.run()
    other = trainer_of(make_method("eoa", start=3), data)
    other.run()
    assert same(one, other)
    tent, erm = (trainer_of(make_method(n, start=3), data, backbone="mlp-bn") for n in ("eoa+tent", "eoa"))
    tent.run()
    erm.run()
    assert erm.method.active
    assert not tent.method.active
    assert torch.equal(tent.network.head.weight, erm.network.head.weight)
    assert not torch.equal(tent.network.encoder[1].weight, erm.network.encoder[1].weight)
    refitted = trainer_of(make_method("eoa+dfr", start=3, c=0.3, fits=1), data)
    refitted.run()
    averaged = trainer_of(make_method("eoa", start=3), data)
    averaged.run()
    pairs = zip(refitted.network.encoder.parameters(), averaged.network.encoder.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert not torch.equal(refitted.network.head.weight, averaged.network.head.weight)


def test_variants_and_numbers_of_wrappers():
    assert make_method("swad", variant="code").own_variant == "code"
    both = make_method("swad+cdan", variant="code", ratio=0.5, trade_off=2.0)
    assert (both.own_variant, both.inner.variant, both.variant) == ("code", "code", "code")
    assert (both.hyper["ratio"], both.hyper["trade_off"]) == (0.5, 2.0)
    around = make_method("rw+swad+erm", variant="code")
    assert (around.own_variant, around.variant, around.inner.own_variant) == ("fixed", "code", "code")
    with pytest.raises(ShiftdataError, match="variant"):
        make_method("swad+erm", variant="paper")
    with pytest.raises(InputError, match="leave one of them out"):
        make_method("swad+rw+eoa")
    with pytest.raises(InputError, match="1 or more"):
        make_method("swad", tolerance=0)


def test_an_ensemble_sums_scores():
    def run(scores, rows=(0, 1)):
        scores = np.array(scores, np.float32)
        model = SimpleNamespace(scores=lambda some: scores[: len(some)], outputs=np.array([4, 7]))
        return Run(None, {"seed": 0}, np.array(rows), scores, [], Model(model, model.outputs))

    one, other = run([[0, 1], [2, 0]]), run([[3, 0], [0, 1]])
    both = ensemble([one, other])
    assert both.scores.tolist() == [[3, 1], [2, 1]]
    assert both.predicted.tolist() == [4, 4]
    assert both.model.scores(np.array([0, 1])).tolist() == [[3, 1], [2, 1]]
    assert (ensemble([one] * 6).predicted == one.predicted).all()
    for wrong in ([], [one, run([[0, 1], [2, 0]], rows=(0, 2))]):
        with pytest.raises(InputError):
            ensemble(wrong)
