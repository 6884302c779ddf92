"""The splits and figures of WILDS and VisDA: those of the package `wilds`, where it is, and of its rules.

Whoever has it compares with `pip install wilds` (2.0.0 at the time of writing) and runs these tests again.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

import shiftdata as sd
from builders.make.build import build
from shiftdata.data.fetching.run import fetch
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import LeakWarning
from tests.builders.replicas import domain_trees, tables, wilds
from tests.evaluation.protocols.made import NICO, metadata

MAKE = {"camelyon17": wilds.camelyon17, "fmow": wilds.fmow, "civilcomments": wilds.civilcomments}
FOLDERS = {"camelyon17": wilds.CAMELYON, "fmow": wilds.FMOW, "civilcomments": wilds.CIVIL}
TABLES = {
    "camelyon17": "metadata.csv",
    "fmow": "rgb_metadata.csv",
    "civilcomments": "all_data_with_identities.csv",
}
needs_wilds = pytest.mark.skipif(not importlib.util.find_spec("wilds"), reason="the package wilds")
pytestmark = pytest.mark.filterwarnings("ignore::shiftdata.evaluation.tasks.LeakWarning")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Callable[[str], SimpleNamespace]:
    ready: dict[str, SimpleNamespace] = {}

    def of(name: str) -> SimpleNamespace:
        if name not in ready:
            folder = tmp_path_factory.mktemp(name)
            ({**MAKE, "visda": domain_trees.visda, "adult": tables.adult}[name])(folder / "raw")
            place = build(f"{name}={folder / 'raw'}", folder, workers=1, quiet=True)
            ready[name] = SimpleNamespace(raw=folder / "raw", place=place, folder=folder)
        return ready[name]

    return of


def table_of(raw: Path, name: str) -> list[dict[str, str]]:
    with (raw / FOLDERS[name] / TABLES[name]).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(place: Path) -> dict[str, int]:
    """The row of the authors' table that each key was made from."""
    rows = {}
    for row in pq.read_table(place / "metadata/all", columns=["key", "params"]).to_pylist():
        params = json.loads(row["params"])
        number = params.get("row", params.get("lists", {}).get("files"))
        if params["file"].startswith(wilds.FMOW):
            number = params["file"].rpartition("_")[2].removesuffix(".png")
        rows[row["key"]] = int(number)
    return rows


def rule(name: str, row: Mapping[str, str]) -> str:
    """The set of a row by the rules in the code of WILDS."""
    if name == "civilcomments":
        return row["split"]
    if name == "camelyon17":
        return {"1": "val", "2": "test"}.get(row["center"]) or {"0": "train", "1": "id_val"}[row["split"]]
    # From years in UTC; a New Year's Eve in the west is of the next year.
    year = int(row["timestamp"][:4]) + row["timestamp"].endswith("12-31T22:30:00-05:00")
    if year < 2013:
        return {"train": "train", "val": "id_val", "test": "id_test"}[row["split"]]
    return {("val", True): "val", ("test", False): "test"}.get((row["split"], year < 2016), "")


@pytest.mark.parametrize(
    "name",
    ["civilcomments", *(pytest.param(name, marks=pytest.mark.slow) for name in ("camelyon17", "fmow"))],
)
def test_sets_are_those_of_wilds_in_shiftdata_and_in_plain_datasets(built, name):
    place, table = built(name).place, table_of(built(name).raw, name)
    number_of, wanted = rows_of(place), dict[str, set[int]]()
    for number in number_of.values():
        wanted.setdefault(rule(name, table[number]), set()).add(number)
    wanted.pop("", None)
    task = sd.task(place, "wilds")
    assert {of: {number_of[key] for key in task.keys(of)} for of in task.sets} == wanted
    assert {of: rows.role for of, rows in task.sets.items()} == {
        "train": "fit",
        "val": "select",
        "test": "test",
        **{of: "select" if of == "id_val" else "test" for of in wanted if of.startswith("id_")},
    }
    assert sd.task(place).content_id() == task.content_id()  # the default of the dataset
    cache = str(built(name).folder / "cache")
    for config in ("wilds", None):
        loaded = load_dataset(str(place), config, cache_dir=cache)
        assert {of: {number_of[key] for key in rows["key"]} for of, rows in loaded.items()} == wanted
    assert set(load_dataset(str(place), "wilds", split="val", cache_dir=cache)["key"]) == set(
        task.keys("val")
    )
    assert set(sd.load_dataset(place, split="test")["key"]) == set(task.keys("test"))
    assert 'load_dataset("shift/' + name + '", "wilds", split="train"' in (place / "README.md").read_text()
    # The other cut has a name of its own, and its sets have the authors' in any mixture.
    mixed = load_dataset(str(place), "all", cache_dir=cache)
    assert list(mixed) == ["train", "validation", "test"]
    assert sum(map(len, mixed.values())) == len(number_of)
    assert sd.verify(place) == []


