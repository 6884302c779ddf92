"""Every fault of a dataset is reported: a damaged file by name, a wrong row by key."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata
from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import IntegrityError
from shiftdata.evaluation.verify import verify
from tests.data.byte_ranges.server import ranges
from tests.data.test_places import at_once, memory
from tests.shared import dataset_of
from tests.tiny import edit_file, edit_manifest

__all__ = ["at_once", "memory"]  # fixtures

SHARD = "data/mini/test-00000-of-00001.parquet"
METADATA = "metadata/mini/test.parquet"
FROZEN = "protocols/gf_k2_mu10.parquet"


def problems_of(folder: Path | str, **options: Any) -> str:
    return "\n".join(map(str, verify(folder, **options)))


def flipped(folder: Path, path: str, at: float = 0.5) -> None:
    data = bytearray((folder / path).read_bytes())
    data[int(len(data) * at)] ^= 1
    (folder / path).write_bytes(data)


def retold(folder: Path, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a file and the manifest with it, so that only its meaning is wrong."""
    pq.write_table(change(pq.read_table(folder / path)), folder / path)
    edit_file(folder, path, bytes)


def with_column(name: str, values: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        position = table.schema.get_field_index(name)
        column = pa.array(values(table[name].to_pylist()), table.schema.field(name).type)
        return table.set_column(position, table.schema.field(name), column)

    return change


def key_of(folder: Path, row: int, path: str = METADATA) -> str:
    return str(pq.read_table(folder / path)["key"][row].as_py())


@pytest.fixture
def copied(tmp_path, tmp_path_factory) -> Callable[[str], Path]:
    """Copies of small datasets of kinds of the contract."""
    return lambda kind: Path(shutil.copytree(dataset_of(tmp_path_factory, kind), tmp_path / "shift" / kind))


# Whole files


def test_a_truncated_a_missing_and_an_extra_file_are_found(copy):
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:-100])
    (copy / METADATA).unlink()
    (copy / "data/notes.txt").write_text("mine")
    problems = problems_of(copy)
    assert f"{SHARD}: has " in problems
    assert f"{METADATA}: is missing: fetch it again" in problems
    assert "data/notes.txt: is not in the manifest: an extra file" in problems
    assert problems.count("\n") == 2


def test_files_of_tools_and_links_inside_are_well(copy):
    attributes = copy / ".gitattributes"
    attributes.write_text("# by the Hub\n*.parquet filter=lfs diff=lfs merge=lfs -text\n")
    (copy / ".git").mkdir()
    (copy / ".git/HEAD").write_text("ref: refs/heads/main")
    (copy / ".cache/huggingface/download").mkdir(parents=True)
    (copy / ".cache/huggingface/download/README.md.metadata").write_text("")
    (copy / "data").rename(copy / ".git/annex")
    (copy / "data").symlink_to(".git/annex")
    assert verify(copy) == []
    attributes.write_text("*.parquet filter=mine")
    added = {".gitattributes", "metadata/.x", ".huggingface.yaml", ".cache/x"}
    for path in added - {".gitattributes"}:
        (copy / path).write_text("mine")
    assert {problem.path for problem in verify(copy) if problem.kind == "extra"} == added


def test_a_link_out_of_the_folder_is_found(copy, tmp_path):
    outside = tmp_path / "elsewhere.parquet"
    shutil.move(copy / SHARD, outside)
    (copy / SHARD).symlink_to(outside)
    shutil.move(copy / "README.md", tmp_path / "README.md")
    (copy / "README.md").symlink_to(tmp_path / "README.md")
    shutil.move(copy / "metadata", tmp_path / "metadata")
    (copy / "metadata").symlink_to(tmp_path / "metadata")
    (copy / "circle").symlink_to("circle")
    problems = problems_of(copy)
    for path in (SHARD, "README.md", METADATA):
        assert f"{path}: points out of the dataset's folder: put the file itself there" in problems
    assert "circle: is not in the manifest: an extra file" in problems
    assert "metadata: is not" not in problems


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"modality": "image"',
            '"modality": "sound"',
            "is not a shiftdata manifest: roles.modality is 'sound'",
        ),
        (
            '"image": "image"',
            '"image": "jpg"',
            "gives examples the columns {'image': 'jpg'}; of the modality",
        ),
        (
            '"validation": {',
            '"dev": {',
            "has the splits of the base content 'dev'; they are train, validation, test",
        ),
    ],
)
def test_a_manifest_by_which_no_row_can_be_read_is_an_error(copy, old, new, message):
    text = (copy / "manifest.json").read_text()
    assert old in text
    edit_manifest(copy, lambda raw: raw.update(json.loads(text.replace(old, new, 1))))
    with pytest.raises(IntegrityError, match=re.escape(f"manifest.json {message}")):
        verify(copy)


