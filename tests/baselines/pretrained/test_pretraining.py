"""Pretraining without labels as a user does it: a folder, goes on, and is the start of a training."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import shiftdata as sd
from shiftdata.baselines import Training, initial_network
from shiftdata.baselines.models import backbone_of
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import weights_hash
from shiftdata.baselines.pretrained.pretraining import pretrain, unlabelled_rows
from shiftdata.baselines.pretrained.registry import pretraining_of
from shiftdata.bench.job import backbone_hash
from shiftdata.cli.app import main as cli
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, NotFoundError

QUICK = Training(steps=4, batch=8, augment="contrastive", workers=0)


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


@pytest.fixture(scope="module")
def folder(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    pretrain(task, "moco", side=24, training=QUICK, queue=16, folder=folder)
    return folder


def test_labels_and_groups_change_nothing(task, folder, monkeypatch):
    """Poison them after the sets are made: the weights stay the same to the bit."""
    for name in ("label", "nuisance", "group"):
        monkeypatch.setattr(Metadata, name, property(lambda self: np.full(len(self), 10**6)))
    model = pretrain(task, "moco", side=24, training=QUICK, queue=16)
    assert model.weights == json.loads((folder / "run.json").read_text())["weights"]


def test_the_record_says_what_the_weights_have_seen(task, folder):
    record = json.loads((folder / "run.json").read_text())
    dataset, content_id = task.metadata.name, record["content_id"]
    rows = len(task.rows("train"))
    corpus = {"dataset": dataset, "content_id": content_id, "sets": ["train"], "rows": rows}
    assert record["corpora"] == [corpus]
    assert content_id == task.metadata.dataset.manifest.base(task.metadata.base).content_id
    assert (record["supervision"], record["method"], record["backbone"]) == ("none", "moco", "small-cnn")
    assert not (folder / "checkpoint.pt").exists()


def test_unlabelled_sets_are_read_too(tiny):
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2).also("test", "unlabelled")
    rows, names = unlabelled_rows(task)
    assert names == ["train", "test"]
    assert set(rows) == {*task.rows("train"), *task.rows("test", "unlabelled")}


def test_a_training_begins_with_the_encoder(task, folder):
    network, _ = initial_network(task, f"run:{folder}", side=24)
    assert weights_hash(network.encoder) == json.loads((folder / "run.json").read_text())["weights"]
    assert backbone_of(f"run:{folder}").side == 24
    probe = Training(steps=2, batch=8, encoder_rate=0, frozen_norm=True)
    run = sd.train(task, backbone=f"run:{folder}", training=probe)
    assert weights_hash(run.model.trainer.network.encoder) == weights_hash(network.encoder)
    seen = run.about["pretraining"]
    assert (seen["supervision"], seen["by"], seen["contamination"]) == ("none", "record", "no")


def test_a_saved_run_is_a_start_as_well(task, folder, tmp_path):
    run = sd.train(task, side=24, training=Training(steps=2, batch=8), folder=tmp_path)
    network, _ = initial_network(task, f"run:{tmp_path}")
    trained = run.model.trainer.network.encoder
    assert weights_hash(network.encoder) == weights_hash(trained)
    assert pretraining_of(f"run:{tmp_path}").supervision == "labels"
    assert backbone_hash(f"run:{tmp_path}") != backbone_hash(f"run:{folder}")


def test_one_that_was_stopped_goes_on(task, tmp_path):
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    settings = {"side": 24, "training": QUICK, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        pretrain(task, save_every=2, on_step=stop, **settings)
    steps: list[int] = []
    model = pretrain(task, on_step=lambda done, total: steps.append(done), **settings)
    assert steps == [3, 4]
    assert model.weights == pretrain(task, side=24, training=QUICK).weights
    saved = torch.load(tmp_path / "encoder.pt", weights_only=True)
    assert all(torch.equal(value, saved[name]) for name, value in model.encoder.state_dict().items())


def test_a_loaded_folder_has_the_features_that_pretrain_returns(task, tmp_path):
    model = pretrain(task, side=24, training=QUICK, folder=tmp_path)
    loaded = load(f"run:{tmp_path}")
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 3, 24, 24), dtype=np.uint8))
    with torch.no_grad():
        features = model.encoder(model.prepare(x))
        assert torch.equal(loaded.encoder.eval()(loaded.prepare(x)), features)
    assert features.shape == (3, model.n_features)
    assert (loaded.size, loaded.outputs, loaded.classifier) == (24, (), None)


def test_the_command_trains_and_says_how_to_go_on(tiny, tmp_path, capsys):
    words = ["pretrain", str(tiny), "group-fairness", "k=4", "mu=0.2", "--side", "24", "--steps", "2"]
    words += ["--batch", "8", "--set", "temperature=0.1", "--folder", str(tmp_path / "f"), "--quiet"]
    assert cli(words) == 0
    assert f"--backbone run:{tmp_path / 'f'}" in capsys.readouterr().out
    record = json.loads((tmp_path / "f" / "run.json").read_text())
    assert (record["hyper"], record["training"]["steps"]) == ({"temperature": 0.1}, 2)


def test_what_cannot_be_pretrained_is_refused(task):
    with pytest.raises(NotFoundError, match="simclr"):
        pretrain(task, "erm")
    with pytest.raises(InputError, match="mlp reads numbers"):
        pretrain(task, backbone="mlp", side=24, training=QUICK)
