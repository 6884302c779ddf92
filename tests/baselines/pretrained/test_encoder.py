"""Methods on the frozen features of any trained model: in a run, in heads, in a sweep."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import shiftdata as sd
from shiftdata.baselines import Training
from shiftdata.baselines.heads import HeadSpec, train_grid
from shiftdata.baselines.pretrained.model import FeatureEncoder, Pretrained, weights_hash
from shiftdata.bench import sweep_of
from shiftdata.bench.job import Setting, backbone_hash, on_features
from shiftdata.bench.running import needed, units_of
from shiftdata.cli.app import main as cli
from shiftdata.data.loading.features import features_of
from shiftdata.errors import InputError
from tests.shared import dataset_of

QUICK = Training(steps=6, batch=16)


def pictures_model(seed: int = 0, name: str = "fake:pictures") -> Pretrained:
    """A random layer over the 4 x 4 means of a picture."""
    layer = nn.Linear(48, 10)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(layer.bias)
    encoder = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), layer)
    return Pretrained(name, encoder, 10, lambda x: x.float() / 255, weights_hash(encoder), size=16)


def texts_model() -> Pretrained:
    """How often each letter occurs."""

    def prepare(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts])

    return Pretrained("fake:texts", lambda x: x.float(), 26, prepare, "0" * 64, "text", None)


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


@pytest.fixture
def loaded(monkeypatch) -> None:
    """A module `load` that knows two models by name."""
    module = ModuleType("shiftdata.baselines.pretrained.load")
    models = {f"fake:{seed}": pictures_model(seed, f"fake:{seed}") for seed in (0, 1)}
    module.load = models.__getitem__  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("backbone", ["linear", "mlp-bn"])
def test_a_method_reads_the_features_of_a_model(task, backbone, tmp_path):
    model = pictures_model()
    run = sd.train(task, "group-dro", encoder=model, backbone=backbone, training=QUICK, folder=tmp_path)
    rows = np.concatenate([task.rows(name) for name in task.sets])
    lines = features_of(task.metadata, rows, FeatureEncoder(model), cache=False)
    array = np.zeros((len(task.metadata), 10), np.float32)
    array[rows] = lines[task.metadata.picture[rows]]
    same = sd.train(task, "group-dro", features=array, backbone=backbone, training=QUICK)
    assert (run.scores == same.scores).all()
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["encoder"] == {"name": "fake:pictures", "weights": model.weights}
    assert record["pretraining"]
    assert "encoder" not in same.about
    other = sd.train(task, "group-dro", encoder=pictures_model(1), backbone=backbone, training=QUICK)
    assert not (run.scores == other.scores).all()


def test_texts_have_encoders_too(task, tmp_path_factory):
    texts = sd.task(str(dataset_of(tmp_path_factory, "text")))
    run = sd.train(texts, encoder=texts_model(), backbone="linear", training=QUICK)
    assert run.about["input"] == [26]
    with pytest.raises(InputError, match=r"fake:texts encodes texts, and tiny.* is of the modality image"):
        sd.train(task, encoder=texts_model())
    with pytest.raises(InputError, match=r"fake:pictures encodes images, and .* is of the modality text"):
        sd.train(texts, encoder=pictures_model())


def test_a_name_is_loaded(task, loaded, tiny, capsys):
    run = sd.train(task, encoder="fake:1", training=QUICK)
    assert run.about["encoder"]["name"] == "fake:1"
    assert run.about["backbone"] == "mlp"  # few features
    words = [str(tiny), "group-fairness", "k=4", "mu=0.2", "--encoder", "fake:1", "--steps", "4", "--quiet"]
    assert cli(["train", *words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["encoder"] == run.about["encoder"]


def test_heads_read_them(task):
    model = pictures_model()
    rows = np.unique(np.concatenate([task.rows(name) for name in task.sets]))
    array = features_of(task.metadata, rows, FeatureEncoder(model), cache=False)
    specs = [HeadSpec(method="erm"), HeadSpec(method="rwg")]
    heads = train_grid(task, specs, steps=5, encoder=FeatureEncoder(model))
    lines = np.zeros((len(task.metadata), 10), np.float32)
    lines[rows] = array[task.metadata.picture[rows]]
    assert (heads.weights == train_grid(task, specs, steps=5, features=lines).weights).all()


def test_a_sweep_names_the_model_after_the_backbone(tiny, loaded, tmp_path):
    plan = {
        "name": "small",
        "methods": ["erm", "rwg"],
        "tasks": [{"protocol": "group-fairness", "k": 4, "mu": 0.2}],
        "backbones": ["heads@fake:0", "heads@fake:1"],
        "training": {"steps": 4},
    }
    sweep = sweep_of(plan, [str(tiny)])
    runs = needed(sweep, None)
    weights = [pictures_model(seed).weights for seed in (0, 0, 1, 1)]
    assert sorted(run.about["backbone_hash"] for run in runs) == sorted(weights)
    units = units_of(runs, set())
    assert sorted(len(unit.runs) for unit in units) == [2, 2]  # heads of one model are trained together
    rows = [row for unit in units for row in Setting(folder=tmp_path).rows_of(unit)]
    assert {row["status"] for row in rows} == {"done"}
    assert len({str(row["predicted"]) for row in rows}) > 1
    linear = needed(sweep_of(plan | {"backbones": "linear@fake:0"}, [str(tiny)]), None)
    (row, *_) = Setting(folder=tmp_path).rows_of(units_of(linear, set())[0])
    assert row["status"] == "done"
    assert "fake:0" in row["about"]
    assert backbone_hash("linear@fake:1") == pictures_model(1).weights
    assert on_features("timm:name@revision") == ("timm:name@revision", None)


def test_what_does_not_fit_is_refused(task):
    with pytest.raises(InputError, match="give one of them"):
        sd.train(task, encoder=pictures_model(), features=np.zeros((len(task.metadata), 3)))
    with pytest.raises(InputError, match="small-cnn reads pixels, and these are numbers: use linear"):
        sd.train(task, encoder=pictures_model(), backbone="small-cnn", training=QUICK)
