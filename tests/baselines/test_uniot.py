"""UniOT: its two transports, which rows are confident, what is learned from them, and rows by themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn.functional import normalize

from shiftdata.baselines import make_method
from shiftdata.baselines.zoo import uniot
from shiftdata.baselines.zoo.transport import Unbalanced, balanced
from shiftdata.baselines.zoo.uniot import Coupling, coupling, evened, similarities, swapped
from tests.baselines.problems import problem, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


def unit(rows: int, width: int = 5, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def kl(p, q):
    return (p * np.log(p / q) - p + q).sum()


@pytest.mark.parametrize(("regularisation", "penalty"), [(0.1, 0.5), (0.3, 0.2)])
def test_the_unbalanced_transport_is_the_least(regularisation, penalty):
    generator = np.random.default_rng(0)
    s, mass = generator.uniform(-1, 1, (4, 3)), np.array([0.5, 0.3, 0.2])

    def cost(logs):
        p = np.exp(logs.reshape(4, 3))
        entropy = regularisation * (p * np.log(p) - p).sum()
        return entropy - (p * s).sum() + penalty * (kl(p.sum(1), np.full(4, 0.25)) + kl(p.sum(0), mass))

    transport = Unbalanced(regularisation, penalty)
    v = transport.columns(s, mass)
    mine = transport.plan(s, v, 4)
    theirs = minimize(cost, np.full(12, -2.5), method="BFGS", options={"gtol": 1e-9})
    assert np.allclose(mine, np.exp(theirs.x).reshape(4, 3), atol=1e-5)
    assert np.allclose(transport.plan(s[1:3], v, 4), mine[1:3])  # a row's part needs no other row


def test_the_balanced_transport_by_hand():
    scores = unit(8) @ unit(3, seed=1).T
    q = np.exp(scores.double().numpy() / 0.05)
    for _ in range(3):
        q /= q.sum(axis=0)
        q /= q.sum(axis=1, keepdims=True)
    assert np.allclose(balanced(scores).numpy(), q, atol=1e-4)
    even = balanced(scores, rounds=500)
    assert np.allclose(even.sum(0), 8 / 3, atol=1e-3)
    assert np.allclose(balanced(50 * scores).sum(1), 1, atol=1e-5)  # no exp of 1000


def test_confident_rows_of_common_classes():
    # Two rows at each of two classes, two far from all; nobody is at the third class.
    classes = torch.eye(5)[:3]
    z = torch.eye(5)[[0, 0, 1, 1, 4, 4]]
    s = similarities(z, classes)
    made = coupling(s, np.full(3, 1 / 3))
    assert made.common(s).tolist() == [0, 0, 1, 1, -1, -1]
    assert made.columns.sum() == pytest.approx(1)
    assert made.shares(s).sum() == pytest.approx(1)
    # Rows of a class that gets less than its part are confident, and are left out.
    crowded = torch.eye(5)[[0, 0, 0, 0, 0, 1, 4, 4, 4, 4, 4, 4]]
    s = similarities(crowded, classes)
    made = coupling(s, np.full(3, 1 / 3))
    sure = made.shares(s).max(axis=1) > 1 / 12
    assert sure.tolist() == [True] * 6 + [False] * 6
    assert (made.common(s)[5] == -1) == (made.columns[1] < 1 / 3)


def test_at_a_threshold_a_class_is_common_and_a_row_is_not_confident():
    class Given(Coupling):
        def shares(self, similarity):
            return similarity

    made = Given(np.ones(2), 1.0, 4, np.array([0.5, 0.5]))  # 1 / 4 of all for a row, 1 / 2 for a class
    assert made.common(np.array([[0.25, 0.0], [0.26, 0.0], [0.0, 0.5]])).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("near", [0, 2, 6, 10])
def test_half_of_the_rows_are_similar_to_a_class(near):
    classes = torch.eye(6)[:3]
    z = torch.eye(6)[[0, 1, 2] * 4][:near]
    z = torch.cat([z, torch.eye(6)[[4] * (10 - near)]])
    generator = torch.Generator().manual_seed(0)
    every = evened(z, classes, np.full(3, 1 / 3), 0.75, generator)
    assert np.allclose(every[-10:], similarities(z, classes))
    similar = (every.max(axis=1) > 0.75).sum()
    # Without a confident row nothing can come again; halfway points are .71 from both ends.
    assert (similar, len(every)) == (
        (0, 10) if near == 0 else (max(near, 10 - near), 2 * max(near, 10 - near))
    )


def test_swapped_predictions_by_hand():
    own, neighbours, further = (unit(rows, 4, seed) for seed, rows in enumerate((3, 3, 5)))
    q = balanced(torch.cat([own, neighbours, further]))
    local = everything = 0.0
    for row in range(3):
        logs = torch.log_softmax(own[row] / 0.1, 0)
        theirs = torch.log_softmax(neighbours[row] / 0.1, 0)
        local += (-(q[3 + row] * logs).sum() - (q[row] * theirs).sum()) / 2 / 3
        everything += -(q[row] * logs).sum() / 3
    assert swapped(own, neighbours, further, 0.1).item() == pytest.approx(
        ((local + everything) / 2).item(), rel=1e-5
    )


def stepped(data, name="uniot", steps=3, **given):
    trainer = trainer_of(make_method(name, **given), data, steps=20)
    trainer.run(until=steps)
    return trainer


def test_the_source_learns_by_cosines_over_a_temperature(data):
    trainer = trainer_of(make_method("uniot", trade_off=0.0, temperature=0.2), data, steps=20)
    method, batch = trainer.method, trainer._batch(20)
    trainer.method.begin(trainer.stages[0], trainer)
    z = normalize(method.project(trainer.network.features(batch.x)), dim=1)
    expected = torch.nn.functional.cross_entropy(z @ method.classes.T / 0.2, batch.y)
    assert torch.allclose(method.loss(batch), expected, atol=1e-5)


def test_a_row_is_not_its_own_neighbour(data, monkeypatch):
    trainer = stepped(data, queue=500)
    method, seen = trainer.method, {}
    batch = trainer._batch(20)
    z = unit(len(batch.unlabelled), uniot.WIDTH)
    # The queue has the batch's rows as they are, and the batch has its first row twice.
    z[1], batch.target_row[1] = z[0], batch.target_row[0]
    memory = method.get_buffer("memory")
    memory[: len(z)], method.get_buffer("memory_row")[: len(z)] = z, batch.target_row
    monkeypatch.setattr(
        uniot, "swapped", lambda own, near, far, t: seen.update(own=own, near=near, far=far) or own.sum()
    )
    method.private(z, batch)
    others, numbers = torch.cat([memory, z]), torch.cat([method.get_buffer("memory_row"), batch.target_row])
    for row in range(len(z)):
        candidates = others[numbers != batch.target_row[row]]
        nearest = candidates[(candidates @ z[row]).argmax()]
        assert torch.allclose(seen["near"][row], nearest @ method.centres.T, atol=1e-5)
        assert (nearest @ z[row]).item() < 0.999
    # As many rows of the queue as there are clusters take part in the transport.
    queued = memory @ method.centres.T
    assert len(seen["far"]) == len(method.centres)
    assert (torch.cdist(seen["far"], queued).min(dim=1).values < 1e-2).all()


@pytest.mark.parametrize("queue", [12, 32])
def test_the_queue_has_the_latest_rows_and_masses_follow(data, queue):
    trainer = trainer_of(make_method("uniot", queue=queue), data, steps=20)
    drawn = []
    remember = trainer.method._remember
    trainer.method._remember = lambda z, batch: drawn.append((batch.target_row, z)) or remember(z, batch)
    trainer.run(until=3)
    latest, z = (torch.cat(parts)[-queue:] for parts in zip(*drawn, strict=True))
    kept = trainer.method.get_buffer("memory_row")
    assert sorted(kept.tolist()) == sorted(latest.tolist())
    alike = trainer.method.get_buffer("memory") @ z.T > 0.9999
    assert (alike & (kept[:, None] == latest)).any(1).all()
    mass = trainer.method.get_buffer("mass")
    assert mass.sum().item() == pytest.approx(1, abs=1e-5)
    assert not torch.allclose(mass, torch.full((3,), 1 / 3))
    still = stepped(data, momentum=1.0).method.get_buffer("mass")
    assert torch.allclose(still, torch.full((3,), 1 / 3))


def test_prototypes_have_length_one_and_common_classes_wait(data):
    method = stepped(data, delay=0.5, steps=9).method
    assert torch.allclose(method.get_buffer("mass"), torch.full((3,), 1 / 3))
    for one in (method.classes, method.centres):
        assert torch.allclose(one.norm(dim=1), torch.ones(len(one)))
    assert not torch.allclose(
        stepped(data, delay=0.5, steps=12).method.get_buffer("mass"), torch.full((3,), 1 / 3)
    )


def test_the_released_code_has_no_clusters(data, monkeypatch):
    monkeypatch.setattr(uniot, "swapped", lambda *given: pytest.fail("no private class discovery"))
    method = stepped(data, variant="code").method
    assert len(method.get_buffer("memory")) == 32
    assert method.delay == 0


def test_common_classes_are_learned_by_cross_entropy(data):
    method = stepped(data, momentum=0.0).method
    classes = method.classes.detach()
    z = normalize(classes[[0, 1, 2] * 4] + 0.04 * torch.arange(12)[:, None] * unit(12, uniot.WIDTH), dim=1)
    method.get_buffer("memory").copy_(normalize(torch.randn(60, uniot.WIDTH), dim=1))
    loss = method.common(z.requires_grad_())
    price, kept = (
        method.get_buffer("price").double().exp().numpy(),
        method.get_buffer("mass").double().numpy(),
    )
    made = Coupling(price[:-1], price[-1], int(method.get_buffer("priced")), kept)
    label = torch.from_numpy(made.common(similarities(z, classes)))
    assert 3 < (label >= 0).sum() < 12
    expected = torch.nn.functional.cross_entropy((z @ classes.T / 0.1)[label >= 0], label[label >= 0])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert method.common(normalize(-classes.mean(0).expand(4, -1), dim=1)) == 0


@pytest.mark.slow
def test_a_row_alone_gets_the_answer_of_the_transport_over_all(data):
    trainer = trainer_of(make_method("uniot"), data, steps=60)
    trainer.run()
    method, target = trainer.method, data.target
    with torch.no_grad():
        z = method.unit(trainer.network.features(trainer.inputs(target)))
    torch.manual_seed(0)
    s = similarities(z, method.classes)
    every = evened(z, method.classes, method._mass(), method.similar)
    made = coupling(every, method._mass())
    method.get_buffer("price").copy_(torch.from_numpy(np.log([*made.v, made.total])))
    method.get_buffer("priced").fill_(made.rows)
    shares = made.shares(s)
    expected = np.where(shares.max(1) > 1 / len(every), shares.argmax(1), data.classes)
    assert 0 < (expected == data.classes).sum() < len(target)
    alone = np.concatenate([trainer.scores(target[[at]]) for at in range(len(target))]).argmax(1)
    assert (alone == expected).all()


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "code"])
def test_together_an_answer_depends_on_the_rows_beside_it(data, variant):
    trainer = trainer_of(make_method("uniot", variant=variant), data, steps=60)
    trainer.run()
    together = trainer.scores(data.target).argmax(1)
    alone = np.concatenate([trainer.scores(data.target[[at]]) for at in range(len(data.target))]).argmax(1)
    assert (together != alone).any()
    assert (together == trainer.scores(data.target).argmax(1)).all()
