"""What holds for every dataset that we publish, whatever its kind. Each test runs on each kind.

With `--recipe my_recipe.py` it runs on that recipe instead.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import datasets
import duckdb
import mlcroissant as mlc
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from datasets.utils.metadata import DatasetInfosDict, MetadataConfigs
from huggingface_hub import DatasetCard

from builders.describe.renderings import card_of_recipe
from builders.make.build import build
from builders.make.check import check
from builders.shifts.steps import Domains
from shiftdata import verify
from shiftdata.data.format.schema import SPLITS
from tests.contracts.readers import READERS, pyarrow


def test_it_is_well(built):
    assert check(built.folder, built.recipe) == []
    assert verify(built.folder) == []


@pytest.mark.parametrize("reader", READERS)
def test_every_client_reads_the_same_rows(built, reader):
    for base in built.manifest.bases:
        expected = pyarrow(built.folder, built.manifest, base.name)
        assert len(expected) == sum(split.rows for split in base.splits.values())
        assert READERS[reader](built.folder, built.manifest, base.name) == expected


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets_reads_every_config_as_promised(built, streaming):
    manifest = built.manifest
    for name, config in manifest.configs.items():
        loaded = datasets.load_dataset(str(built.folder), name, streaming=streaming)
        assert list(loaded) == list(config.splits)
        for split, promised in config.splits.items():
            rows = loaded[split].select_columns(["key", "label", "group"])
            keys = [row["key"] for row in rows]
            assert len(keys) == len(set(keys)) == promised.rows
            assert loaded[split].features["label"].names == list(manifest.labels)
            assert loaded[split].features[manifest.roles.nuisance].names == list(manifest.nuisances)


def test_a_task_of_eval_yaml_loads_the_test_set_of_its_canonical_split(built):
    file, splits = (
        built.folder / "eval.yaml",
        {split.name: split for split in built.manifest.canonical_splits},
    )
    benchmark = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {"tasks": []}
    assert {task["id"] for task in benchmark["tasks"]} == {name for name in splits if splits[name].is_config}
    for task in benchmark["tasks"]:
        rows = datasets.load_dataset(str(built.folder), task["config"], split=task["split"], streaming=True)
        frozen = pq.read_table(built.folder / f"protocols/{task['id']}.parquet")
        keys = frozen.filter(pc.equal(frozen["split"], task["split"]))["key"].to_pylist()
        assert splits[task["id"]].sets[task["split"]].roles[0] == "test"
        assert sorted(row["key"] for row in rows.select_columns(["key"])) == sorted(keys)


def test_the_filters_of_a_canonical_split_give_its_frozen_keys_in_every_client(built):
    every = [(split, *of) for split in built.manifest.canonical_splits for of in split.sets.items()]
    for split, name, record in every:
        if record.filters is None:
            assert record.reason
            continue
        frozen = pq.read_table(built.folder / f"protocols/{split.name}.parquet")
        keys = set(frozen.filter(pc.equal(frozen["split"], name))["key"].to_pylist())
        files = f"{built.folder}/metadata/{split.base}/*.parquet"
        where = " or ".join(f"({' and '.join(map(sql, clause))})" for clause in record.filters)
        folder = built.folder / "metadata" / split.base
        assert set(pd.read_parquet(folder, filters=record.filters)["key"]) == keys
        assert set(pl.SQLContext(t=pl.scan_parquet(files)).execute(f"select key from t where {where}")
                   .collect()["key"]) == keys  # fmt: skip
        with duckdb.connect() as connection:
            rows = connection.execute(f"select key from '{files}' where {where}").fetchall()
        assert {key for (key,) in rows} == keys


def sql(condition: tuple[str, str, object]) -> str:
    column, operator, value = condition
    if isinstance(value, list):
        return f"{column} in ({', '.join(map(repr, value))})"
    return f"{column} {'=' if operator == '==' else operator} {value!r}"


def test_no_origin_is_in_two_splits_and_folds_are_those_of_every_base(built):
    seen: dict[str, tuple[str, int]] = {}
    for base in built.manifest.bases:
        for split in SPLITS:
            rows = pq.read_table(built.folder / f"metadata/{base.name}/{split}.parquet")
            for origin, fold in zip(rows["origin"].to_pylist(), rows["fold"].to_pylist(), strict=True):
                assert seen.setdefault(origin, (split, fold)) == (split, fold)


def test_the_card_is_accepted_and_small(built):
    text = (built.folder / "README.md").read_text(encoding="utf-8")
    card = DatasetCard(text)
    configs = MetadataConfigs.from_dataset_card_data(card.data)
    infos = DatasetInfosDict.from_dataset_card_data(card.data)
    assert list(configs) == list(built.manifest.configs)
    assert configs.get_default_config_name() == built.manifest.default_base
    assert sum("filters" in config for config in configs.values()) <= 24
    assert len(text.split("\n---\n")[0].encode()) <= 100_000
    for name, info in infos.items():
        promised = built.manifest.splits_of(name)
        assert {split: sizes.num_examples for split, sizes in info.splits.items()} == {
            split: record.rows for split, record in promised.items()
        }


def test_the_code_on_the_card_runs(built, monkeypatch):
    monkeypatch.chdir(built.out)
    blocks = re.findall(r"```python\n(.*?)```", (built.folder / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 4 + bool(built.manifest.canonical_splits)
    for block in blocks:
        exec(compile(block, "the card", "exec"), {})


def test_the_card_of_the_recipe_alone_has_the_same_words(built):
    drafted, whole = card_of_recipe(built.recipe), (built.folder / "README.md").read_text()
    headings, of_built = (re.findall(r"^#+ .*", text, re.MULTILINE) for text in (drafted, whole))
    assert headings == [
        heading for heading in of_built if heading != "## Shortcuts"
    ]  # only a build measures them
    assert MetadataConfigs.from_dataset_card_data(DatasetCard(drafted).data)


def test_croissant_says_what_the_examples_come_from_and_what_made_them(built):
    described = json.loads((built.folder / "croissant.json").read_text(encoding="utf-8"))
    metadata = mlc.Dataset(jsonld=described).metadata
    assert not metadata.ctx.issues.errors | metadata.ctx.issues.warnings
    fields, recipe = metadata.to_json(), built.recipe
    assert fields["rai:hasSyntheticData"] is not isinstance(recipe.shift, Domains)
    rows = pq.read_table(built.folder / "metadata" / built.manifest.default_base)
    credited = {entry["prov:label"] for entry in described["prov:wasDerivedFrom"]}
    assert set(rows["attribution"].to_pylist()) <= credited
    activities = described["prov:wasGeneratedBy"]
    parts = [recipe.album, *recipe.prepare, recipe.shift, recipe.encoding]
    assert [activity["description"].partition("(")[0] for activity in activities] == [
        type(part).__name__ for part in parts
    ]
    assert not any("/" in activity["description"] for activity in activities)  # a path is of one machine
    assert {"prov:wasDerivedFrom", "prov:wasGeneratedBy"} <= fields.keys()


def test_it_is_built_again_to_the_byte(built, tmp_path):
    again = build(str(built.recipe_file), tmp_path, workers=1, quiet=True)
    assert contents(again) == contents(built.folder)


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
