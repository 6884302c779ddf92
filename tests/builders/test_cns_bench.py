"""CNS-Bench from its files: trajectories, spellings, what its list says, models with 1,000 outputs."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shiftdata as sd
from builders.make import assign
from builders.make.build import build
from builders.raw.album import RawAlbum
from builders.recipe import Base
from builders.recipe_files import load_recipe
from shiftdata.cli.app import main
from shiftdata.errors import InputError
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


@pytest.fixture
def broken(raw, tmp_path) -> Callable[..., RawAlbum]:
    """The album of a copy of the tree in which something was changed."""

    return partial(raw_albums.changed, "cns_bench", raw, tmp_path / "raw")


album_of = partial(raw_albums.album_of, "cns_bench")


def test_a_class_and_seed_is_one_origin_in_all_shifts_at_all_scales(raw):
    for item in album_of(raw).items():
        seed, scale = (int(digits) for digits in str(item.source["file"])[:-4].split("_")[-3::2])
        assert item.origin.endswith(f"/seed_{seed:04}")
        assert item.origin.startswith(f"{item.source['class']:03}")
        assert (item.severity, item.source["seed"]) == (scale / 1000, seed)


def test_labels_are_those_of_the_folders_in_the_order_of_imagenet(raw):
    assert album_of(raw).labels == tuple(f"{number:03}_{name}" for number, name in replica.CLASSES.items())


def test_what_is_left_out_is_named(raw):
    left_out = album_of(raw).left_out
    filtered = [file for file, why in left_out.items() if why == "its trajectory lacks the scale 1.5"]
    assert len(filtered) == 5
    assert all("heavy_snow/022_bald eagle/seed_0003" in file for file in filtered)
    others = {file: why for file, why in left_out.items() if file not in filtered}
    assert others == {
        f"{EAGLE}/seed_0049_scale_0000.jpg": "annotations_cns.json does not list it",
        f"{EAGLE.removeprefix(replica.TOP + '/')}/seed_0050_scale_0000.jpg": (
            "annotations_cns.json lists it, and it is not there"
        ),
        f"{replica.TOP}/example.png": "not <shift>/<number>_<class>/seed_<seed>_scale_<scale>.jpg",
    }


def test_without_the_list_all_whole_trajectories_count(raw, broken):
    album = broken(lambda root: (root / replica.TOP / "annotations_cns.json").unlink())
    assert album.items() == album_of(raw).items()
    assert album.left_out[f"{EAGLE}/seed_0049_scale_0000.jpg"].startswith("its trajectory lacks")


def test_a_tree_of_two_scales_has_these_two(broken):
    def thin(root: Path) -> None:
        (root / replica.TOP / "annotations_cns.json").unlink()
        for file in root.rglob("seed_*"):
            if not file.stem.endswith(("_0000", "_2500")):
                file.unlink()

    recipe = load_recipe("cns_bench")
    assert replace(recipe, album=broken(thin)).severities == (0, 2.5)


@pytest.mark.parametrize(
    "spelling", ["Style of a Tattoo", "style_of_a_tattoo", "TATTOO", "the_style_of_a_tattoo"]
)
def test_shifts_are_known_by_a_word_of_their_folder(raw, broken, spelling):
    def rename(root: Path) -> None:
        (root / replica.TOP / "tattoo_style").rename(root / replica.TOP / spelling)

    assert [item.key for item in broken(rename).items()] == [item.key for item in album_of(raw).items()]


def test_a_folder_that_is_not_a_shift_is_named(broken):
    def rename(root: Path) -> None:
        (root / replica.TOP / "annotations_cns.json").unlink()
        (root / replica.TOP / "heavy_snow").rename(root / replica.TOP / "train")  # which is not rain

    whys = broken(rename).left_out.values()
    assert "in the folder 'train', which is not one of the shifts" in whys


def test_a_second_copy_is_refused(broken):
    album = broken(lambda root: shutil.copytree(root / replica.TOP, root / "copy"))
    with pytest.raises(InputError, match="one picture at two places"):
        album.items()


def test_a_list_that_gives_another_class_is_named(broken):
    def change(root: Path) -> None:
        file = root / replica.TOP / "annotations_cns.json"
        stored = json.loads(file.read_text())
        stored["images"][0]["class"] = 23
        file.write_text(json.dumps(stored))

    assert "annotations_cns.json gives it the class 23" in broken(change).left_out.values()


def test_the_zip_gives_the_same_dataset(raw, folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "cns_bench.zip", "w") as archive:
        for file in sorted(raw.rglob("*"), reverse=True):
            archive.write(file, file.relative_to(raw))
    again = build(f"cns_bench={tmp_path / 'cns_bench.zip'}", tmp_path, workers=1, quiet=True)
    bases = [[base.content_id for base in sd.info(one).bases] for one in (folder, again)]
    assert bases[0] == bases[1]


def test_no_check_finds_a_problem(folder):
    assert not list(verify(folder))


def test_a_smaller_base_takes_whole_trajectories(raw):
    items = album_of(raw).items()
    fold_of = assign.folds(items)
    picked = assign.pick(items, fold_of, Base(name="mini", summary="", per_group=2, listed=True))
    scales = [item.severity for item in picked if item.nuisance == "heavy_snow"]
    assert 0 < len(picked) < len(items)
    assert len({scales.count(scale) for scale in set(scales)}) == 1


def test_a_trajectory_with_a_picture_that_cannot_be_read_is_left_out(raw, tmp_path):
    shutil.copytree(raw, tmp_path / "raw")
    (tmp_path / "raw" / EAGLE / "seed_0002_scale_1000.jpg").write_bytes(b"no picture")
    built = build(f"cns_bench={tmp_path / 'raw'}", tmp_path, workers=1, quiet=True)
    metadata = sd.read_metadata(built)
    keys = metadata.table["key"].to_pylist()
    assert not [key for key in keys if "seed_0002" in key and "022_" in key and "painting" in key]
    assert not list(verify(built))


def test_the_paper_tests_every_row(folder):
    task = sd.task(folder, "continuous@paper")
    assert {name: rows.roles for name, rows in task.sets.items()} == {"test": ("test",)}
    assert len(task.rows("test")) == len(sd.read_metadata(folder)) == 264


def test_each_shift_at_each_scale_is_a_set(folder):
    cells = sd.task(folder, "continuous_paper_cells")
    assert len(cells.sets) == len(replica.SHIFTS) * len(replica.SCALES)
    assert len(cells.sets["test/heavy_snow@1.5"]) == 14


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
        result = task.evaluate(scores, outputs=sd.imagenet_outputs(task))
        figures = [result[f"accuracy@{scale / 1000:g}"] for scale in replica.SCALES]
        assert figures == [1, 1, 1, 0, 0, 0]
        assert result["mean_drop"] == 0.5
        assert result["mean_failure_point"] == 1.5
        assert "132 predictions are outputs without a label: they count as wrong" in result.notes

    def test_the_numbers_of_outputs_say_the_same(self, task, scores):
        outputs = sd.imagenet_outputs(task)
        keyed = dict(zip(task.keys("test"), scores.argmax(axis=1).tolist(), strict=True))
        whole = task.evaluate(scores, outputs=outputs)
        assert task.evaluate(keyed, outputs=outputs).to_dict() == whole.to_dict()

    def test_a_mask_leaves_the_classes_of_the_task(self, task, scores):
        outputs = sd.imagenet_outputs(task)
        mask = outputs >= 0
        assert np.flatnonzero(mask).tolist() == list(replica.CLASSES)
        assert task.evaluate(scores[:, mask], outputs=outputs[mask]).overall == 1

    def test_the_command_line_knows_both(self, folder, task, scores, tmp_path, capsys):
        np.save(file := tmp_path / "scores.npy", scores)
        overall = {}
        for outputs in ("imagenet", "imagenet-masked"):
            words = [str(folder), "continuous@paper", str(file), "--outputs", outputs, "--format", "json"]
            assert main(["evaluate", *words]) == 0
            overall[outputs] = json.loads(capsys.readouterr().out)
        all_compete = task.evaluate(scores, outputs=sd.imagenet_outputs(task))
        assert overall["imagenet"] == json.loads(json.dumps(all_compete.to_dict()))
        assert overall["imagenet"] != overall["imagenet-masked"]
        mask = sd.imagenet_outputs(task) >= 0
        masked = task.evaluate(scores[:, mask], outputs=sd.imagenet_outputs(task)[mask])
        assert overall["imagenet-masked"] == json.loads(json.dumps(masked.to_dict()))
        np.save(file, scores.argmax(axis=1))
        assert main(["evaluate", *words]) == 1
        assert "chooses among logits" in capsys.readouterr().err

    def test_the_example_of_the_page_runs(self, folder, task, scores, capsys):
        page = (ROOT / "docs/raw/cns_bench.md").read_text(encoding="utf-8")
        (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        given = iter(torch.from_numpy(scores).split(64))
        names: dict[str, Any] = {"model": lambda x: next(given)}
        exec(code.replace('"cns_bench"', repr(str(folder))), names)
        assert names["result"]["accuracy@2.5"] == 0
        assert names["masked"]["accuracy@2.5"] == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda outputs: outputs[:999], "1000 columns of logits, and outputs= names 999"),
            (lambda outputs: outputs + 3, "outputs"),
        ],
    )
    def test_outputs_that_do_not_fit_are_refused(self, task, scores, change, message):
        with pytest.raises(InputError, match=message):
            task.evaluate(scores, outputs=change(sd.imagenet_outputs(task)))

    def test_labels_without_numbers_are_refused(self, tiny):
        with pytest.raises(InputError, match="does not begin with the number of an ImageNet class"):
            sd.imagenet_outputs(sd.task(sd.read_metadata(tiny)))
