"""UniOT: its two transports, which rows are confident, what is learned from them, and rows by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.losses import open_set
from tests.baselines.test_adversarial import ready


def unit(rows: int, width: int = 5, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def kl(p, q):
    return (p * np.log(p / q) - p + q).sum()


@pytest.mark.parametrize(("regularisation", "penalty"), [(0.1, 0.5), (0.3, 0.2)])
def test_the_unbalanced_transport_is_the_least(regularisation, penalty):
    s, mass = np.random.default_rng(0).uniform(-1, 1, (4, 3)), np.array([0.5, 0.3, 0.2])

    def cost(logs):
        p = np.exp(logs.reshape(4, 3))
        entropy = regularisation * (p * np.log(p) - p).sum()
        return entropy - (p * s).sum() + penalty * (kl(p.sum(1), np.full(4, 0.25)) + kl(p.sum(0), mass))

    similarity, settings = torch.from_numpy(s), (regularisation, penalty)
    v = losses.unbalanced_scaling(similarity, torch.from_numpy(mass), *settings)
    mine = losses.unbalanced_plan(similarity, v, 4, *settings)
    theirs = minimize(cost, np.full(12, -2.5), method="BFGS", options={"gtol": 1e-9})
    assert np.allclose(mine, np.exp(theirs.x).reshape(4, 3), atol=1e-5)
    assert np.allclose(losses.unbalanced_plan(similarity[1:3], v, 4, *settings), mine[1:3])  # by themselves


def test_the_balanced_transport_by_hand():
    similarity = unit(8) @ unit(3, seed=1).T
    q = np.exp(similarity.double().numpy() / 0.05)
    for _ in range(3):
        q /= q.sum(axis=0)
        q /= q.sum(axis=1, keepdims=True)
    assert np.allclose(losses.balanced_transport(similarity).numpy(), q, atol=1e-4)
    even = losses.balanced_transport(similarity, rounds=500)
    assert np.allclose(even.sum(0), 8 / 3, atol=1e-3)
    assert np.allclose(losses.balanced_transport(50 * similarity).sum(1), 1, atol=1e-5)  # no exp of 1000


def test_confident_rows_of_common_classes():
    # Two rows at each of two classes, two far from all; nobody is at the third class.
    label, masses, _ = losses.UniOT(3, 5, 1)._solve(torch.eye(5)[[0, 0, 1, 1, 4, 4], :3].double())
    assert label.tolist() == [0, 0, 1, 1, -1, -1]
    assert masses.sum() == pytest.approx(1)
    # Rows of a class that gets less than its part are confident, and are left out.
    crowded = torch.eye(5)[[0, 0, 0, 0, 0, 1, 4, 4, 4, 4, 4, 4], :3].double()
    label, masses, _ = losses.UniOT(3, 5, 1)._solve(crowded)
    assert label[:5].tolist() == [0] * 5
    assert (label[5] == -1) == (masses[1] < 1 / 3)
    # At the thresholds a class is common, and a row is not confident.
    shares, columns = torch.tensor([[0.25, 0.0], [0.26, 0.0], [0.0, 0.5]]), torch.tensor([0.5, 0.5])
    assert open_set.common_classes(shares, columns, 4).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("near", [0, 2, 6, 10])
def test_half_of_the_rows_are_similar_to_a_class(near, monkeypatch):
    z = torch.cat([torch.eye(6)[[0, 1, 2] * 4][:near], torch.eye(6)[[4] * (10 - near)]])
    state, solved = losses.UniOT(3, 6, 1, similar=0.75), []
    solve = state._solve
    monkeypatch.setattr(state, "_solve", lambda similarity: solved.append(similarity) or solve(similarity))
    label, _ = state.couple(z, torch.eye(6)[:3])
    every = solved[-1]
    assert torch.equal(every[-10:], z[:, :3].double())
    assert len(label) == 10
    similar, most = int((every.amax(1) > 0.75).sum()), max(near, 10 - near)
    # Without a confident row nothing can come again; halfway points are .71 from both ends.
    assert (similar, len(every)) == ((0, 10) if near == 0 else (most, 2 * most))
    assert state.rows == len(every)


def test_common_classes_are_learned_by_cross_entropy_and_masses_follow():
    state, prototypes = losses.UniOT(3, 20, 60, momentum=0.25, temperature=0.2), unit(3, 20)
    state.update(unit(60, 20, 1), torch.arange(60))
    z = normalize(prototypes[[0, 1, 2] * 4] + 0.1 * torch.arange(12)[:, None] * unit(12, 20, 2), dim=1)
    torch.manual_seed(0)
    loss = state.common(z.requires_grad_(), prototypes)
    again = losses.UniOT(3, 20, 60)
    torch.manual_seed(0)
    drawn = torch.randint(60, (60,))
    label, masses = again.couple(torch.cat([state.queue[drawn], z]), prototypes)
    sure = label[-12:] >= 0
    assert 3 < sure.sum() < 12
    expected = losses.cross_entropy((z @ prototypes.T / 0.2)[sure], label[-12:][sure])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert torch.allclose(state.mass, (0.25 / 3 + 0.75 * masses).float())
    assert state.common(normalize(-prototypes.mean(0).expand(4, -1), dim=1), prototypes) == 0


def test_a_row_is_not_its_own_neighbour(monkeypatch):
    state, seen, z, centres = losses.UniOT(3, 20, 40), {}, unit(12, 20), unit(7, 20, 3)
    rows = torch.arange(12)
    z[1], rows[1] = z[0], rows[0]  # the batch has its first row twice, and the queue has all of them
    state.update(torch.cat([z, unit(28, 20, 1)]), torch.cat([rows, torch.arange(50, 78)]))
    monkeypatch.setattr(
        open_set,
        "swapped_prediction",
        lambda own, near, far, t: seen.update(own=own, near=near, far=far) or own.sum(),
    )
    state.private(z, rows, centres)
    others, numbers = torch.cat([state.queue, z]), torch.cat([state.queue_row, rows])
    for row in range(12):
        candidates = others[numbers != rows[row]]
        nearest = candidates[(candidates @ z[row]).argmax()]
        assert torch.allclose(seen["near"][row], nearest @ centres.T, atol=1e-5)
    # As many rows of the queue as there are clusters take part in the transport.
    assert len(seen["far"]) == len(centres)
    assert (torch.cdist(seen["far"], state.queue @ centres.T).min(dim=1).values < 1e-2).all()


def test_a_row_alone_gets_the_answer_of_the_transport_over_all():
    state, z, prototypes = losses.UniOT(3, 5, 1), unit(40), unit(3, seed=1)
    label, _ = state.couple(z, prototypes)
    logits = state.predict(z, prototypes)
    shares = logits[:, :3].exp()
    confident = shares.amax(1) > 1 / float(state.rows)
    assert (logits.argmax(1) == torch.where(confident, shares.argmax(1), 3)).all()
    assert 0 < confident.sum() < 40
    assert (logits.argmax(1)[label >= 0] == label[label >= 0]).all()
    alone = torch.cat([state.predict(row[None], prototypes) for row in z])
    assert torch.allclose(alone, logits, atol=1e-4)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_uniot_is_its_formula(data, variant):
    trainer, batch = ready("uniot", data, temperature=0.2, trade_off=0.3, delay=0.2, variant=variant)
    method = trainer.method
    method.begin(trainer.stages[0], trainer)
    assert len(method.state.queue) == (32 if variant == "code" else 60)
    for progress in (0.1, 0.2):
        torch.manual_seed(0)
        before = {name: value.clone() for name, value in method.state.state_dict().items()}
        batch = replace(batch, progress=progress)
        loss = method.loss(batch)
        method.state.load_state_dict(before)
        torch.manual_seed(0)
        z, z_target = (method.unit(trainer.network.features(x)) for x in (batch.x, batch.target))
        expected = losses.cross_entropy(z @ method.classes.T / 0.2, batch.y)
        if progress >= 0.2:
            expected = expected + 0.3 * method.state.common(z_target, method.classes)
        if variant == "fixed":
            expected = expected + 0.3 * method.state.private(z_target, batch.target_row, method.centres)
        assert torch.allclose(loss, expected, atol=1e-5)
