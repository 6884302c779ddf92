"""MCD: three kinds of moves, each of which leaves alone what the others move."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from shiftdata.baselines import losses, make_method
from tests.baselines.problems import PLAIN, inputs_of, trainer_of


def parts(trainer) -> dict[str, list[torch.Tensor]]:
    kinds = {"encoder": trainer.network.encoder, "head": trainer.network.head, "other": trainer.method.other}
    return {name: [weight.detach().clone() for weight in kind.parameters()] for name, kind in kinds.items()}


def moves_of(trainer, steps: int) -> list[tuple[float, set[str]]]:
    """Each move's loss, and the parts that it moved."""
    moves, descend = [], trainer.descend

    def watched(loss: torch.Tensor) -> torch.Tensor:
        before = parts(trainer)
        value = descend(loss)
        after = parts(trainer)
        moved = {name for name in before if not all(map(torch.equal, before[name], after[name]))}
        moves.append((float(value), moved))
        return value

    trainer.descend = watched
    trainer.run(until=steps)
    return moves


def test_discrepancy_by_hand():
    logits = torch.tensor([[0.0, 0.0], [0.0, np.log(3)]])
    other = torch.tensor([[0.0, np.log(3)], [0.0, np.log(3)]])
    assert losses.mcd(logits, other).item() == pytest.approx((0.25 + 0.25 + 0 + 0) / 4)
    assert losses.mcd(logits, logits) == 0


def test_each_move_leaves_the_rest_bit_equal(data):
    """With momenta and weight decay, which would move what has a gradient of 0."""
    trainer = trainer_of(make_method("mcd", moves=3), data, steps=4)
    moved = [parts for _, parts in moves_of(trainer, 4)]
    heads = {"head", "other"}
    assert moved == 4 * [{"encoder", *heads}, heads, *3 * [{"encoder"}]]
    assert all(weight.requires_grad for weight in trainer.method.parameters())


def test_the_heads_part_on_the_target_and_the_encoder_brings_them_together(data):
    trainer = trainer_of(make_method("mcd", trade_off=0.7), data, batch=240, steps=1, **PLAIN)
    method, network = trainer.method, trainer.network
    x, y = inputs_of(trainer, data.rows), torch.from_numpy(data.y)

    def expected() -> tuple[float, float]:
        z, z_target = network.features(x), network.features(inputs_of(trainer, data.target))
        fitted = losses.cross_entropy(network.head(z), y) + losses.cross_entropy(method.other(z), y)
        return fitted.item(), 0.7 * losses.mcd(network.head(z_target), method.other(z_target)).item()

    before, descend = [], trainer.descend
    trainer.descend = lambda loss: before.append(expected()) or descend(loss)
    values = [value for value, _ in moves_of(trainer, 1)]
    fitted, apart = (np.array(each) for each in zip(*before, strict=True))
    assert np.allclose(values, [fitted[0], fitted[1] - apart[1], *apart[2:]], rtol=1e-5)
    assert apart[1] < apart[2]  # the heads part
    assert (np.diff([*apart[2:], expected()[1]]) < 0).all()  # and the encoder brings them together
