"""Predictions of trained models: their heads, what is saved, hidden labels, kills, processes, the verb."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import shiftdata as sd
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.pretrained.predicting import predict
from shiftdata.cli.app import main
from shiftdata.errors import InputError
from tests.baselines.test_ranks import together
from tests.paths import ROOT

FACTORY = """
import os, signal, time
import numpy as np, torch
from torch import nn
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.calls = nn.Conv2d(3, 8, 4, 4), 0

    def forward(self, x):
        self.calls += 1
        if self.calls == int(os.environ.get("KILLED_AT", "-1")):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layer(x).relu().mean((2, 3))

def make():
    encoder = Encoder()
    return Pretrained("mine", encoder, 8, lambda x: x.float() / 255, weights_hash(encoder), size=16)
"""


@pytest.fixture(scope="module")
def task(tiny) -> sd.Task:
    return sd.task(tiny)


@pytest.fixture(scope="module")
def factory(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(FACTORY)
    return f"torch:{file}:make"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def colours(task: sd.Task, **fields) -> Pretrained:
    """Features are the mean colour; the model has an output for each label, by its name."""
    layer = nn.Linear(3, len(task.labels))
    torch.manual_seed(1)
    nn.init.normal_(layer.weight)
    given = {"classifier": layer, "outputs": tuple(task.labels), **fields}
    return Pretrained("colours", lambda x: x.mean((2, 3)), 3, lambda x: x / 255, "1" * 64, size=8, **given)


def test_scores_are_those_of_the_model_in_the_order_of_keys(task):
    model = colours(task)
    prediction = predict(task, model)
    assert prediction.about["method"] == "labels"
    x = next(iter(task.loader(batch_size=10_000, name="test", sampler="shuffle", seed=0, size=8)))
    with torch.inference_mode():
        logits = model.classifier((x[0] / 255).mean((2, 3))).numpy()
    by_key = dict(zip(task.keys("test"), prediction.scores_of("test"), strict=True))
    for key, line in zip(x[2]["key"], logits, strict=True):
        assert by_key[key] == pytest.approx(line, abs=1e-5)
    right = task.metadata.label[task.rows("test")] == task.label_ids[prediction.scores_of().argmax(1)]
    assert prediction.evaluate().accuracy == pytest.approx(right.mean())
    assert prediction.predicted.shape == prediction.rows.shape


def test_heads_choose_themselves(task):
    captions = {name: np.eye(len(task.labels), 3)[place] for place, name in enumerate(task.labels)}

    def caption(texts):
        return torch.tensor(np.array([captions[text.split()[-1].rstrip(".")] for text in texts]))

    none = {"classifier": None, "outputs": ()}
    assert predict(task, colours(task, **none, caption=caption)).about["method"] == "zero-shot"
    probe = predict(task, colours(task, **none))
    assert (probe.about["method"], probe.about["head"]["auto"]) == (
        "probe",
        "the model has no classes of its own",
    )
    other = predict(task, colours(task, outputs=("a", "b", *task.labels[2:])))
    assert "has no output named" in other.about["head"]["auto"]
    every = predict(task, colours(task), compete="all")
    assert every.about["head"]["compete"] == "all"


def test_a_saved_prediction_is_read_as_a_run_is(task, factory, tmp_path):
    prediction = predict(task, factory, folder=tmp_path / "saved")
    about = json.loads((tmp_path / "saved" / "run.json").read_text())
    assert {key: about[key] for key in ("task_id", "method", "outputs")} == {
        "task_id": task.content_id(),
        "method": "probe",
        "outputs": list(task.labels),
    }
    assert about["weights"] == load(factory).weights
    files = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert files == ["predictions-test.parquet", "predictions-validation.parquet", "run.json"]
    for name in ("test", "validation"):
        table = pq.read_table(tmp_path / "saved" / f"predictions-{name}.parquet")
        scores = np.array(table["scores"].to_pylist(), np.float32)
        assert np.array_equal(scores, prediction.scores_of(name))
        assert dict(zip(*table.select(["key", "prediction"]).to_pydict().values(), strict=True)) == (
            prediction.predictions(name)
        )
    saved = task.evaluate(tmp_path / "saved" / "predictions-test.parquet")
    assert saved.accuracy == prediction.evaluate().accuracy


def test_unlabelled_sets_have_hashed_keys_in_their_order(tiny, task):
    source, target, *_ = task.metadata.nuisances
    hidden = sd.task(tiny, "uda", source=source, target=target)
    (name,) = (name for name, rows in hidden.sets.items() if rows.role == "unlabelled")
    prediction = predict(hidden, colours(task), sets=[name], head="labels")
    given = prediction.predictions(name)
    assert list(given) == hidden.keys(name)
    assert not set(given) & set(hidden.metadata.keys(hidden.rows(name)).to_pylist())
    predicted = [task.metadata.labels.index(label) for label in given.values()]
    right = np.mean(hidden.metadata.label[hidden.rows(name)] == predicted)
    assert prediction.evaluate(name).accuracy == pytest.approx(right)


@pytest.mark.slow
def test_a_killed_prediction_goes_on_to_equal_bytes(tiny, factory, tmp_path):
    command = [
        sys.executable,
        "-m",
        "shiftdata",
        "predict",
        str(tiny),
        "--model",
        factory,
        "--quiet",
        "--folder",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(name: str, cache: str, **extra: str) -> int:
        known = environment | {"HF_HOME": str(tmp_path / cache), **extra}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run([*command, str(tmp_path / name)], env=known, **quiet, check=False).returncode

    model = load(factory)
    predict(sd.task(tiny), model, cache=tmp_path / "here")
    assert model.encoder.calls >= 14
    assert run("whole", "one") == 0
    assert run("killed", "two", KILLED_AT="12") == -signal.SIGKILL
    assert not (tmp_path / "killed").exists()
    assert run("killed", "two", KILLED_AT="14") == 0  # a part is done: fewer calls are left
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes()


@pytest.mark.slow
def test_processes_share_the_features(tiny, factory, tmp_path, cache):
    work = """