def test_a_manifest_that_lacks_a_file_or_names_another_is_found(copy):
    def change(raw: dict[str, Any]) -> None:
        raw["files"]["outside.parquet"] = raw["files"].pop(METADATA)
        raw["canonical_splits"][0]["base"] = "maxi"
        raw["roles"]["origin"] = "concept"
        raw["default_base"] = "middle"
        del raw["files"]["protocols/gf_k4_mu20_s1.parquet"]

    edit_manifest(copy, change)
    problems = problems_of(copy)
    assert f"manifest.json: does not list {METADATA}, which the base 'mini' needs" in problems
    assert "outside.parquet: is missing" in problems
    assert f"{METADATA}: is not in the manifest: an extra file" in problems
    assert "has the split 'gf_k2_mu10' of the base 'maxi', which it does not list" in problems
    assert "does not list protocols/gf_k4_mu20_s1.parquet" in problems
    assert "manifest.json: has the default base 'middle', which it does not list" in problems
    assert "gives a role to the column 'concept', which rows do not have" in problems


def test_counts_of_the_manifest_are_checked(copy):
    def change(raw: dict[str, Any]) -> None:
        raw["bases"][1]["splits"]["test"] |= {"rows": 121, "smallest": 5}
        raw["canonical_splits"][0]["sets"]["test"]["size"]["rows"] = 5
        raw["files"]["metadata/content/test.parquet"]["rows"] = 7
        raw["bases"][2].update(content_id="0" * 64)

    edit_manifest(copy, change)
    problems = problems_of(copy)
    assert "manifest.json: lists data files of mini/test with 120 rows, and 121 in it" in problems
    assert re.search(r"content/test.parquet: has \d+ rows, the manifest says 7", problems)
    assert re.search(
        rf"{METADATA}: has Split.rows=120.* smallest=6.*says Split.rows=121.* smallest=5", problems
    )
    assert re.search(rf"{FROZEN}: has Split.rows=24.* in test, the manifest says Split.rows=5", problems)
    assert "metadata/extended: has the content_id" in problems
    assert "has a content_id that is not the hash of those of its bases" in problems


def test_totals_of_the_manifest_are_checked(copy):
    def change(raw: dict[str, Any]) -> None:
        raw["credits"][0]["rows"] -= 1
        raw["origins_shared"] = not raw["origins_shared"]

    edit_manifest(copy, change)
    problems = problems_of(copy)
    assert "manifest.json: credits 1359 rows to 'made here' (CC0-1.0), 1360 are" in problems
    assert "manifest.json: says origins_shared False, and the rows say True" in problems


# Rows


#: A wrong value of a column, and the message that names its row.
LIES: list[tuple[str, Any, str]] = [
    ("offset", 5, "is not at the byte offset 5 of its metadata"),
    ("offset", 1 << 62, "is not at the byte offset"),
    ("offset", None, "has the offset None: each image needs one"),
    ("length", 3, "of its metadata, of length 3"),
    ("sha256", b"x" * 32, "has no example of the sha256 that its metadata says"),
    ("sha256", None, "has the sha256 None: every row needs one"),
    ("label", 99, "has the label 99: the manifest names 4, from 0 to 3"),
    ("label", None, "has the label None: the manifest names 4"),
    ("style", 5, "has the style 5: the manifest names 5, from 0 to 4"),
    ("style", None, "has the style None: the manifest names 5"),
    ("group", 19, "has the group 19: it must be label * 5 + style"),
    ("severity", 0.5, "has the severity 0.5: the manifest lists 1.0"),
    ("severity", None, "has the severity None: the manifest lists 1.0"),
    ("key", "Not A Key", "has the key 'Not A Key': keys are made of [a-z0-9_-]{1,120}"),
    ("fold", 3, "has the fold 3: folds run from 0 to 99, and give the split (train from 0"),
    ("fold", 100, "has the fold 100: folds run from 0 to 99"),
    ("split", "train", "has the split 'train': its file is that of another split"),
    ("license", " ", "has the license ' ': every row needs one"),
    ("attribution", None, "has the attribution None: every row needs one"),
    ("row", 77, "has the row 77: it is not the place of the example"),
    ("shard", 1, "has the shard 1: it is not the place of the example"),
    ("params", "{}", "has the params '{"),
]


