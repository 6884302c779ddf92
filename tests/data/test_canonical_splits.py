"""Canonical splits of any protocol: configs of the card, key files, and every door that reads them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.describe.renderings import describe
from builders.make.check import check
from shiftdata.cli.app import main
from shiftdata.data.format.front_matter import is_config
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import CanonicalSet, Split
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.verify import verify
from tests.data.test_verification import retold, with_column
from tests.shared import dataset_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Domains, cut by config and by set, and a table whose labels are drawn with replacement."""
    return {kind: dataset_of(tmp_path_factory, kind) for kind in ("domain", "table", "continuous")}


def frozen(folder: Path, name: str) -> dict[str, Counter[str]]:
    """How often each set of a canonical split has each key."""
    counts: dict[str, Counter[str]] = {}
    for row in pq.read_table(folder / f"protocols/{name}.parquet").to_pylist():
        counts.setdefault(row["split"], Counter())[row["key"]] = row["count"]
    return counts


def test_a_split_is_one_config_by_files_or_filters_or_a_key_file(built):
    lodo, uda, *more = Manifest.read(built["domain"]).canonical_splits
    assert lodo.is_config
    assert uda.is_config
    assert not any(split.is_config for split in more)
    for split in (lodo, uda):  # plain `datasets` has every set under the one name
        loaded = datasets.load_dataset(str(built["domain"]), split.name)
        assert {name: Counter(rows["key"]) for name, rows in loaded.items()} == frozen(
            built["domain"], split.name
        )
    (together, cells) = Manifest.read(built["continuous"]).canonical_splits
    assert together.is_config
    assert not together.has_files
    assert not cells.is_config  # `datasets` takes no split named `test/fade@1`
    for split in [*Manifest.read(built["domain"]).canonical_splits, together, cells]:
        for record in split.sets.values():
            clauses = record.filters or []
            assert all([column for column, *_ in clause].count("split") == 1 for clause in clauses)
            assert bool(clauses) != bool(record.reason)


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ({"a": ["train"], "b": ["test"]}, True),
        ({"a": ["train"], "b": ["train"]}, False),
        ({"a": ["train", "test"], "b": ["validation"]}, True),
        ({"a": ["train"], "b@1": ["test"]}, False),
    ],
)
def test_sets_that_filters_can_give_in_one_config(splits, expected):
    sets = {
        name: CanonicalSet(roles=["fit"], size=Split(rows=1, bytes=1), splits=of, filters=[[]])
        for name, of in splits.items()
    }
    assert is_config(sets) == expected
    assert not is_config(sets | {"a": replace(sets["a"], filters=None)})


@pytest.mark.parametrize(
    ("place", "streaming"),
    [("memory", True), *(pytest.param("folder", way, marks=pytest.mark.slow) for way in (False, True))],
)
def test_every_canonical_split_loads_by_its_name(built, streaming, place):
    import fsspec

    memory = fsspec.filesystem("memory")
    folder: Path | str = built["domain"]
    if place == "memory":
        memory.put(str(folder), "/lab/domains", recursive=True)
        folder = "memory://lab/domains"
    try:
        for split in sd.info(folder).canonical_splits:
            expected = frozen(built["domain"], split.name)
            loaded = sd.load_dataset(folder, split.name, streaming=streaming)
            assert list(loaded) == list(split.sets)
            for name, rows in loaded.items():
                assert Counter(row["key"] for row in rows.select_columns("key")) == expected[name]
        with pytest.raises(NotFoundError, match="unknown split 'sorce_test'; did you mean 'source_test'"):
            sd.load_dataset(folder, "uda_night_paper_s1", split="sorce_test")
    finally:
        if place == "memory":
            memory.rm("/lab", recursive=True)


def test_rows_that_were_drawn_twice_come_twice_and_do_not_stream(built):
    folder, name = built["table"], "ls_alpha1_north_south_replacement"
    expected = frozen(folder, name)
    assert max(expected["target_train"].values()) > 1
    rows = sd.load_dataset(folder, name, split="target_train")
    assert rows["key"][:] == list(expected["target_train"].elements())
    assert len(rows) == sd.info(folder).splits_of(name)["target_train"].rows
    with pytest.raises(InputError, match=r"drawn with replacement.*load it with streaming=False"):
        sd.load_dataset(folder, name, split="target_train", streaming=True)


@pytest.mark.parametrize("kind", ["domain", "table"])
def test_the_card_shows_how_plain_datasets_reads_a_key_file(built, kind, monkeypatch):
    folder = built[kind]
    monkeypatch.chdir(folder.parents[1])
    blocks = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    (snippet,) = (block for block in blocks if "protocols/" in block)
    names: dict[str, Any] = {}
    exec(compile(snippet, "the card", "exec"), names)
    name = next(split.name for split in sd.info(folder).canonical_splits if not split.is_config)
    first = next(iter(frozen(folder, name).values()))
    assert names["rows"]["key"][:] == list(first.elements())


