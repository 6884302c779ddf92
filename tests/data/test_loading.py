"""Plain `datasets` reads what we publish, and our own functions find it wherever it is."""

from __future__ import annotations

import json

import datasets
import pytest

import shiftdata
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places.search import find
from shiftdata.errors import IntegrityError, NotFoundError

CONFIGS = [None, "content", "gf_k4_mu20_s1", "metadata"]  # `check`, of the contract, loads every one


@pytest.mark.parametrize("config", CONFIGS)
def test_plain_datasets_gives_the_promised_rows_streaming_and_not(in_tiny_out, config):
    promised = Manifest.read(in_tiny_out / "shift/tiny").splits_of(config or "mini")
    prepared = datasets.load_dataset("shift/tiny", config)
    streamed = datasets.load_dataset("shift/tiny", config, streaming=True)
    assert list(prepared) == ["train", "validation", "test"]
    for split, record in promised.items():
        assert len(prepared[split]) == record.rows
        assert [row["key"] for row in streamed[split]] == prepared[split]["key"][:]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("README.md", None),
        ("README.md", "gf_k2_mu10"),
        ("dataset_infos.json", None),
        (".huggingface.yaml", "metadata"),
    ],
)
def test_our_own_load_takes_no_config_from_a_file_that_the_manifest_does_not_list(copy, name, config):
    """A card with test rows in train; and files by which `datasets` overrides a card."""
    whole = {split: rows["key"][:] for split, rows in shiftdata.load_dataset(copy, config).items()}
    card = (copy / "README.md").read_text()
    false = (
        card.replace("/train-*", "/test-*")
        .replace('"train"]', '"test"]')
        .replace("/train.parq", "/test.parq")
    )
    infos = {"mini": {"splits": {"train": {"name": "train", "num_examples": 1}}, "config_name": "mini"}}
    texts = {
        "README.md": false,
        ".huggingface.yaml": false.split("---\n")[1],
        "dataset_infos.json": json.dumps(infos),
    }
    (copy / name).write_text(texts[name])
    for streaming in (False, True):
        loaded = shiftdata.load_dataset(copy, config, streaming=streaming)
        assert {split: [row["key"] for row in rows] for split, rows in loaded.items()} == whole
    assert [problem.path for problem in shiftdata.verify(copy)] == [name]


def test_sizes_on_the_card_are_those_that_datasets_counts(in_tiny_out):
    prepared = datasets.load_dataset("shift/tiny", "mini")
    for split, record in Manifest.read(in_tiny_out / "shift/tiny").base("mini").splits.items():
        counted = prepared[split].info.splits[split].num_bytes
        assert record.bytes == pytest.approx(counted, rel=0.01)


def test_mini_is_part_of_extended_with_the_same_bytes_and_folds(in_tiny_out):
    mini, extended = (
        datasets.load_dataset("shift/tiny", name, split="train") for name in ("mini", "extended")
    )
    rows = {row["key"]: row for row in extended.cast_column("image", datasets.Image(decode=False))}
    for row in mini.cast_column("image", datasets.Image(decode=False)):
        twin = rows[row["key"]]
        assert (row["image"]["bytes"], row["fold"]) == (twin["image"]["bytes"], twin["fold"])


@pytest.mark.parametrize("name", ["tiny", "shift/tiny", "{path}"])
def test_a_dataset_is_found_by_name_repo_id_or_path(tiny, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    assert shiftdata.info(name.format(path=tiny)).name == "tiny"
    assert find(name.format(path=tiny)).folder == tiny


@pytest.mark.parametrize("config", CONFIGS)
def test_a_dataset_at_a_url_gives_the_same(in_tiny_out, config):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(in_tiny_out / "shift/tiny"), "/lab/tiny", recursive=True)
    try:
        ours = shiftdata.load_dataset("memory://lab/tiny", config, split="test", streaming=True)
        plain = datasets.load_dataset("shift/tiny", config, split="test", streaming=True)
        assert [row["key"] for row in ours] == [row["key"] for row in plain]
        assert ours.features == plain.features
    finally:
        memory.rm("/lab", recursive=True)


def test_an_unknown_dataset_says_where_it_was_looked_for(in_tiny_out):
    with pytest.raises(
        NotFoundError, match=r"(?s)unknown dataset 'tini'; did you mean .*the network is off.*SHIFTDATA_HOME"
    ):
        shiftdata.load_dataset("tini")


def test_the_list_names_every_dataset_once_and_only_warns_of_a_bad_one(copy, tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", f"{tiny.parent}")
    (tmp_path / "shift/broken").mkdir()
    (tmp_path / "shift/broken/manifest.json").write_text("{}")
    with pytest.warns(UserWarning, match="broken.*is not a shiftdata manifest"):
        found = shiftdata.list_datasets()
    assert [(one.name, one.rows, one.license) for one in found] == [("tiny", 1360, "CC0-1.0")]
    assert found[0].where == tiny
    with pytest.raises(IntegrityError):
        shiftdata.info("broken")