def test_every_row_that_lies_is_named(copy):
    keys = pq.read_table(copy / METADATA)["key"].to_pylist()

    def change(table: pa.Table) -> pa.Table:
        for row, (column, value, _) in enumerate(LIES, 2):
            lie = partial(replaced, row=row, value=value)
            table = with_column(column, lie)(table)
        return with_column("key", lambda v: [v[1], *v[1:]])(table)

    retold(copy, METADATA, change)
    problems = verify(copy)
    for row, (column, value, message) in enumerate(LIES, 2):
        key = value if column == "key" else keys[row]
        texts = [str(problem) for problem in problems if problem.key == key]
        assert any(message in text and f"row {key!r}" in text for text in texts), (column, value, texts)
    assert f"row {keys[1]!r} has the key {keys[1]!r}: an earlier row has it" in "\n".join(map(str, problems))


def replaced(values: list[Any], row: int, value: Any) -> list[Any]:
    return [*values[:row], value, *values[row + 1 :]]


def test_a_cell_with_other_quantiles_is_named(copy):
    retold(copy, METADATA, with_column("quantile", lambda v: [*v[:2], 0.99, *v[3:]]))
    row = rf"{METADATA}: row '.*' has the quantile 0[.0-9]+: quantiles are 0.5/n, 1.5/n, ... of the n rows"
    assert re.search(row, problems_of(copy))


def test_an_origin_in_two_splits_is_named_with_them(copy):
    first = pq.read_table(copy / "metadata/mini/train.parquet").slice(0, 1).to_pylist()[0]
    row = pq.read_table(copy / METADATA)["label"].to_pylist().index(first["label"])
    retold(copy, METADATA, with_column("origin", partial(replaced, row=row, value=first["origin"])))
    where = "so it is in test, train of content, extended, mini: it must have one fold, or it would leak"
    assert re.search(f"the origin '{first['origin']}' has the folds .*, {where}", problems_of(copy))


def test_untouched_content_has_no_nuisance_and_severity_0(copy):
    path = "metadata/content/test.parquet"
    retold(copy, path, with_column("style", lambda v: [1, *v[1:]]))
    retold(copy, path, with_column("severity", lambda v: [v[0], 1.0, *v[2:]]))
    first, second, problems = key_of(copy, 0, path), key_of(copy, 1, path), problems_of(copy)
    assert f"{path}: row {first!r} has the style 1: untouched content has none" in problems
    assert f"{path}: row {second!r} has the severity 1.0: untouched content has 0" in problems


def test_a_trajectory_without_a_severity_is_named(copied):
    folder = copied("continuous")
    severity = pq.read_table(folder / METADATA)["severity"][0].as_py()
    other = 0.5 if severity != 0.5 else 1.0
    retold(folder, METADATA, with_column("severity", lambda v: [other, *v[1:]]))
    assert "is of a trajectory with 4 rows, 3 severities and 1 origins: each of the 4" in problems_of(folder)
    retold(folder, METADATA, with_column("severity", lambda v: [severity, *v[1:]]))
    retold(folder, METADATA, with_column("origin", lambda v: ["elsewhere", *v[1:]]))
    assert "is of a trajectory with 4 rows, 4 severities and 2 origins: each of the 4" in problems_of(folder)


# Data files


def test_an_intact_file_that_is_not_parquet_is_named(copy):
    """Only a publisher can make such a file: its hash is right."""
    data = bytearray((copy / SHARD).read_bytes())
    with pq.ParquetFile(copy / SHARD) as file:
        start = file.metadata.row_group(1).column(0).data_page_offset
    data[start : start + 40] = bytes(40)
    for damaged in (bytes(data), bytes(data[:-9])):
        (copy / SHARD).write_bytes(damaged)
        record = {"bytes": len(damaged), "sha256": hashlib.sha256(damaged).hexdigest()}
        edit_manifest(copy, lambda raw, record=record: raw["files"][SHARD].update(record))
        assert f"{SHARD}: is not a readable Parquet file (" in problems_of(copy)


def test_an_image_that_cannot_be_decoded_is_named(copy):
    image = b"\x89PNG\r\n\x1a\n, and no more"
    key = key_of(copy, 0)
    retold(copy, SHARD, with_column("image", lambda v: [{"bytes": image, "path": "x.png"}, *v[1:]]))
    data = (copy / SHARD).read_bytes()
    retold(copy, METADATA, with_column("offset", lambda v: [data.index(image), *v[1:]]))
    retold(copy, METADATA, with_column("length", lambda v: [len(image), *v[1:]]))
    retold(copy, METADATA, with_column("sha256", lambda v: [hashlib.sha256(image).digest(), *v[1:]]))
    assert f"{SHARD}: row {key!r} has an image that cannot be decoded: " in problems_of(copy)