@pytest.mark.parametrize("streaming", [False, True])
def test_filters_of_your_own_task_load_a_base(built, streaming):
    folder = built["domain"]
    task = sd.task(folder, "leave-one-domain-out", test="night")
    for name, filters in task.filters().items():
        rows = sd.load_dataset(folder, "all", split="all", filters=filters, streaming=streaming)
        assert {row["key"] for row in rows.select_columns("key")} == set(task.keys(name))


@pytest.mark.parametrize(
    ("config", "split", "sets"),
    [
        ("uda_night_paper", ["source_train", "target_test"], 2),
        ("uda_night_paper", ["target_train"], 1),
        ("uda_night_paper_s1", None, 5),
    ],
)
def test_a_part_of_a_canonical_split(built, tmp_path, config, split, sets):
    folder = built["domain"]
    part = sd.fetch(folder, config=config, split=split, out=tmp_path / "part")
    assert verify(part) == []
    canonical, _, _ = sd.info(folder).rows_behind(config)
    splits = {split.name: split for split in sd.info(part).canonical_splits}
    every = frozen(folder, canonical.name)
    expected = {name: every[name] for name in splits[canonical.name].sets}
    assert len(expected) == sets
    assert frozen(part, canonical.name) == expected
    assert sd.info(part).base("all").rows == len(set().union(*expected.values()))
    loaded = sd.load_dataset(part, canonical.name, streaming=True)
    assert {name: {row["key"] for row in rows} for name, rows in loaded.items()} == {
        name: set(keys) for name, keys in expected.items()
    }
    from datasets import load_dataset

    plain = load_dataset(str(part), streaming=True)
    rows = sum(1 for rows in plain.values() for _ in rows.select_columns("key"))
    assert rows == sd.info(part).base("all").rows


def test_a_whole_base_keeps_key_files_and_a_task_of_a_part_is_that_of_the_whole(built, tmp_path):
    scratch = tmp_path / "whole"
    whole = sd.fetch(built["domain"], config="all", out=scratch / "base")
    assert [split.name for split in sd.info(whole).canonical_splits] == [
        split.name for split in sd.info(built["domain"]).canonical_splits
    ]
    words = {"source": "night", "target": "paper", "seed": 1}
    part = sd.fetch(built["domain"], config="uda_night_paper_s1", out=tmp_path / "part")
    ours, theirs = (sd.task(folder, "uda", **words) for folder in (part, built["domain"]))
    assert ours.content_id() == theirs.content_id()
    assert ours.describe() == theirs.describe()
    assert sd.task(part, "uda_night_paper_s1").content_id() == theirs.content_id()
    with pytest.raises(NotFoundError, match="unknown protocol 'uda_night_papr'"):
        sd.task(part, "uda_night_papr")


def test_info_lists_key_files_too(built, capsys):
    assert main(["info", str(built["table"])]) == 0
    out = capsys.readouterr().out
    assert re.search(r"ls_alphanone_north_south *source_train 48, ", out)
    assert re.search(r"ls_alpha1_north_south_replacement \(keys\) *source_train 48, ", out)


def test_a_split_that_its_protocol_does_not_make_is_named(built, tmp_path):
    copy = Path(shutil.copytree(built["domain"], tmp_path / "shift" / "tiny_domain"))
    manifest = Manifest.read(copy)
    first, *others = manifest.canonical_splits
    for words, message in (
        ("leave-one-domain-out test=night", "is not what leave-one-domain-out test=night makes of all"),
        ("leave-one-domain-out test=sea", "cannot be recomputed by leave-one-domain-out test=sea"),
    ):
        describe(copy, replace(manifest, canonical_splits=[replace(first, protocol=words), *others]))
        assert any(message in problem.what for problem in check(copy))


def test_keys_without_filters_are_compared_with_the_rows(built, tmp_path):
    copy = Path(shutil.copytree(built["table"], tmp_path / "tiny_table"))
    name = "protocols/ls_alpha1_north_south_replacement.parquet"
    retold(copy, name, with_column("count", lambda v: [*v[:-1], 0]))
    retold(copy, name, with_column("key", lambda v: ["nobody", *v[1:]]))
    problems = "\n".join(map(str, verify(copy)))
    assert "has the count 0, and it must be at least 1" in problems
    assert f"{name}: has Split(rows=" in problems
    assert "row 'nobody' is frozen in source_train, and not a row of" in problems
