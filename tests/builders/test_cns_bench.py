"""CNS-Bench from its files: trajectories, spellings, what its list says, models with 1,000 outputs."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shiftdata as sd
from builders.make.build import build
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.cli.app import main
from shiftdata.evaluation.tasks import imagenet_outputs
from shiftdata.evaluation.verify import verify
from tests.builders import raw_albums
from tests.builders.replicas import cns_bench as replica
from tests.paths import ROOT

EAGLE = f"{replica.TOP}/painting_style/022_bald eagle"


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("cns")
    replica.make(root)
    return root


@pytest.fixture(scope="module")
def folder(raw, tmp_path_factory) -> Path:
    return build(f"cns_bench={raw}", tmp_path_factory.mktemp("built"), workers=1, quiet=True)


album_of = partial(raw_albums.album_of, "cns_bench")


def test_a_class_and_seed_is_one_origin_in_all_shifts_at_all_scales(raw):
    for item in album_of(raw).items():
        seed, scale = (int(digits) for digits in str(item.source["file"])[:-4].split("_")[-3::2])
        assert item.origin.endswith(f"/seed_{seed:04}")
        assert item.severity == scale / 1000


def test_what_is_left_out_is_named(raw):
    left_out = album_of(raw).left_out
    filtered = [file for file, why in left_out.items() if why == "its trajectory lacks severity 1.5"]
    assert len(filtered) == 5
    assert all("heavy_snow/022_bald eagle/seed_0003" in file for file in filtered)
    others = {file: why for file, why in left_out.items() if file not in filtered}
    assert others == {
        f"{EAGLE}/seed_0049_scale_0000.jpg": "annotations_cns.json does not list it",
        f"{replica.TOP}/example.png": "annotations_cns.json does not list it",
    }


def test_no_check_finds_a_problem(folder):
    assert not list(verify(folder))


class TestImageNetModels:
    """A model with 1,000 outputs, of which three are labels here."""

    @pytest.fixture(scope="class")
    @staticmethod
    def task(folder) -> sd.Task:
        return sd.task(folder, "continuous@paper")

    @pytest.fixture(scope="class")
    @staticmethod
    def scores(task) -> np.ndarray:
        """Right up to a scale of 1; from there on a class that the dataset lacks, the right one second."""
        rows = task.table("test")
        true = np.array(list(replica.CLASSES))[rows["label"].to_pylist()]
        scores = np.zeros((len(rows), 1000))
        scores[np.arange(len(rows)), true] = 1
        scores[np.array(rows["severity"].to_pylist()) > 1, 500] = 2
        return scores

    def test_other_classes_count_as_wrong(self, task, scores):
        result = task.evaluate(scores, outputs=imagenet_outputs(task))
        figures = [result[f"accuracy@{scale / 1000:g}"] for scale in replica.SCALES]
        assert figures == [1, 1, 1, 0, 0, 0]
        assert result["mean_drop"] == 0.5
        assert result["mean_failure_point"] == 1.5
        assert "132 predictions are outputs without a label: they count as wrong" in result.notes

    def test_the_command_line_knows_both(self, folder, task, scores, tmp_path, capsys):
        np.save(file := tmp_path / "scores.npy", scores)
        overall = {}
        for outputs in ("imagenet", "imagenet-masked"):
            words = [str(folder), "continuous@paper", str(file), "--outputs", outputs, "--format", "json"]
            assert main(["evaluate", *words]) == 0
            overall[outputs] = json.loads(capsys.readouterr().out)
        all_compete = task.evaluate(scores, outputs=imagenet_outputs(task))
        assert overall["imagenet"] == json.loads(json.dumps(all_compete.to_dict()))
        assert overall["imagenet"] != overall["imagenet-masked"]
        mask = imagenet_outputs(task) >= 0
        masked = task.evaluate(scores[:, mask], outputs=imagenet_outputs(task)[mask])
        assert overall["imagenet-masked"] == json.loads(json.dumps(masked.to_dict()))
        np.save(file, scores.argmax(axis=1))
        assert main(["evaluate", *words]) == 1
        assert "chooses among logits" in capsys.readouterr().err

    def test_the_example_of_the_page_runs(self, folder, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        page = (ROOT / "docs/raw/cns_bench.md").read_text(encoding="utf-8")
        (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        always = torch.zeros(1000)
        always[[500, min(replica.CLASSES)]] = torch.tensor([2.0, 1.0])  # the best output is no label here
        names: dict[str, Any] = {
            "model": Pretrained(
                "mine", lambda x: x.flatten(1)[:, :1], 1, torch.Tensor.float, "0" * 64,
                classifier=lambda features: always.expand(len(features), -1),
            )
        }  # fmt: skip
        code = code.replace('"timm:resnet50.a1_in1k"', "model")
        exec(code.replace('"cns_bench"', repr(str(folder))), names)
        assert names["result"]["accuracy@2.5"] == 0
        assert names["masked"]["accuracy@2.5"] == pytest.approx(1 / 3, abs=0.03)