def test_rows_that_are_missing_unknown_or_without_an_image_are_named(copy):
    stranger, empty = key_of(copy, 0), key_of(copy, 2)
    retold(copy, SHARD, with_column("image", lambda v: [*v[:2], {"bytes": None, "path": None}, *v[3:]]))
    assert f"{SHARD}: row {empty!r} has no example of the sha256 that its" in problems_of(copy)
    retold(copy, SHARD, with_column("key", lambda v: ["stranger", *v[1:]]))
    assert f"{SHARD}: row {stranger!r} has the key 'stranger', its metadata says {stranger!r}" in problems_of(
        copy
    )
    retold(copy, SHARD, lambda table: table.slice(1))
    assert f"{SHARD}: has 119 rows, the manifest says 120" in problems_of(copy)


def test_columns_that_are_not_ours_are_named(copy):
    def change(table: pa.Table) -> pa.Table:
        table = table.set_column(3, "label", table["label"].cast(pa.int16())).drop_columns("params")
        return table.append_column("mine", table["key"]).replace_schema_metadata(None)

    retold(copy, SHARD, change)
    problems = problems_of(copy)
    lacking = r"it lacks \((label: int64, params: string|params: string, label: int64)\)"
    assert re.search(f"{SHARD}: has other columns than key: string, split: .*: {lacking}, and has ", problems)
    assert "mine: string" in problems


def test_a_file_without_the_names_of_classes_is_named(copy):
    retold(copy, SHARD, lambda table: table.replace_schema_metadata(None))
    assert f"{SHARD}: does not give `datasets` the features of key, split, " in problems_of(copy)


@pytest.mark.parametrize("damage", ["missing", "cut", "page"])
def test_damaged_metadata_hides_no_problem_of_other_files(copy, damage):
    if damage == "missing":
        (copy / METADATA).unlink()
    else:
        data = bytearray((copy / METADATA).read_bytes())
        data[10:60] = bytes(50)
        (copy / METADATA).write_bytes(data if damage == "page" else data[:-9])
    assert [problem.path for problem in verify(copy)] == [METADATA]
    flipped(copy, SHARD)
    train = METADATA.replace("test", "train")
    retold(copy, train, with_column("group", lambda v: [*v[:5], 19, *v[6:]]))
    problems = problems_of(copy)
    assert f"{SHARD}: has sha256" in problems
    assert (
        f"{train}: row {key_of(copy, 5, train)!r} has the group 19: it must be label * 5 + style" in problems
    )


@pytest.mark.parametrize("kind", ["text", "table"])
def test_examples_that_are_no_images_are_checked_row_by_row(copied, kind):
    folder = copied(kind)
    manifest = Manifest.read(folder)
    shard = next(path for path in manifest.files if path.startswith(f"data/{manifest.default_base}/test-"))
    metadata = f"metadata/{manifest.default_base}/test.parquet"
    column = next(iter(manifest.roles.example))
    value = "another sentence" if kind == "text" else None
    key = key_of(folder, 0, shard)
    retold(folder, metadata, with_column("offset", lambda v: [7, *v[1:]]))
    retold(folder, shard, with_column(column, lambda v: [value, *v[1:]]))
    problems = problems_of(folder)
    assert f"{shard}: row {key!r} has no example of the sha256 that its" in problems
    assert f"row {key_of(folder, 0, metadata)!r} has the offset 7: only images have one" in problems


# Canonical splits


def test_a_canonical_split_with_other_rows_names_them(copy):
    train = key_of(copy, 0, FROZEN)
    retold(copy, FROZEN, with_column("key", lambda v: ["nobody", v[1], v[1], *v[3:]]))
    retold(copy, FROZEN, with_column("count", lambda v: [2, *v[1:]]))
    retold(copy, FROZEN, with_column("split", lambda v: [*v[:-1], "dev"]))
    problems, last = problems_of(copy), key_of(copy, -1, FROZEN)
    assert f"{FROZEN}: row {train!r} is kept by the filters of train, and not frozen" in problems
    assert "row 'nobody' is frozen in train, and not a row of train that its filters keep" in problems
    assert f"{FROZEN}: row {key_of(copy, 1, FROZEN)!r} is frozen twice" in problems
    assert "row 'nobody' has the count 2, and filters keep a row once" in problems
    assert f"row {last!r} has the set 'dev'; the manifest lists train, validation, test" in problems