from shiftdata.baselines.pretrained.predicting import predict
predict(sd.task(sys.argv[1]), sys.argv[2], folder=sys.argv[3])
"""
    with together(work, tiny, factory, tmp_path / "two") as running:
        assert [process.wait(timeout=300) for process in running] == [0, 0]
    predict(sd.task(tiny), factory, folder=tmp_path / "one", cache=tmp_path / "other")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_what_cannot_be_predicted_is_refused(task, factory):
    texts = Pretrained("reader", lambda x: x, 3, lambda x: x, "0" * 64, modality="text", size=None)
    for model, options, reason in (
        (texts, {}, "reads examples of the modality text, and .* has image"),
        (factory, {"sets": ["no"]}, "no"),
        (factory, {"sets": []}, "has no rows to predict in no set"),
        (factory, {"precision": "float16"}, "give 'float32' or 'bfloat16'"),
        (factory, {"head": "labels"}, "has no classifier of its own"),
        (colours(task), {"size": 8}, "size= is for a model by its name"),
    ):
        with pytest.raises((InputError, LookupError), match=reason):
            predict(task, model, **options)
    with pytest.raises(InputError, match=r"train was not predicted"):
        predict(task, factory).scores_of("train")


def test_a_saved_run_predicts_other_tasks(task, tmp_path):
    run = sd.train(task, steps=4, batch_size=8, folder=tmp_path / "run", side=24)
    model = load(f"run:{tmp_path}/run")
    prediction = predict(task, model, sets=["test", "train"])
    assert prediction.about["method"] == "labels"
    assert prediction.scores_of("test") == pytest.approx(run.scores, abs=1e-4)


def test_models_of_timm_and_open_clip_go_through(task, tmp_path):
    timm, open_clip = pytest.importorskip("timm"), pytest.importorskip("open_clip")
    torch.manual_seed(0)
    timm.models.save_for_hf(timm.create_model("resnet18"), tmp_path / "timm")
    clip = open_clip.create_model("RN50", pretrained=None)
    torch.save(clip.state_dict(), tmp_path / "own.pt")
    names = {f"timm:local-dir:{tmp_path}/timm": "probe", f"open_clip:RN50/{tmp_path}/own.pt": "zero-shot"}
    part = replace(task.sets["test"], indices=task.sets["test"].indices[:40])
    few = replace(task, sets={**task.sets, "test": part})
    for name, head in names.items():
        size = 64 if head == "probe" else None
        prediction = predict(few, name, sets=["test"], size=size, cache=tmp_path / "cache")
        assert prediction.about["method"] == head
        assert prediction.scores_of().shape == (40, len(task.labels))


def test_the_verb(tiny, task, factory, tmp_path, capsys):
    assert main(["predict"]) == 0
    listed = capsys.readouterr().out
    assert "timm:NAME" in listed
    assert "zero-shot" in listed
    words = ["predict", str(tiny), "--model", factory, "--head", "knn", "--option", "k=3", "--format", "json"]
    assert main([*words, "--set", "test"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["run"]["head"]["k"] == 3
    assert printed["tests"]["test"]["figures"]
    assert main(["predict", str(tiny)]) == 1
    assert main([*words, "--option", "k"]) == 1
    assert "give NAME=VALUE" in capsys.readouterr().err