def test_the_domains_of_visda_are_its_splits(built):
    place = built("visda").place
    task, loaded = sd.task(place, "official"), load_dataset(str(place), cache_dir=str(built("visda").folder))
    assert list(task.sets) == list(loaded) == ["train", "validation", "test"]
    for name, rows in loaded.items():
        assert set(rows["key"]) == set(task.keys(name))
        assert {rows.features["domain"].int2str(number) for number in rows["domain"]} == {name}
    assert task.filters()["test"] == [[("domain", "in", [2])]]


def test_the_two_files_of_adult_are_its_splits(built):
    place = built("adult").place
    loaded = load_dataset(str(place), cache_dir=str(built("adult").folder))
    files = {name: {json.loads(text)["file"] for text in rows["params"]} for name, rows in loaded.items()}
    assert files == {"train": {"adult.data"}, "test": {"adult.test"}}
    assert {name: len(rows) for name, rows in loaded.items()} == {"train": 120, "test": 120}
    assert [rows.role for rows in sd.task(place).sets.values()] == ["fit", "test"]


def test_a_part_of_the_authors_split_and_a_whole_copy(built, tmp_path):
    place = built("camelyon17").place
    part = fetch(place, split=["train", "val"], out=tmp_path / "part")
    assert sd.verify(part) == []
    assert {name: len(rows) for name, rows in sd.load_dataset(part, "wilds").items()} == {
        name: len(sd.task(place, "wilds").sets[name]) for name in ("train", "val")
    }
    cache = str(tmp_path / "cache")
    for name, rows in load_dataset(str(part), cache_dir=cache).items():  # the default of a part too
        assert set(rows["key"]) == set(sd.task(place, "wilds").keys(name))
    whole = fetch(place, config="all", out=tmp_path / "whole")
    assert sd.verify(whole) == []
    assert list(sd.load_dataset(whole)) == ["train", "val", "test", "id_val"]


@pytest.mark.filterwarnings("default")
def test_what_the_official_splits_leak_is_said(built):
    with pytest.warns(LeakWarning, match=r"11 origins are on two sides .* in train and id_val"):
        sd.task(built("camelyon17").place)


def test_rows_without_lists_and_other_datasets_are_refused(built):
    with pytest.raises(InputError, match="does not name the file"):
        sd.task(metadata(6, NICO, 20), "official")
    with pytest.raises(InputError, match="no row of visda/all is in val: wilds needs all its files"):
        sd.task(built("visda").place, "wilds")


