"""StableNet, which weighs rows, and AdaClust, whose head reads the centre of a row's cluster."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, Source, losses, make_method
from shiftdata.baselines.losses.domains import dependence, fourier, fourier_released
from shiftdata.baselines.zoo import clusters
from shiftdata.errors import InputError
from shiftdata.stable import hash64
from tests.baselines.problems import PLAIN, inputs_of, picture_problem, problem, same, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


def ready(name, data, rows=24, step=0, variant="fixed", settings=PLAIN, backbone="mlp", **hyper):
    """A trainer, and its first batch, of unequal weight."""
    trainer = trainer_of(make_method(name, variant=variant, **hyper), data, backbone=backbone, **settings)
    at = np.arange(rows)
    y, group, domain = (torch.from_numpy(one[at]) for one in (data.y, data.group, data.domain))
    weight = torch.linspace(0.5, 1.5, rows)
    x = inputs_of(trainer, data.rows[at])
    return trainer, Batch(x, y, group, domain, torch.from_numpy(at), weight, step=step)


@pytest.mark.parametrize(
    ("name", "hyper"), [("stablenet", {"weight_steps": 0}), ("adaclust", {"multiple": 0})]
)
def test_at_its_limit_it_is_erm_bit_for_bit(data, name, hyper):
    first, second = (
        trainer_of(method, data, backbone="mlp-bn", steps=6)
        for method in (make_method(name, **hyper), make_method("erm"))
    )
    for one in (first, second):
        one.run()
    assert same(first, second)
    assert (first.scores(data.select) == second.scores(data.select)).all()


@pytest.mark.parametrize(("name", "backbone"), [("stablenet", "small-cnn"), ("adaclust", "small-resnet")])
def test_pictures_and_frozen_statistics(name, backbone):
    data = picture_problem(rows=30)
    trainer = trainer_of(make_method(name), data, backbone=backbone, steps=3, batch=10, frozen_norm=True)
    before = {key: one.clone() for key, one in trainer.network.state_dict().items()}
    trainer.run()
    moved = {key for key, one in trainer.network.state_dict().items() if not torch.equal(one, before[key])}
    assert moved
    assert not {one for one in moved if "running" in one or "tracked" in one}


# StableNet.


def test_fourier_features_have_a_frequency_each():
    z = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(3)
    omega, phi = torch.randn(5), 2 * np.pi * torch.rand(5)
    torch.manual_seed(3)
    assert torch.allclose(fourier(z), 2**0.5 * torch.cos(omega * z + phi), atol=1e-6)
    torch.manual_seed(0)
    made = torch.cat([fourier(torch.zeros(1, 1)) for _ in range(4000)])
    assert float(made.mean()) == pytest.approx(0, abs=0.05)
    assert float(made.square().mean()) == pytest.approx(1, abs=0.05)
    # The mean product of two rows' features is the Gaussian kernel.
    one, other = torch.tensor([[0.3], [1.5]]), 4000
    torch.manual_seed(1)
    products = torch.stack([fourier(one).prod() for _ in range(other)])
    assert float(products.mean()) == pytest.approx(np.exp(-(1.2**2) / 2), abs=0.05)


def test_released_features_have_one_frequency_and_lose_their_size():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()
    torch.manual_seed(3)
    omega, phi = torch.randn(()), 2 * np.pi * torch.rand(5)
    phase = (omega * z + phi).numpy()
    low, high = phase.min(1, keepdims=True), phase.max(1, keepdims=True)
    phase = (phase - low) / (high - low) * np.pi / 2
    torch.manual_seed(3)
    made = fourier_released(z)
    assert made.numpy() == pytest.approx(2**0.5 * (np.cos(phase) + np.sin(phase)))
    torch.manual_seed(3)
    assert torch.allclose(fourier_released(z + 7), made)  # rows are shifted, nothing is seen
    assert fourier_released(torch.ones(3, 1)).isfinite().all()


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (6, 6)])
def test_dependence_is_numpys_covariance(shape):
    generator = np.random.default_rng(0)
    made, share = generator.normal(size=shape) + 3, generator.dirichlet(np.ones(shape[0]))
    covariance = np.cov(made.T, aweights=share, ddof=0)
    expected = (covariance**2).sum() - (np.diag(covariance) ** 2).sum()
    found = dependence(torch.from_numpy(made), torch.from_numpy(share))
    assert float(found) == pytest.approx(expected)
    alone = dependence(torch.from_numpy(made[:, :1]), torch.from_numpy(share))
    assert float(alone) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("kept", "steps"), [(0, 7), (3, 8)])
def test_weights_are_torchs_sgd(released, kept, steps):
    generator = torch.Generator().manual_seed(0)
    z, memory = (torch.randn(size, 6, generator=generator) for size in (10, kept))
    memory_w = torch.randn(kept, generator=generator)
    torch.manual_seed(4)
    w = torch.ones(10, requires_grad=True)
    solver = torch.optim.SGD([w], lr=2.0, momentum=0.9)
    draw = fourier_released if released else fourier
    for step in range(steps):
        solver.param_groups[0]["lr"] = 2.0 if step < steps / 2 else 0.2
        share = torch.softmax(torch.cat([w, memory_w]), 0)
        made = draw(torch.cat([z, memory]))
        mu = (share[:, None] * made).sum(0)
        covariance = torch.einsum("a,ai,aj->ij", share, made, made) - mu[:, None] * mu
        off = covariance[~torch.eye(6, dtype=torch.bool)]
        loss = off.square().sum() / 1.5 + (torch.softmax(w, 0) ** 2).sum()
        (w.grad,) = torch.autograd.grad(loss, w)
        solver.step()
    torch.manual_seed(4)
    state = losses.StableNet(6, steps=steps, rate=2.0, penalty=1.5, released=released)
    found = state.solve(torch.cat([z, memory]), memory_w)
    assert found.shape == (10,)
    assert not found.requires_grad
    assert torch.allclose(found, w.detach(), atol=1e-5)
    assert not torch.allclose(found, torch.ones(10), atol=1e-3)


def dependent(rows=80, features=40):
    """Pairs of features, of which the second one is the first one in most rows."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(rows, features, generator=generator)
    z[: rows * 3 // 4, features // 2 :] = z[: rows * 3 // 4, : features // 2]
    return z


def test_weights_shrink_the_dependence_of_features():
    z = dependent(features=8)

    def mean_dependence(share):
        torch.manual_seed(9)
        return float(torch.stack([dependence(fourier(z), share) for _ in range(100)]).mean())

    for seed in range(3):
        torch.manual_seed(seed)
        share = losses.StableNet(8, penalty=1.0).update(z)
        assert mean_dependence(share) < 0.85 * mean_dependence(torch.full((80,), 1 / 80))
        assert share[60:].mean() > 1.15 * share[:60].mean()  # the rows in which pairs are apart
        assert share.max() < 4 / 80


def test_of_very_many_features_one_row_is_left_and_released_weights_stay_alike():
    torch.manual_seed(0)
    assert losses.StableNet(20_000, memory=0).update(torch.randn(16, 20_000)).max() > 0.99
    away = []
    for released in (False, True):
        torch.manual_seed(0)
        share = losses.StableNet(40, released=released).update(dependent())
        away.append(float((80 * share - 1).abs().max()))
    assert away[1] < 2e-3
    assert away[0] > 20 * away[1]


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_the_loss_of_stablenet_is_its_formula(data, variant):
    trainer, batch = ready("stablenet", data, variant=variant, penalty=0.1, rate=3.0)
    network, method = trainer.network, trainer.method
    torch.manual_seed(2)
    loss = method.loss(batch)
    z = network.features(batch.x)
    torch.manual_seed(2)
    state = losses.StableNet(z.shape[1], rate=3.0, penalty=0.1, released=variant == "code")
    weight = state.update(z) * batch.weight
    assert not any(buffer.requires_grad for buffer in method.buffers())
    expected = (cross_entropy(network.head(z), batch.y, reduction="none") * weight).sum() / weight.sum()
    assert torch.allclose(loss, expected)
    both = (torch.autograd.grad(value, list(network.parameters())) for value in (loss, expected))
    assert all(torch.allclose(*pair, atol=1e-7) for pair in zip(*both, strict=True))


def test_the_memory_is_a_mean_and_then_a_moving_one():
    state = losses.StableNet(12, memory=5, decay=0.8, penalty=0.1)
    generator = torch.Generator().manual_seed(0)
    memory, memory_w = torch.zeros(5, 12), torch.zeros(5)
    for step in range(8):
        z, filled = torch.randn(7, 12, generator=generator), 5 * bool(step)
        torch.manual_seed(step)
        w = state.solve(torch.cat([z, memory[:filled]]), memory_w[:filled])
        torch.manual_seed(step)
        assert torch.equal(state.update(z), torch.softmax(w, 0))
        share = min(0.8, step / (step + 1))
        memory, memory_w = share * memory + (1 - share) * z[:5], share * memory_w + (1 - share) * w[:5]
        assert torch.allclose(state.z, memory, atol=1e-6)
        assert torch.allclose(state.w, memory_w, atol=1e-6)


def test_slots_without_a_row_do_not_count():
    state, z = losses.StableNet(12, memory=6), torch.randn(4, 12)
    state.update(z[:3])
    assert state.counts.tolist() == [1, 1, 1, 0, 0, 0]
    assert torch.equal(state.z[:3], z[:3])
    assert not state.z[3:].any()
    state.update(z)
    assert state.counts.tolist() == [2, 2, 2, 1, 0, 0]
    assert torch.equal(state.z[3], z[3])
    assert losses.StableNet(12, memory=0).update(z).shape == (4,)


def test_one_row_weighs_one(data):
    trainer, batch = ready("stablenet", data, rows=1)
    assert torch.allclose(trainer.method.loss(batch), cross_entropy(trainer.network(batch.x), batch.y))


# AdaClust.


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (3, 10), (10, 10), (25, 10), (7, 1000), (240, 240)])
def test_clusters_are_made_at_epochs_0_1_2_4_8(size, rows):
    steps = 30 * max(1, rows // size)
    made = [step for step in range(steps) if clusters.begins_epoch(step, size, rows)]
    epochs, expected = [0, *(2**power for power in range(12))], []
    for epoch in epochs:  # the first step from which on so many epochs are done
        expected.append(-(-epoch * rows // size))
    assert made == sorted({one for one in expected if one < steps})


def pipeline(z, wanted, left_out, number, seed):
    """The clusters of scikit-learn alone."""
    principal = PCA(left_out + wanted, random_state=seed).fit(z)
    placed = normalize(principal.transform(z)[:, left_out:])
    return KMeans(number, n_init=1, random_state=seed).fit(placed.astype(np.float32))


@pytest.mark.parametrize(
    ("backbone", "offset", "left_out", "axes"), [("mlp", 8, 8, 120), ("linear", 8, 3, 3)]
)
def test_clusters_are_scikit_learns(data, backbone, offset, left_out, axes):
    trainer, batch = ready("adaclust", data, backbone=backbone, multiple=3, offset=offset)
    method = trainer.method
    z = trainer.features(data.rows)
    trainer.method.step(batch, trainer)
    seed = hash64(0, "adaclust", 0) % 2**32
    oracle = pipeline(z, axes, left_out, 9, seed)
    assert method.get_buffer("axes").shape[0] == axes
    found = method.cluster_of(torch.from_numpy(z)).numpy()
    assert (found == oracle.labels_).mean() > 0.99
    for cluster in range(9):
        expected = z[found == cluster].mean(0)
        assert method.get_buffer("centroids")[cluster].numpy() == pytest.approx(expected, abs=1e-5)


def test_means_of_clusters():
    z, cluster = torch.arange(8.0).view(4, 2), torch.tensor([2, 0, 2, 0])
    made = clusters.cluster_means(z, cluster, 4)
    assert made.tolist() == [[4, 5], [3, 4], [2, 3], [3, 4]]


def test_the_head_reads_features_and_their_centroid(data):
    trainer, batch = ready("adaclust", data)
    trainer.method.step(batch, trainer)
    method, network = trainer.method, trainer.network
    z = network.features(batch.x)
    centroid = method.get_buffer("centroids")[method.cluster_of(z.detach())]
    weight = torch.cat([network.head.weight, method.context.weight], 1)
    expected = torch.cat([z, centroid], 1) @ weight.T + network.head.bias
    assert torch.allclose(method.scores(z), expected, atol=1e-5)
    assert torch.allclose(method.predict(batch.x), expected, atol=1e-5)
    losses = cross_entropy(expected, batch.y, reduction="none")
    fitted = (losses * batch.weight).sum() / batch.weight.sum()
    assert torch.allclose(method.loss(batch), fitted, atol=1e-6)
    made = torch.autograd.grad(method.loss(batch), [*network.parameters(), method.context.weight])
    wanted = torch.autograd.grad(fitted, [*network.parameters(), method.context.weight])
    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(made, wanted, strict=True))
    assert made[-1].abs().sum() > 0


def test_one_cluster_is_a_constant(data):
    trainer, batch = ready("adaclust", data, multiple=1 / 3)
    z = torch.from_numpy(trainer.features(data.rows))
    trainer.method.step(batch, trainer)
    method = trainer.method
    assert method.number == 1
    assert torch.allclose(method.get_buffer("centroids")[0], z.mean(0), atol=1e-5)
    added = method.scores(z) - trainer.network.head(z)
    assert torch.allclose(added, added[:1].expand_as(added), atol=1e-5)
    assert added.abs().max() > 1e-3


def test_an_answer_does_not_depend_on_its_neighbours(data):
    trainer = trainer_of(make_method("adaclust"), data)
    trainer.run()
    rows = data.select
    alone = np.concatenate([trainer.scores(rows[[at]]) for at in range(len(rows))])
    assert np.allclose(trainer.scores(rows), alone, atol=1e-4)


def test_labels_domains_and_the_target_have_no_say_in_clusters(data):
    other = replace(data, y=np.roll(data.y, 1), domain=np.roll(data.domain, 1), target=data.target[:5])
    centres = []
    for one in (data, other):
        trainer, _ = ready("adaclust", one)
        trainer.method.cluster(trainer.features(one.rows), 0)
        centres.append(trainer.method.get_buffer("centroids"))
    assert torch.equal(*centres)


@pytest.mark.parametrize("stop", [8, 33])
def test_a_stop_beside_new_clusters_changes_no_bit(data, stop):
    """240 rows in batches of 30: clusters are new at steps 0, 8, 16 and 32."""

    def fresh():
        return trainer_of(make_method("adaclust"), data, steps=36)

    whole, first, second = fresh(), fresh(), fresh()
    whole.run()
    first.run(until=stop)
    kept = io.BytesIO()
    torch.save(first.state_dict(), kept)
    kept.seek(0)
    second.load_state_dict(torch.load(kept, weights_only=True))
    second.run()
    assert same(whole, second)
    assert (whole.scores(data.target) == second.scores(data.target)).all()


@pytest.mark.parametrize(
    ("batch", "taken", "expected"), [(30, 36, [0, 8, 16, 32]), (0, 10, [0, 1, 2, 4, 8]), (480, 4, [0, 1, 2])]
)
def test_clusters_are_new_when_an_epoch_begins(data, monkeypatch, batch, taken, expected):
    trainer = trainer_of(make_method("adaclust"), data, steps=taken, batch=batch, backbone="mlp-bn")
    steps, modes, cluster = [], [], trainer.method.cluster

    def counted(z, seed):
        steps.append(trainer.progress.done)
        modes.append(trainer.network.encoder[1].training)
        assert z.shape == (240, 128)
        return cluster(z, seed)

    monkeypatch.setattr(trainer.method, "cluster", counted)
    trainer.run()
    assert steps == expected
    assert modes == [True] * len(expected)
    assert int(trainer.network.encoder[1].num_batches_tracked) == taken  # none by clustering


def test_rows_that_are_alike_and_features_that_are_no_number(data):
    alike = replace(data, source=Source(np.ones_like(data.source.array)))
    trainer = trainer_of(make_method("adaclust"), alike, steps=2)
    trainer.run()
    assert np.isfinite(trainer.scores(data.select)).all()
    with pytest.raises(InputError, match="not finite"):
        trainer.method.cluster(np.full((240, 128), np.nan, np.float32), 0)
    with pytest.raises(InputError, match="from 0 on"):
        trainer_of(make_method("adaclust", offset=-1), data)
