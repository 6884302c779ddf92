"""Every fault of a dataset on disk is found and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata
from builders.check import check
from shiftdata.errors import IntegrityError
from shiftdata.verification import verify

SHARD = "data/mini/test-00000-of-00001.parquet"
METADATA = "metadata/mini/test.parquet"


def found(folder: Path) -> str:
    return "\n".join(map(str, check(folder)))


def test_a_fresh_build_is_well(tiny):
    assert check(tiny) == []
    assert shiftdata.verify(tiny) == []


@pytest.mark.parametrize("path", [SHARD, METADATA, "protocols/gf_k2_mu10.parquet"])
def test_a_flipped_byte_is_found_in_every_kind_of_file(copy, path):
    data = bytearray((copy / path).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / path).write_bytes(data)
    assert f"{path}: has sha256" in found(copy)


def test_a_truncated_a_missing_and_an_extra_file_are_found(copy):
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:-100])
    (copy / METADATA).unlink()
    (copy / "data/notes.txt").write_text("mine")
    problems = found(copy)
    assert f"{SHARD}: has " in problems
    assert f"{METADATA}: is missing" in problems
    assert "data/notes.txt: is not in the manifest: an extra file" in problems


def test_a_link_out_of_the_folder_is_found(copy, tmp_path):
    outside = tmp_path / "elsewhere.parquet"
    shutil.move(copy / SHARD, outside)
    (copy / SHARD).symlink_to(outside)
    assert f"{SHARD}: points out of the dataset's folder" in found(copy)


def test_an_edited_or_missing_card_is_found(copy):
    card = copy / "README.md"
    card.write_bytes(card.read_bytes().replace(b"\n", b"\r\n"))
    assert "README.md: was edited" in found(copy)
    card.unlink()
    assert "README.md: is missing" in found(copy)


def test_a_broken_manifest_is_an_error(copy):
    (copy / "manifest.json").write_text("{")
    with pytest.raises(IntegrityError, match="is not a shiftdata manifest"):
        check(copy)


def retold(folder: Path, path: str, change) -> None:
    """Change a file and the manifest with it, so that only its meaning is wrong."""
    import hashlib

    table = pq.read_table(folder / path)
    pq.write_table(change(table), folder / path)
    data = (folder / path).read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][path] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def with_column(name: str, values) -> object:
    def change(table: pa.Table) -> pa.Table:
        position = table.schema.get_field_index(name)
        made = pa.array(values(table[name].to_pylist()), table.schema.field(name).type)
        return table.set_column(position, table.schema.field(name), made)

    return change


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("offset", lambda v: [v[0] + 1, *v[1:]], "the bytes at offset"),
        ("sha256", lambda v: [v[1], v[0], *v[2:]], "have not the sha256 of the metadata"),
        ("label", lambda v: [99, *v[1:]], "has a label out of the range of its 4 names"),
        ("group", lambda v: [v[0] + 1, *v[1:]], r"has a group that is not label * 5 + style"),
        ("quantile", lambda v: [0.123, *v[1:]], "has quantiles that are not 0/n ... (n-1)/n"),
        ("key", lambda v: [v[1], *v[1:]], "holds a key twice"),
        ("key", lambda v: ["Not A Key", *v[1:]], "has the key 'Not A Key'"),
        ("fold", lambda v: [3, *v[1:]], "origins with more than one fold"),
        ("origin", lambda v: ["bar/bar00", *v[1:]], "origins with more than one"),
        ("row", lambda v: v[::-1], "has rows that the metadata does not point to in order"),
        ("split", lambda v: ["train", *v[1:]], "has a split that its fold does not give"),
    ],
)
def test_a_row_that_lies_is_found(copy, column, values, message):
    retold(copy, METADATA, with_column(column, values))
    assert message in found(copy)


def test_data_that_differs_from_its_metadata_is_found(copy):
    retold(copy, SHARD, lambda table: table.take(np.arange(len(table))[::-1]))
    assert f"{SHARD}: differs from {METADATA}" in found(copy)


def test_other_content_under_the_same_names_is_found(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["bases"][1]["content_id"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    problems = found(copy)
    assert "metadata/mini: content_id is" in problems
    assert "content_id is not the hash of the bases' content_ids" in problems


def test_a_canonical_split_with_other_rows_is_found(copy):
    retold(copy, "protocols/gf_k2_mu10.parquet", lambda table: table.slice(1))
    assert "the filters keep other keys of train than the frozen ones" in found(copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["configs"][0]["splits"]["test"]["rows"] = 5
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "the filters keep 24 rows of test, the manifest says 5" in found(copy)


def test_files_alone_can_be_verified(copy):
    seen: list[str] = []
    retold(copy, METADATA, with_column("quantile", lambda v: [0.5] * len(v)))
    assert verify(copy, deep=False, on_file=seen.append) == []
    assert METADATA in seen
