"""Damage at many places of every kind of file, and albums at the edge: always a problem or an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.make.build import build
from builders.make.check import check
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from shiftdata.evaluation.verify import verify
from tests.data.test_faults import own_recipe

SHARD = "data/mini/test-00000-of-00001.parquet"
METADATA = "metadata/mini/test.parquet"
FROZEN = "protocols/gf_k2_mu10.parquet"


@pytest.mark.parametrize("path", [SHARD, METADATA, FROZEN, "README.md", "croissant.json"])
@pytest.mark.parametrize("at", [0, 0.3, 0.7, 1])
def test_a_flipped_byte_is_found_wherever_it_is(copy, path, at):
    data = bytearray((copy / path).read_bytes())
    data[min(int(len(data) * at), len(data) - 1)] ^= 1
    (copy / path).write_bytes(data)
    found = {problem.path for problem in verify(copy)}
    assert path in (found or {problem.path for problem in check(copy)})


def test_a_flipped_byte_anywhere_in_the_manifest_is_found(copy):
    """Its words are in the card, its hashes are compared with files: nothing in it stands alone."""
    written = (copy / "manifest.json").read_bytes()
    missed = []
    for number in range(40):
        at = number * (len(written) - 1) // 39
        data = bytearray(written)
        data[at] ^= 1 << number % 8
        (copy / "manifest.json").write_bytes(data)
        with suppress(ShiftdataError):
            missed += [] if verify(copy) or check(copy) else [at]
    assert missed == []


def damaged(written: bytes) -> Iterator[bytes]:
    """A file with other bytes: one, or one in a thousand."""
    for number in range(120):
        data = bytearray(written)
        step = 997 if number % 3 == 0 else len(data)
        for at in range(number * 31 % 997, len(data), step):
            data[at * (number + 1) % len(data)] ^= 1 + number * 2 % 255
        yield bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("path", [SHARD, METADATA, FROZEN, "manifest.json"])
def test_no_damage_makes_a_traceback(copy, path):
    for data in damaged((copy / path).read_bytes()):
        (copy / path).write_bytes(data)
        with suppress(IntegrityError):
            assert path in {problem.path for problem in verify(copy)} or path == "manifest.json"


@pytest.mark.parametrize("kept", [0, 4, -1])
def test_of_a_truncated_shard_the_rows_are_named(copy, kept):
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:kept])
    (problem,) = verify(copy)
    assert problem.path == SHARD
    assert "it contains rows 0 to 119 of mini/test (" in problem.what


def test_a_shard_that_datasets_wrote_again_is_one_problem(copy):
    loaded = datasets.load_dataset("parquet", data_files=str(copy / SHARD), split="train")
    loaded.to_parquet(str(copy / SHARD))
    (problem,) = verify(copy)
    assert problem.path == SHARD
    assert problem.kind in ("size", "hash")


def test_line_endings_of_a_clone_are_reported(copy):
    """As git on Windows converts them."""
    texts = ["ATTRIBUTION.md", "README.md", "croissant.json"]
    for name in [*texts, "manifest.json"]:
        (copy / name).write_bytes((copy / name).read_bytes().replace(b"\n", b"\r\n"))
        if name in texts:
            assert [problem.path for problem in verify(copy)] == texts[: texts.index(name) + 1]
    with pytest.raises(IntegrityError, match="or had its line endings converted"):
        verify(copy)


def test_an_album_of_which_nothing_can_be_used_is_refused(tmp_path):
    recipe = Path(own_recipe(tmp_path, {"a": 8, "b": 8}))
    for number, path in enumerate(recipe.parent.glob("pictures/*/*/*.png")):
        Image.new("RGB", (3, 3), (number, 0, 0)).save(path)
    with pytest.raises(
        InputError, match=r"all 16 pictures of own were dropped: 16: a side below 8 pixels \(3 x 3\)"
    ):
        build(str(recipe), tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out/shift").exists()


def test_one_picture_a_label_is_refused(tmp_path):
    recipe = own_recipe(tmp_path, dict.fromkeys("abcd", 1))
    with pytest.raises(InputError, match="none of them falls into validation, test: some label"):
        build(recipe, tmp_path / "out", workers=1, quiet=True)


def test_a_label_of_one_origin_is_in_training_alone(tmp_path):
    folder = build(own_recipe(tmp_path, {"a": 8, "b": 1}), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    assert Manifest.read(folder).labels == ["a", "b"]
    labels = {
        split: set(pq.read_table(folder / f"metadata/all/{split}.parquet")["label"].to_pylist())
        for split in ("train", "test")
    }
    assert labels == {"train": {0, 1}, "test": {0}}


LABELS = [" spaced", "#hash", "- dash", "null", "yes", "1e3", "{brace}", "back\\slash", "'single'", "|pipe|"]
LABELS += ["😀 smile", "@at", "%percent"]


def test_labels_that_mean_something_to_yaml_go_all_the_way(tmp_path):
    folder = build(own_recipe(tmp_path, dict.fromkeys(LABELS, 8)), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    for config in ("all", "metadata"):
        loaded = datasets.load_dataset(str(folder), config, split="train", streaming=True)
        assert loaded.features["label"].names == sorted(LABELS)
        assert len(list(loaded)) == 4 * len(LABELS)
