"""Names for readers of plain files: filters, groups, columns of names, `names.json`, one script for all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter

import datasets
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import Roles, data_schema
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.verify import verify
from tests.contracts.kinds import prepare
from tests.data.test_verification import retold, with_column
from tests.paths import ROOT
from tests.serve.serving import Process
from tests.shared import dataset_of
from tests.tiny import edit_file

RED = [("style", "==", "red"), ("label", "in", ["bar", "ring"])]


def keys(rows) -> set[str]:
    return {row["key"] for row in rows}


@pytest.mark.parametrize("streaming", [False, True])
def test_filters_by_name_keep_the_rows_that_pandas_keeps(tiny, streaming):
    frame = pd.concat(pd.read_parquet(path) for path in (tiny / "metadata/mini").glob("*.parquet"))
    named = frame["style_name"].eq("red") & frame["label_name"].isin(["bar", "ring"])
    cases = {
        "named": (RED, named),
        "numbers": ([("style", "==", 3), ("label", "in", [0, 2])], named),
        "groups": ([("group", "in", ["bar / red", "ring / red"])], named),
        "or": ([[("style", "=", "red")], [("label", "not in", ["bar", "disc"])]],
               frame["style_name"].eq("red") | frame["label_name"].isin(["ring", "wedge"])),
    }  # fmt: skip
    for filters, mask in [*cases.values()][3 * streaming :]:
        expected = frame[mask & frame["split"].eq("test")]
        rows = sd.load_dataset(
            tiny, "mini", split="test", filters=filters, columns=["key"], streaming=streaming
        )
        assert list(rows.features) == ["key"]
        assert keys(rows) == set(expected["key"])


def test_filters_cut_a_canonical_split_whatever_it_is_made_of(tiny, tmp_path_factory):
    domain, table = (dataset_of(tmp_path_factory, kind) for kind in ("domain", "table"))
    for folder, name, of, condition in (
        (tiny, "gf_k2_mu10", "train", ("style", "==", "cyan")),  # filters
        (domain, "lodo_sand", "train", ("domain", "!=", "night")),  # files
        (domain, "domainbed_night", "test", ("label", "==", "ring")),  # filters that are not configs
        (domain, "uda_night_paper_s1", "target_test", ("label", "==", "ring")),  # keys
        (table, "ls_alpha1_north_south_replacement", "target_train", ("smoker", "==", "quit")),  # drawn twice
    ):
        whole = sd.load_dataset(folder, name, split=of)
        names = whole.features[condition[0]].names
        wanted = {names.index(condition[2])} if condition[1] == "==" else {0, 1, 2} - {names.index("night")}
        expected = Counter(row["key"] for row in whole if row[condition[0]] in wanted)
        assert 0 < expected.total() < len(whole)
        assert Counter(sd.load_dataset(folder, name, split=of, filters=[condition])["key"]) == expected


def test_wrong_names_are_answered_with_near_ones(tiny):
    for filters, message in (
        ([("style", "==", "rad")], "unknown style 'rad'; did you mean 'red'"),
        ([("group", "==", "bar / rad")], "unknown group 'bar / rad'; did you mean 'bar / red'"),
        ([("stile", "==", "red")], "unknown column 'stile'; did you mean 'style'"),
    ):
        with pytest.raises(NotFoundError, match=message):
            sd.load_dataset(tiny, "mini", split="train", filters=filters)
    with pytest.raises(InputError, match="the filters leave no row in a split"):
        sd.load_dataset(tiny, "mini", filters=[("split", "==", "test")])


def test_every_reader_shows_names(tiny):
    manifest, file = Manifest.read(tiny), str(tiny / "metadata/mini/train.parquet")
    names = json.loads((tiny / "names.json").read_text(encoding="utf-8"))
    assert (names["label"], names["style"]) == (list(manifest.labels), list(manifest.nuisances))
    plain = datasets.load_dataset(str(tiny), "metadata", split="train")
    for config in ("mini", "gf_k2_mu10"):
        features = datasets.load_dataset(str(tiny), config, split="train", streaming=True).features
        assert features["group"].names == names["group"]
    shown = [(row["label_name"], row["style_name"]) for row in plain]
    assert shown == [tuple(names["group"][row["group"]].split(" / ")) for row in plain]
    frame, polar = pd.read_parquet(file), pl.read_parquet(file)
    assert frame["style_name"].dtype == "category"
    assert polar["style_name"].dtype == pl.Categorical
    assert list(zip(frame["label_name"], frame["style_name"], strict=True)) == shown
    assert list(zip(polar["label_name"], polar["style_name"], strict=True)) == shown
    assert duckdb.sql(f"select label_name, style_name from '{file}'").fetchall() == shown
    content = pd.read_parquet(tiny / "metadata/content/train.parquet")
    assert content["style_name"].isna().all()
    assert content["label_name"].notna().all()


def test_verify_knows_the_names(copy):
    retold(copy, "metadata/mini/train.parquet", with_column("style_name", lambda names: ["red", *names[1:]]))
    edit_file(copy, "names.json", lambda text: text.replace(b"red", b"rot"))
    problems = "\n".join(map(str, verify(copy)))
    assert re.search(r"train.parquet: row '\S+' has the style_name 'red': it must be the name of", problems)
    assert "names.json: does not describe the manifest" in problems


def test_too_many_groups_have_no_names_in_the_files():
    labels, styles = [f"label {n}" for n in range(143)], [f"style {n}" for n in range(7)]
    for count, kind in ((142, "ClassLabel"), (143, "Value")):  # 994 and 1,001 groups
        schema = data_schema(Roles(nuisance="style"), labels[:count], styles)
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        assert features["group"]["_type"] == kind
    sink = pa.BufferOutputStream()
    pq.write_table(data_schema(Roles(nuisance="style"), labels[:142], styles).empty_table(), sink)
    assert sink.tell() < 80_000


@pytest.mark.parametrize(
    ("limit", "most", "configs"),
    [("make.canonical.MOST_FILES", 6, []), ("front_matter.MOST_BYTES", 2_400, ["lodo_sand"])],
)
def test_a_split_of_too_many_files_stays_a_key_file(tmp_path, monkeypatch, limit, most, configs):
    monkeypatch.setattr(("builders." if "make" in limit else "shiftdata.data.format.") + limit, most)
    (tmp_path / "recipe").mkdir()
    folder = build(str(prepare("domain", tmp_path / "recipe")), tmp_path, workers=1, quiet=True)
    splits = Manifest.read(folder).canonical_splits
    assert [split.name for split in splits if split.is_config] == configs
    assert verify(folder) == []
    sets = splits[1].sets.items()
    loaded = sd.load_dataset(folder, splits[1].name)
    assert {name: len(rows) for name, rows in loaded.items()} == {name: of.size.rows for name, of in sets}


@pytest.mark.slow
def test_the_script_of_the_docs_runs_in_a_checkout_and_from_a_server(demo, tmp_path):
    page = (ROOT / "docs/researcher.md").read_text(encoding="utf-8")
    (script,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "worst_group" in block
    )
    (tmp_path / "checkout").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkout/build").symlink_to(demo / "out")
    env = {
        name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "SHIFTDATA_HOME")
    }
    answers, server = [], Process(demo / "out")
    try:
        for place, endpoint in (("checkout", "http://127.0.0.1:9"), ("elsewhere", server.endpoint)):
            own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf" / place), "PYTHONPATH": str(ROOT)}
            answers.append(
                subprocess.check_output(
                    [sys.executable, "-c", script], cwd=tmp_path / place, env=env | own, text=True
                )
            )
    finally:
        server.kill()
    assert answers[0] == answers[1]
    assert re.match(r"\w / \w+ 0\.\d+", answers[0])
