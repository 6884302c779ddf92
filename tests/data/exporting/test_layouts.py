"""What each layout's folder says, as readers that know nothing of ours see it."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.make.build import build
from shiftdata.cli.export import command
from shiftdata.data.exporting.folders import LAYOUTS, read_back
from shiftdata.data.exporting.webdataset import export as export_tars
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.making import choose
from tests.contracts.kinds import prepare
from tests.properties import share

#: What is known of an example, by its set: key, label, nuisance, hash of its picture.
Rows = dict[str, Counter[tuple[str, ...]]]


def rows_of(task: sd.Task, *, label: bool = True, nuisance: bool = True) -> Rows:
    """What the dataset itself says of each set, its hashes from the metadata files."""
    metadata = task.metadata
    files = sorted(metadata.dataset.folder.glob(f"metadata/{metadata.base}/*.parquet"))
    known = [row for path in files for row in pq.read_table(path, columns=["key", "sha256"]).to_pylist()]
    hashes = {row["key"]: row["sha256"].hex() for row in known}
    found: Rows = {}
    for name in task.sets:
        found[name] = Counter()
        of_set = task.sets[name]  # with the labels of unlabelled sets too: folders have them
        table = metadata.table.take(of_set.indices)
        counts = np.ones(len(table), int) if of_set.counts is None else of_set.counts
        for row, count in zip(table.to_pylist(), counts.tolist(), strict=True):
            parts = [row["key"]]
            parts += [metadata.labels[row["label"]]] if label else []
            parts += [metadata.nuisances[row[metadata.nuisance_column]]] if nuisance else []
            found[name][*parts, hashes[row["key"]]] += count
    return found


def key_and_hash(path: Path) -> tuple[str, str]:
    return path.name.partition(".")[0], hashlib.sha256(path.read_bytes()).hexdigest()


def by_datasets(loaded: datasets.DatasetDict) -> Rows:
    found: Rows = {}
    for name, rows in loaded.items():
        names = rows.features["label"].names
        found[name] = Counter()
        for row in rows.cast_column("image", datasets.Image(decode=False)):
            key, sha256 = key_and_hash(Path(row["image"]["path"]))
            found[name][key, names[row["label"]], sha256] += 1
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["canonical", "fair", "drawn"])
def test_the_round_trip(layout, of, request, tmp_path):
    task = request.getfixturevalue(of)
    made = sd.export(task, layout, tmp_path / "out")
    counts = {name: task.table(name).to_pydict().get("count") for name in task.sets}
    assert read_back(tmp_path / "out") == {
        name: [
            key
            for key, count in zip(task.keys(name), counts[name] or [1] * len(task.keys(name)), strict=True)
            for _ in range(count)
        ]
        for name in task.sets
    }
    assert made.record.task_id == task.content_id()
    keys = pd.read_csv(tmp_path / "out/keys.csv")
    assert list(keys.columns) == [
        *("key", "set", "path", "label", "nuisance", "group", "severity", "origin"),
        *("license", "attribution", "count", "sha256"),
    ]
    expected = rows_of(task)
    for name, rows in keys.groupby("set"):
        seen = Counter()
        for row in rows.itertuples():
            key, sha256 = key_and_hash(tmp_path / "out" / row.path)
            assert (key, sha256) == (row.key, row.sha256)
            seen[key, row.label, row.nuisance, sha256] += row.count
        assert seen == expected[name]
    assert keys["group"].tolist() == [
        int(task.metadata.group[row]) for name in task.sets for row in task.sets[name].indices
    ]
    assert set(keys["license"]) == {"CC0-1.0"}


@share(0.3)
@given(data=st.data(), layout=st.sampled_from(list(LAYOUTS)))
def test_the_round_trip_of_any_rows_drawn_any_number_of_times(tiny, data, layout):
    task = sd.task(tiny, "group-fairness", k=2, mu=0.2)
    least = 1 if layout == "domainbed" else 0  # which needs each class in each domain
    for name in task.sets:
        rows = task.sets[name].indices
        times = data.draw(st.lists(st.integers(least, 3), min_size=len(rows), max_size=len(rows)))
        counts = np.array([max(1, times[0]), *times[1:]])
        task = choose(task, name, rows[counts > 0], "drawn", counts=counts[counts > 0])
    with tempfile.TemporaryDirectory() as folder:
        sd.export(task, layout, f"{folder}/out")
        assert read_back(f"{folder}/out") == {
            name: np.repeat(task.keys(name), rows.counts).tolist() for name, rows in task.sets.items()
        }


def test_imagefolder_as_datasets_reads_it(fair, tmp_path):
    made = sd.export(fair, "imagefolder", tmp_path / "out")
    expected = rows_of(fair, nuisance=False)
    assert by_datasets(datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "out"))) == expected
    loaded = datasets.load_dataset(str(tmp_path / "out"))
    assert by_datasets(loaded) == expected
    names = [one["folder"] for one in made.record.class_to_label]
    assert loaded["train"].features["label"].names == names == sorted(names)
    labels = [fair.metadata.labels[one["label"]] for one in made.record.class_to_label]
    assert labels == [one["name"] for one in made.record.class_to_label]


def test_sets_and_classes_that_are_named_like_splits_stay_what_they_are(odd, tmp_path):
    task = sd.task(odd, "uda", source="test", target="z one")
    made = sd.export(task, "imagefolder", tmp_path / "out")
    folders = {one["name"]: one["folder"] for one in made.record.class_to_label}
    assert sorted(folders) == sorted(["train", "a/b", "Train", "..hot dog"])
    assert folders["train"] == "train"
    assert len({name.lower() for name in folders.values()}) == 4
    found = by_datasets(datasets.load_dataset(str(tmp_path / "out")))
    expected = rows_of(task, nuisance=False)
    assert found == {
        name: Counter({(key, folders[label], sha256): count for (key, label, sha256), count in rows.items()})
        for name, rows in expected.items()
    }
    assert set(found) == set(task.sets)
    assert made.record.sets["target_train"]["roles"] == ["unlabelled"]
    assert any("target_train is unlabelled" in note for note in made.record.notes)
    read_back(tmp_path / "out")


@pytest.mark.parametrize("layout", ["wilds", "domainbed", "lists", "balancinggroups"])
def test_odd_names_come_back(odd, layout, tmp_path):
    task = sd.task(odd)
    sd.export(task, layout, tmp_path / "out")
    assert read_back(tmp_path / "out") == {name: task.keys(name) for name in task.sets}
    expected = rows_of(task)
    keys = pd.read_csv(tmp_path / "out/keys.csv")
    seen = Counter(zip(keys["key"], keys["label"], keys["nuisance"], keys["sha256"], strict=True))
    assert seen == sum(expected.values(), Counter())


@pytest.mark.parametrize("of", ["fair", "drawn"])
def test_wilds_as_pandas_reads_it(of, request, tmp_path):
    task = request.getfixturevalue(of)
    sd.export(task, "wilds", tmp_path / "out")
    folder = tmp_path / "out/tiny_v1.0"
    assert (folder / "RELEASE_v1.0.txt").is_file()
    rows = pd.read_csv(folder / "metadata.csv")
    assert rows["split"].map({0: "train", 1: "validation", 2: "test"}).equals(rows["split_name"])
    names = pd.read_csv(folder / "names.csv").set_index(["column", "number"])["name"]
    assert [names["y", y] for y in rows["y"]] == rows["label_name"].tolist()
    assert [names["style", z] for z in rows["style"]] == rows["style_name"].tolist()
    assert set(rows["y"]) == set(rows["style"]) == {0, 1}
    assert rows["group"].equals(rows["y"] * 2 + rows["style"])
    found: Rows = {name: Counter() for name in task.sets}
    for row in rows.itertuples():
        key, sha256 = key_and_hash(folder / row.img_filename)
        found[row.split_name][key, row.label_name, row.style_name, sha256] += 1
    assert found == rows_of(task)


@pytest.mark.parametrize("of", ["fair", "drawn"])
def test_balancinggroups_as_pandas_reads_it(of, request, tmp_path):
    task = request.getfixturevalue(of)
    sd.export(task, "balancinggroups", tmp_path / "out")
    rows = pd.read_csv(tmp_path / "out/metadata_tiny.csv")
    assert list(rows.columns) == ["id", "filename", "split", "y", "a"]
    assert rows["id"].tolist() == list(range(len(rows)))
    names = pd.read_csv(tmp_path / "out/names.csv").set_index(["column", "number"])["name"]
    found: Rows = {name: Counter() for name in task.sets}
    for row in rows.itertuples():
        key, sha256 = key_and_hash(tmp_path / "out/images" / row.filename)
        found[names["split", row.split]][key, names["y", row.y], names["a", row.a], sha256] += 1
    assert found == rows_of(task)
    # Group ids as the paper's code counts them, over what a split has.
    train = rows[rows["split"] == 0]
    assert set(train["a"].nunique() * train["y"] + train["a"]) == {0, 1, 2, 3}


def test_domainbed_as_folders_and_lists(drawn, tmp_path):
    made = sd.export(drawn, "domainbed", tmp_path / "out")
    domains = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert domains == [one["folder"] for one in made.record.domain_to_nuisance] == sorted(domains)
    files = Counter()
    for domain in domains:
        classes = sorted(path.name for path in (tmp_path / "out" / domain).iterdir())
        assert classes == [one["folder"] for one in made.record.class_to_label]
        for path in (tmp_path / "out" / domain).glob("*/*"):
            key, sha256 = key_and_hash(path)
            files[key, path.parent.name, domain, sha256] += 1
    assert files == sum(rows_of(drawn).values(), Counter())
    for name in drawn.sets:
        lines = (tmp_path / f"out/{name}.txt").read_text().splitlines()
        found = Counter()
        for line in lines:
            path, number = line.split()
            label = made.record.class_to_label[int(number)]["name"]
            found[key_and_hash(tmp_path / "out" / path)[0], label] += 1
        assert found == Counter((key, label) for key, label, *_ in rows_of(drawn)[name].elements()), name


def test_lists_of_sets_and_of_domains(drawn, tmp_path):
    sd.export(drawn, "lists", tmp_path / "out")
    labels = (tmp_path / "out/classes.txt").read_text().splitlines()
    domains = (tmp_path / "out/domains.txt").read_text().splitlines()
    expected = rows_of(drawn)

    def pictures(path: str) -> Counter[tuple[str, ...]]:
        found = Counter()
        for line in (tmp_path / "out" / path).read_text().splitlines():
            image, number = line.split()
            key, sha256 = key_and_hash(tmp_path / "out" / image)
            found[key, labels[int(number)], sha256] += 1
        return found

    for name, phase in (("train", "train"), ("validation", "val"), ("test", "test")):
        rows = expected[name]
        assert pictures(f"{name}.txt") == Counter((key, label, h) for key, label, _, h in rows.elements())
        for domain in domains:
            mine = Counter((key, label, h) for key, label, z, h in rows.elements() if z == domain)
            assert pictures(f"lists/{domain}_{phase}.txt") == mine


def test_sets_can_be_chosen_and_named(adapted, tmp_path):
    with pytest.raises(InputError, match=r"has source_train, .*source_test: say .*--sets train="):
        sd.export(adapted, "balancinggroups", tmp_path / "out")
    chosen = {"train": "source_train", "test": "target_test"}
    made = sd.export(adapted, "balancinggroups", tmp_path / "out", sets=chosen)
    assert read_back(tmp_path / "out") == {
        "train": adapted.keys("source_train"),
        "test": adapted.keys("target_test"),
    }
    assert ["1 of 2 values of a" in note for note in made.record.notes] == [True, True]
    with pytest.raises(InputError, match=r"unknown set 'sorce_train'; did you mean 'source_train'"):
        sd.export(adapted, "lists", tmp_path / "lists", sets={"train": "sorce_train"})


def test_where_classes_are_missing_readers_of_folders_are_warned_or_refused(fair, tmp_path):
    test = fair.metadata.label[fair.sets["test"].indices]
    kept = fair.sets["test"].indices[test == test[0]]
    narrow = choose(fair, "test", kept, "one label")
    made = sd.export(narrow, "imagefolder", tmp_path / "folders")
    assert [note.startswith("test has 1 of 2 classes") for note in made.record.notes] == [True]
    group = fair.metadata.group
    gone = {name: rows.indices[group[rows.indices] != group[kept[0]]] for name, rows in fair.sets.items()}
    holed = fair
    for name, indices in gone.items():
        holed = choose(holed, name, indices, "a group is missing")
    cell = fair.metadata.group_name(int(group[kept[0]])).split(" / ")
    with pytest.raises(InputError, match=f"no row in 1 cells of domain and class .{cell[1]}/{cell[0]}."):
        sd.export(holed, "domainbed", tmp_path / "domains")
    assert not (tmp_path / "domains").exists()
    sd.export(holed, "lists", tmp_path / "lists")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_untouched_content_goes_where_no_domain_is_needed(tiny, layout, tmp_path):
    task = sd.task(tiny, base="content")
    if layout in ("imagefolder", "lists"):
        sd.export(task, layout, tmp_path / "out")
        assert read_back(tmp_path / "out") == {name: task.keys(name) for name in task.sets}
    else:
        with pytest.raises(InputError, match=rf"have no style \(untouched content has none\), and {layout}"):
            sd.export(task, layout, tmp_path / "out")


def test_examples_other_than_pictures_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "recipe").mkdir()
    table = build(str(prepare("table", tmp_path / "recipe")), tmp_path, workers=1, quiet=True)
    task = sd.task(table)
    with pytest.raises(
        InputError, match=r"are rows of a table, .* is for pictures: export it with `--to webd"
    ):
        sd.export(task, "wilds", tmp_path / "out")
    of_tars = replace(task.metadata, dataset=sd.open_dataset(export_tars(table, tmp_path / "tars")))
    with pytest.raises(InputError, match="is in WebDataset format: export the Parquet dataset"):
        sd.export(replace(task, metadata=of_tars), "wilds", tmp_path / "out")


def test_your_own_table_has_no_pictures(fair, tmp_path):
    own = sd.metadata_from_table(
        fair.metadata.table.select(["key", "label", "style"]), nuisance="style", name="own"
    )
    with pytest.raises(InputError, match="own is a table of your own, without pictures to export"):
        sd.export(sd.task(own), "lists", tmp_path / "out")


def test_an_unknown_layout_is_answered_with_the_nearest(fair, tmp_path):
    with pytest.raises(InputError, match=r"unknown layout 'imagefolders'; did you mean 'imagefolder'"):
        sd.export(fair, "imagefolders", tmp_path / "out")
    assert all(f"\n      {name} " in command.epilog for name in ["webdataset", *LAYOUTS])


def test_attribution_counts_the_exported_rows(fair, tmp_path):
    sd.export(fair, "lists", tmp_path / "all")
    rows = sum(len(one.indices) for one in fair.sets.values())
    text = (tmp_path / "all/ATTRIBUTION.md").read_text()
    assert "## CC0-1.0\n" in text
    assert f"| made here | {rows:,} |" in text
