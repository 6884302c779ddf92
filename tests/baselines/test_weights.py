"""StableNet, which weighs rows, and AdaClust, whose head reads the centre of a row's cluster."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses
from shiftdata.baselines.losses.domains import dependence, fourier_released
from shiftdata.stable import hash64
from tests.baselines import problems
from tests.baselines.problems import PLAIN

ready = partial(problems.ready, sizes=(8, 8, 8), **PLAIN)


# StableNet.


def test_released_features_have_one_frequency_and_lose_their_size():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()
    torch.manual_seed(3)
    omega, phi = torch.randn(()), 2 * np.pi * torch.rand(5)
    phase = (omega * z + phi).numpy()
    low, high = phase.min(1, keepdims=True), phase.max(1, keepdims=True)
    phase = (phase - low) / (high - low) * np.pi / 2
    torch.manual_seed(3)
    features = fourier_released(z)
    assert features.numpy() == pytest.approx(2**0.5 * (np.cos(phase) + np.sin(phase)))
    torch.manual_seed(3)
    assert torch.allclose(fourier_released(z + 7), features)  # rows are shifted, nothing is seen
    assert fourier_released(torch.ones(3, 1)).isfinite().all()


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (6, 6)])
def test_dependence_is_numpys_covariance(shape):
    generator = np.random.default_rng(0)
    features, share = generator.normal(size=shape) + 3, generator.dirichlet(np.ones(shape[0]))
    covariance = np.cov(features.T, aweights=share, ddof=0)
    expected = (covariance**2).sum() - (np.diag(covariance) ** 2).sum()
    total = dependence(torch.from_numpy(features), torch.from_numpy(share))
    assert float(total) == pytest.approx(expected)
    alone = dependence(torch.from_numpy(features[:, :1]), torch.from_numpy(share))
    assert float(alone) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_the_loss_of_stablenet_is_its_formula(data, variant):
    trainer, batch = ready("stablenet", data, variant=variant, penalty=0.1, rate=3.0)
    network, method = trainer.network, trainer.method
    torch.manual_seed(2)
    loss = method.loss(batch)
    z = network.features(batch.x)
    torch.manual_seed(2)
    state = losses.StableNet(z.shape[1], rate=3.0, penalty=0.1, released=variant == "code")
    weight = state.update(z)
    assert not any(buffer.requires_grad for buffer in method.buffers())
    expected = (cross_entropy(network.head(z), batch.y, reduction="none") * weight).sum() / weight.sum()
    assert torch.allclose(loss, expected)
    both = (torch.autograd.grad(value, list(network.parameters())) for value in (loss, expected))
    assert all(torch.allclose(*pair, atol=1e-7) for pair in zip(*both, strict=True))


# AdaClust.


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
    clusters = method.cluster_of(torch.from_numpy(z)).numpy()
    assert (clusters == oracle.labels_).mean() > 0.99
    for cluster in range(9):
        expected = z[clusters == cluster].mean(0)
        assert method.get_buffer("centroids")[cluster].numpy() == pytest.approx(expected, abs=1e-5)


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
    fitted = losses.mean()
    assert torch.allclose(method.loss(batch), fitted, atol=1e-6)
    gradients = torch.autograd.grad(method.loss(batch), [*network.parameters(), method.context.weight])
    wanted = torch.autograd.grad(fitted, [*network.parameters(), method.context.weight])
    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(gradients, wanted, strict=True))
    assert gradients[-1].abs().sum() > 0
