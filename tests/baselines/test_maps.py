"""Methods that read feature maps: their style mixed, and clustered."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from shiftdata.baselines import losses, make_method, networks
from shiftdata.baselines.zoo import clusters
from shiftdata.baselines.zoo.clusters import clusters_of
from tests.baselines import problems
from tests.baselines.problems import inputs_of, picture_problem, trainer_of


@pytest.fixture(scope="module")
def data():
    return picture_problem()


ready = partial(problems.ready, sizes=(8, 7), progress=0.9, step=18, backbone="small-resnet")


# MixStyle.


@pytest.fixture
def mixtures(monkeypatch):
    """The maps, partners and shares that are mixed from now on, into zeros."""
    mixtures = []
    monkeypatch.setattr(
        losses, "mixstyle", lambda *given: mixtures.append(given) or torch.zeros_like(given[0])
    )
    return mixtures


@pytest.mark.parametrize("layers", [12, 123, 23, 2])
def test_the_stages_named_are_mixed_and_the_next_ones_read_that(data, mixtures, layers):
    trainer, batch = ready("mixstyle", data, layers=layers, p=1)
    scores = []
    trainer.network.head.register_forward_hook(lambda head, read, logits: scores.append(logits))
    trainer.method.loss(batch)
    assert [given[0].shape[1] for given in mixtures] == [
        networks.WIDTHS[int(digit) - 1] for digit in str(layers)
    ]
    assert torch.allclose(scores[0], scores[0][:1].expand_as(scores[0]), atol=1e-4)
    assert not any(part._forward_hooks for part in trainer.network.maps)
    assert len(mixtures) < 2 or not torch.equal(mixtures[0][2], mixtures[1][2])  # a draw for each layer


@pytest.mark.parametrize("sizes", [(8, 7), (3, 9), (1, 1), (6, 0)])
def test_partners_are_of_another_domain_where_there_is_one(data, mixtures, sizes):
    trainer, batch = ready("mixstyle", data, sizes=sizes, p=1)
    trainer.method.loss(batch)
    for _, partner, lam in mixtures:
        assert ((batch.domain != batch.domain[partner]).all()) == (0 not in sizes)
        if 0 in sizes or sizes[0] == sizes[1]:
            assert sorted(partner.tolist()) == list(range(len(batch.y)))
        assert lam.shape == batch.y.shape


# MMLD.


def test_styles_are_those_of_the_first_two_maps(data):
    trainer = trainer_of(make_method("mmld"), data, backbone="small-resnet")
    x = inputs_of(trainer, data.rows[:5])
    network = trainer.network.eval()
    with torch.no_grad():
        first = network.encoder[1](network.encoder[0](x))
        maps = [first, network.encoder[2](first)]
        styles = trainer.method.styles(x)
    expected = []
    for part in maps:
        flat = part.flatten(2).double().numpy()
        expected += [flat.mean(2), np.sqrt(flat.var(2, ddof=1) + 1e-6)]
    assert np.allclose(styles, np.concatenate(expected, axis=1), atol=1e-4)
    assert not any(part._forward_hooks for part in trainer.network.maps)


def test_clusters_keep_their_names():
    generator = np.random.default_rng(0)
    old = generator.integers(3, size=60)
    assert (clusters.renamed(np.array([2, 0, 1])[old], old, 3) == old).all()
    new = np.array([1, 2, 0])[old]
    new[:6] = generator.integers(3, size=6)
    assert (clusters.renamed(new, old, 3) == old).mean() >= 0.9
    far = np.repeat(np.eye(3), 20, axis=0)[generator.permutation(60)] * 9 + generator.normal(size=(60, 3)) / 9
    labels = clusters_of("mmld", far, 3, 3, 1)[2].labels_
    assert len({(label, int(row.argmax())) for label, row in zip(labels, far, strict=True)}) == 3
    assert (clusters_of("mmld", far[:2], 3, 2, 1)[2].labels_ < 2).all()  # fewer rows than clusters


@pytest.mark.parametrize(("trade_off", "entropy"), [(0.7, 0.3), (0.7, 0.0), (0.0, 0.3)])
def test_mmld_is_its_formula(data, trade_off, entropy):
    trainer, batch = ready("mmld", data, trade_off=trade_off, entropy=entropy, dropout=0.0, progress=0.2)
    method, network = trainer.method, trainer.network
    cluster = torch.from_numpy(np.random.default_rng(0).integers(3, size=len(data.rows)) ** 2 // 2)
    method.get_buffer("cluster").copy_(cluster)
    z = network.features(batch.x)
    scores, c = network.head(z), 2 / (1 + np.exp(-2.0)) - 1
    p = scores.softmax(1)
    fitted = torch.nn.functional.cross_entropy(scores, batch.y, reduction="none")
    fitted = fitted + entropy * c * -(p * p.log()).sum(1)
    mine = cluster[batch.row]
    share = torch.tensor([(cluster == number).float().mean() for number in range(3)])
    hidden = torch.nn.functional.cross_entropy(method.adversary(z), mine, reduction="none") / (
        3 * share[mine]
    )
    assert torch.allclose(method.loss(batch), (fitted + trade_off * hidden).mean(), atol=1e-5)
    encoder = next(iter(network.encoder.parameters()))
    plain, adversarial = (
        torch.autograd.grad(loss.mean(), encoder, retain_graph=True)[0] for loss in (fitted, hidden)
    )
    whole = torch.autograd.grad(method.loss(batch), encoder)[0]
    assert torch.allclose(whole, plain - c * trade_off * adversarial, atol=1e-4)
