"""Each layout's folder, as readers that know nothing of this package see it."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.exporting.folders import LAYOUTS
from shiftdata.data.exporting.webdataset import export as export_tars
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.making import choose
from tests.data.exporting.readers import WITHOUT_NUISANCE, Rows, cells, key_and_hash, pairs, read, rows_of
from tests.properties import share
from tests.shared import dataset_of

#: A plain pipeline leaves tars open until it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["fair", "drawn", pytest.param("canonical", marks=pytest.mark.slow)])
def test_a_layout_has_the_rows_of_the_task(layout, of, request, tmp_path):
    task = request.getfixturevalue(of)
    record = sd.export(task, layout, tmp_path / "out").record
    assert read(layout, tmp_path / "out", record) == rows_of(task, nuisance=layout not in WITHOUT_NUISANCE)
    assert record["task_id"] == task.content_id()
    seen: Rows = {name: Counter() for name in task.sets}
    for row in cells(tmp_path / "out/keys.csv"):
        key, sha256 = key_and_hash(tmp_path / "out" / row["path"])
        assert (key, sha256, row["license"]) == (row["key"], row["sha256"], "CC0-1.0")
        assert int(row["group"]) in task.metadata.group
        seen[row["set"]][key, row["label"], row["nuisance"], sha256] += int(row["count"])
    assert seen == rows_of(task)


@share(0.3)
@given(data=st.data(), layout=st.sampled_from(list(LAYOUTS)))
def test_any_rows_drawn_any_number_of_times(tiny, data, layout):
    task = sd.task(tiny, "group-fairness", k=2, mu=0.2)
    least = 1 if layout == "domainbed" else 0  # which needs each class in each domain
    for name in task.sets:
        rows = task.sets[name].indices
        times = data.draw(st.lists(st.integers(least, 3), min_size=len(rows), max_size=len(rows)))
        counts = np.array([max(1, times[0]), *times[1:]])
        task = choose(task, name, rows[counts > 0], "drawn", counts=counts[counts > 0])
    with tempfile.TemporaryDirectory() as folder:
        made = sd.export(task, layout, f"{folder}/out")
        expected = rows_of(task, nuisance=layout not in WITHOUT_NUISANCE)
        assert read(layout, Path(folder, "out"), made.record) == expected


def test_sets_and_classes_that_are_named_like_splits_stay_what_they_are(odd, tmp_path):
    """The folder as `datasets` reads it, which guesses splits from names."""
    import datasets

    task = sd.task(odd, "uda", source="test", target="z one")
    record = sd.export(task, "imagefolder", tmp_path / "out").record
    names = {of["folder"]: of["name"] for of in record["class_to_label"]}
    assert set(names.values()) == {"train", "a/b", "Train", "..hot dog"}
    assert names["train"] == "train"
    assert len({name.lower() for name in names}) == 4
    loaded = datasets.load_dataset(str(tmp_path / "out"))
    seen: Rows = {}
    for name, rows in loaded.items():
        labels = rows.features["label"].names
        assert labels == sorted(names)
        seen[name] = Counter()
        for row in rows.cast_column("image", datasets.Image(decode=False)):
            key, sha256 = key_and_hash(Path(row["image"]["path"]))
            seen[name][key, names[labels[row["label"]]], "", sha256] += 1
    assert seen == rows_of(task, nuisance=False)
    assert record["sets"]["target_train"]["roles"] == ["unlabelled"]
    assert any("target_train is unlabelled" in note for note in record["notes"])


@pytest.mark.parametrize("layout", ["wilds", "domainbed", "lists", "clip-benchmark"])
def test_odd_names_come_back(odd, layout, tmp_path):
    task = sd.task(odd)
    record = sd.export(task, layout, tmp_path / "out").record
    expected = rows_of(task, nuisance=layout not in WITHOUT_NUISANCE)
    assert read(layout, tmp_path / "out", record) == expected


def test_tars_have_no_gap_in_their_numbers(fair, tmp_path):
    rows, counts = fair.sets["test"].indices[:5], np.array([100, 1, 1, 1, 1])
    task = choose(fair, "test", rows, "one row most of the time", counts=counts)
    record = sd.export(task, "clip-benchmark", tmp_path / "out").record
    assert read("clip-benchmark", tmp_path / "out", record) == rows_of(task, nuisance=False)


def test_lists_of_domains_name_the_set_as_their_readers_do(drawn, tmp_path):
    record = sd.export(drawn, "lists", tmp_path / "out").record
    domains = [domain["folder"] for domain in record["domain_to_nuisance"]]
    for name, phase in (("train", "train"), ("validation", "val"), ("test", "test")):
        paths = [tmp_path / f"out/lists/{domain}_{phase}.txt" for domain in domains]
        assert Counter(pair for path in paths for pair in pairs(path)) == Counter(
            pairs(tmp_path / f"out/{name}.txt")
        )


def test_where_classes_are_missing_readers_of_folders_are_warned_or_refused(fair, tmp_path):
    test = fair.metadata.label[fair.sets["test"].indices]
    rows = fair.sets["test"].indices[test == test[0]]
    record = sd.export(choose(fair, "test", rows, "one label"), "imagefolder", tmp_path / "folders").record
    assert [note.startswith("test has 1 of 2 classes") for note in record["notes"]] == [True]
    group, holed = fair.metadata.group, fair
    for name, of_set in fair.sets.items():
        holed = choose(holed, name, of_set.indices[group[of_set.indices] != group[rows[0]]], "a hole")
    cell = fair.metadata.group_name(int(group[rows[0]])).split(" / ")
    with pytest.raises(
        InputError, match=f"no row in 1 cells of domain and class .the first is {cell[1]}/{cell[0]}."
    ):
        sd.export(holed, "domainbed", tmp_path / "domains")
    assert not (tmp_path / "domains").exists()
    sd.export(holed, "lists", tmp_path / "lists")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_untouched_content_goes_where_no_domain_is_needed(tiny, layout, tmp_path):
    task = sd.task(tiny, base="content")
    if not LAYOUTS[layout].needs_domains:
        record = sd.export(task, layout, tmp_path / "out").record
        assert read(layout, tmp_path / "out", record) == rows_of(task)
    else:
        with pytest.raises(InputError, match=rf"have no style \(untouched content has none\), and {layout}"):
            sd.export(task, layout, tmp_path / "out")


def test_datasets_without_pictures_are_refused(tiny, fair, tmp_path):
    tars = sd.open_dataset(export_tars(tiny, tmp_path / "tars", configs=["mini"]))
    of_tars = replace(fair, metadata=replace(fair.metadata, dataset=tars))
    with pytest.raises(InputError, match="is in WebDataset format: export the Parquet dataset"):
        sd.export(of_tars, "wilds", tmp_path / "out")
    own = sd.metadata_from_table(
        fair.metadata.table.select(["key", "label", "style"]), nuisance="style", name="own"
    )
    with pytest.raises(InputError, match="own is a table of your own, without examples"):
        sd.export(sd.task(own), "lists", tmp_path / "out")
    with pytest.raises(InputError, match=r"unknown layout 'imagefolders'; did you mean 'imagefolder'"):
        sd.export(fair, "imagefolders", tmp_path / "out")


@pytest.mark.slow
def test_tables_are_refused_with_what_to_do(tmp_path, tmp_path_factory):
    table = dataset_of(tmp_path_factory, "table")
    with pytest.raises(InputError, match=r"has the modality table, .* is for pictures: export it with `--to"):
        sd.export(sd.task(table), "wilds", tmp_path / "out")