def wrong_now_and_then(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (rows * 2654435761 % 97) < 37


def predictions_of(built: Any, name: str, set_name: str) -> tuple[Any, dict[int, int]]:
    """The evaluation of predictions of which some are wrong, and these by row of the authors' table."""
    task, number_of = sd.task(built(name).place, "wilds"), rows_of(built(name).place)
    rows, labels = np.array([number_of[key] for key in task.keys(set_name)]), task.table(set_name)["label"]
    every = np.array([task.metadata.labels.index(label) for label in task.labels])
    place = np.searchsorted(every, labels.to_numpy()) + wrong_now_and_then(rows)
    predicted = every[place % len(every)]
    return task.evaluate(predicted, set_name), dict(zip(rows.tolist(), predicted.tolist(), strict=True))


def test_the_official_figures(built):
    result, predicted = predictions_of(built, "civilcomments", "test")
    table, worst = table_of(built("civilcomments").raw, "civilcomments"), {}
    for number, label in predicted.items():
        toxic = float(table[number]["toxicity"]) >= 0.5
        for identity in wilds.IDENTITIES:
            if float(table[number][identity] or 0) >= 0.5:
                worst.setdefault((identity, toxic), []).append(label == toxic)
    assert result["worst_identity"] == pytest.approx(min(map(np.mean, worst.values())))
    assert "worst_region" not in result.figures
    result, predicted = predictions_of(built, "fmow", "test")
    table, regions = table_of(built("fmow").raw, "fmow"), {}
    for number in predicted:  # whatever the label: the prediction is wrong where the rule above says so
        region = {"USA": "Americas", "FRA": "Europe"}.get(table[number]["country_code"])
        regions.setdefault(region, []).append(not wrong_now_and_then(np.array(number)))
    assert result["worst_region"] == pytest.approx(min(np.mean(regions[of]) for of in ("Americas", "Europe")))
    assert list(predictions_of(built, "camelyon17", "test")[0].figures) == ["overall"]


@needs_wilds
@pytest.mark.parametrize("name", MAKE)
def test_the_package_has_the_same_sets_and_figures(built, name, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    from wilds import get_dataset

    def scatter(src: Any, index: Any, dim_size: int, reduce: str) -> Any:
        assert reduce == "mean"
        return torch.zeros(dim_size).scatter_reduce(0, index, src, "mean", include_self=False)

    # The only use that the package makes of it, and its wheels are hard to come by.
    monkeypatch.setitem(sys.modules, "torch_scatter", SimpleNamespace(scatter=scatter))
    shutil.copytree(built(name).raw, tmp_path, dirs_exist_ok=True)
    if name == "fmow":  # the package reads neither times of several zones or after 2017, nor faulty rows
        file = tmp_path / FOLDERS[name] / TABLES[name]
        text = (
            file.read_text()
            .replace("2012-12-31T22:30:00-05:00", "2013-01-01T03:30:00Z")
            .replace("2018-", "2017-")
        )
        text = text.replace("harbor", "zoo").replace("soon", "2009-01-01T00:00:00Z")
        lines = text.splitlines()
        lines[-4:-2] = [line.replace("train", "seq") for line in lines[-4:-2]]
        file.write_text("\n".join(lines) + "\n")
    package = get_dataset(dataset=name, root_dir=str(tmp_path), download=False)
    numbers = package.full_idxs if name == "fmow" else np.arange(len(package))
    task, number_of = sd.task(built(name).place, "wilds"), rows_of(built(name).place)
    assert set(task.sets) == set(package.split_dict)
    for of in task.sets:
        subset, mine = package.get_subset(of), {number_of[key] for key in task.keys(of)}
        theirs = [number for number in numbers[subset.indices].tolist() if number in number_of.values()]
        assert mine == set(theirs), of
    evaluation, predicted = predictions_of(built, name, "test")
    subset = package.get_subset("test")
    places = [at for at, row in enumerate(numbers[subset.indices].tolist()) if row in predicted]
    labels = [predicted[int(numbers[subset.indices][at])] for at in places]
    if name == "fmow":
        labels = [package.category_to_idx[task.metadata.labels[label]] for label in labels]
    guessed = torch.tensor(labels)
    results, _ = package.eval(guessed, subset.y_array[places], subset.metadata_array[places])
    assert evaluation.accuracy == pytest.approx(results["acc_avg"])
    for figure, field in (("worst_identity", "acc_wg"), ("worst_region", "acc_worst_region")):
        if figure in evaluation.figures:
            assert evaluation[figure] == pytest.approx(results[field])