def test_filters_that_cannot_be_used_are_named(copy):
    def change(raw: dict[str, Any]) -> None:
        raw["canonical_splits"][0]["sets"]["train"]["filters"][0].append(["colour", "==", 1])

    edit_manifest(copy, change)
    assert "manifest.json: the filters of gf_k2_mu10/train cannot be used" in problems_of(copy)


# What the caller sees


def test_files_alone_can_be_verified(copy):
    seen: list[str] = []
    retold(copy, METADATA, with_column("quantile", lambda v: [0.5] * len(v)))
    assert verify(copy, deep=False, on_file=seen.append) == []
    assert sorted(seen) == sorted(Manifest.read(copy).files)
    flipped(copy, SHARD)
    assert f"{SHARD}: has sha256" in problems_of(copy, deep=False)


def test_progress_is_reported_to_the_end(tiny):
    manifest = Manifest.read(tiny)
    sizes: list[int] = []
    rows: list[int] = []
    verify(tiny, on_bytes=sizes.append, on_rows=rows.append)
    assert sum(sizes) == sum(record.bytes for record in manifest.files.values())
    assert sum(rows) == sum(split.rows for base in manifest.bases for split in base.splits.values())


def test_ctrl_c_ends_a_verification(memory, tmp_path, monkeypatch):
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        verify(memory, on_rows=stop)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_cuts_long_lists_short(copy, capsys):
    retold(copy, METADATA, with_column("group", lambda v: [19] * len(v)))
    total = len(verify(copy))
    assert main(["verify", str(copy)]) == 1
    output = capsys.readouterr().out
    assert "more like it (--all shows them)" in output
    assert output.splitlines()[-1] == f"{total} problems"
    assert len(output.splitlines()) < 60 < total
    assert main(["verify", str(copy), "--all"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == total + 3


# Elsewhere


def test_a_dataset_in_memory_is_verified(memory, capsys):
    assert verify(memory) == []
    assert main(["verify", memory]) == 0
    checked, pinned, result = capsys.readouterr().out.splitlines()
    assert checked == (
        "checked: 27 files by their hash, 1,360 rows, 1,360 examples, 2 canonical splits recomputed"
    )
    assert pinned.startswith(f"manifest.json has the sha256 {shiftdata.open_dataset(memory).sha256}: compare")
    assert result == "all well"
    system = fsspec.filesystem("memory")
    system.pipe(f"{memory}/notes.txt", b"mine")
    system.pipe(f"{memory}/.git/HEAD", b"ref")
    system.pipe(f"{memory}/{SHARD}", system.cat(f"{memory}/{SHARD}")[:-9])
    system.rm(f"{memory}/{METADATA}")
    problems = problems_of(memory)
    assert "notes.txt: is not in the manifest: an extra file" in problems
    assert f"{SHARD}: has " in problems
    assert f"{METADATA}: is missing" in problems
    assert "HEAD" not in problems


def test_what_a_server_does_not_give_is_named(copy, at_once, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    shard = SHARD.replace("mini", "extended")
    (copy / "metadata/content/test.parquet").unlink()
    faults = {SHARD: ["cut"] * 9, shard: ["short"] * 9, FROZEN: ["refused"]}
    faults["metadata/mini/train.parquet"] = ["cut", "cut"]  # and then well
    with ranges(copy.parent) as server:
        server.faults_of = {f"/tiny/{path}": words for path, words in faults.items()}
        problems = [problem for problem in verify(f"{server.url}/tiny") if problem.key is None]
    lines = "\n".join(map(str, problems))
    assert len(problems) == 4
    assert f"{shard}: could not be fetched (" in lines
    assert f"{SHARD}: could not be fetched (" in lines
    assert "metadata/content/test.parquet: is missing" in lines
    assert f"{FROZEN}: could not be fetched (HttpError: status 403" in lines
    assert list((tmp_path / "scratch").iterdir()) == []


def test_every_remote_file_is_fetched_once(tiny):
    sizes: list[int] = []
    with ranges(tiny.parent) as server:
        assert verify(f"{server.url}/tiny", on_bytes=sizes.append) == []
    manifest = Manifest.read(tiny)
    fetched = sorted(path for path, _ in server.bodies)
    assert fetched == sorted(f"/tiny/{path}" for path in ["manifest.json", *manifest.files])
    assert sum(sizes) == sum(record.bytes for record in manifest.files.values())
