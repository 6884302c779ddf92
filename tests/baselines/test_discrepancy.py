"""MCD: three kinds of moves, each of which leaves alone what the others move."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import make_method
from shiftdata.baselines.zoo.mcd import discrepancy
from tests.baselines.problems import PLAIN, problem, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


def parts(trainer) -> dict[str, list[torch.Tensor]]:
    method = trainer.method
    kinds = {"encoder": trainer.network.encoder, "head": trainer.network.head, "other": method.other}
    return {name: [one.detach().clone() for one in kind.parameters()] for name, kind in kinds.items()}


def moves_of(trainer, steps: int) -> list[tuple[float, set[str]]]:
    """Each move's loss, and the parts that it moved."""
    made, descend = [], trainer.descend

    def watched(loss: torch.Tensor) -> float:
        before = parts(trainer)
        value = descend(loss)
        after = parts(trainer)
        made.append((value, {one for one in before if not all(map(torch.equal, before[one], after[one]))}))
        return value

    trainer.descend = watched
    trainer.run(until=steps)
    return made


def test_discrepancy_by_hand():
    scores = torch.tensor([[0.0, 0.0], [0.0, np.log(3)]])
    other = torch.tensor([[0.0, np.log(3)], [0.0, np.log(3)]])
    assert discrepancy(scores, other).item() == pytest.approx((0.25 + 0.25 + 0 + 0) / 4)
    assert discrepancy(scores, scores) == 0


@pytest.mark.parametrize("settings", [PLAIN, {}])
def test_each_move_leaves_the_rest_bit_equal(data, settings):
    """Also with momenta and weight decay, which would move what has a gradient of 0."""
    trainer = trainer_of(make_method("mcd", moves=3), data, steps=4, **settings)
    moved = [parts for _, parts in moves_of(trainer, 4)]
    heads = {"head", "other"}
    assert moved == 4 * [{"encoder", *heads}, heads, *3 * [{"encoder"}]]
    assert all(one.requires_grad for one in trainer.method.parameters())


def test_the_heads_part_on_the_target_and_the_encoder_brings_them_together(data):
    trainer = trainer_of(make_method("mcd", trade_off=0.7), data, batch=0, steps=1, **PLAIN)
    method, network = trainer.method, trainer.network
    x, y = trainer.inputs(data.rows), torch.from_numpy(data.y)

    def expected() -> tuple[torch.Tensor, torch.Tensor]:
        z, z_target = network.features(x), network.features(trainer.inputs(data.target))
        fitted = cross_entropy(network.head(z), y) + cross_entropy(method.other(z), y)
        return fitted.item(), 0.7 * discrepancy(network.head(z_target), method.other(z_target)).item()

    before, descend = [], trainer.descend
    trainer.descend = lambda loss: before.append(expected()) or descend(loss)
    losses = [value for value, _ in moves_of(trainer, 1)]
    fitted, apart = (np.array(each) for each in zip(*before, strict=True))
    assert np.allclose(losses, [fitted[0], fitted[1] - apart[1], *apart[2:]], rtol=1e-5)
    assert apart[1] < apart[2]  # the heads part
    assert (np.diff([*apart[2:], expected()[1]]) < 0).all()  # and the encoder brings them together

    fresh = trainer_of(make_method("mcd", trade_off=0.7), data, batch=0, steps=1, **PLAIN)
    z, z_target = (fresh.network.features(fresh.inputs(rows)) for rows in (data.rows, data.target))
    batch = fresh._batch(1)
    assert fresh.method.apart(z_target) == 0.7 * discrepancy(
        fresh.network.head(z_target), fresh.method.other(z_target)
    )
    assert torch.allclose(fresh.method.fitted(z, batch), torch.tensor(losses[0]))


def test_the_released_class_moves_its_heads_once(data):
    trainer = trainer_of(make_method("mcd", variant="code", moves=1), data, steps=3, **PLAIN)
    moved = [parts for _, parts in moves_of(trainer, 3)]
    heads = {"head", "other"}
    assert moved[:3] == [{"encoder", *heads}, heads, {"encoder"}]
    assert set().union(*moved[3:]) == {"encoder"}


def test_heads_begin_apart_and_their_scores_are_added(data):
    trainer = trainer_of(make_method("mcd"), data)
    method, network = trainer.method, trainer.network
    assert not torch.equal(network.head.weight, method.other.weight)
    with torch.no_grad():
        z = network.features(trainer.inputs(data.select))
        assert np.allclose(trainer.scores(data.select), network.head(z) + method.other(z), atol=1e-6)
