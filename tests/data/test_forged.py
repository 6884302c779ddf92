"""Datasets whose hashes agree and whose content is wrong: `verify` derives what can be derived."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import ShiftdataError
from shiftdata.untrusted.limits import raised
from tests.paths import ROOT
from tests.shared import dataset_of
from tests.tiny import edit_file, edit_manifest

SHARD = "data/mini/train-00000-of-00001.parquet"
METADATA = "metadata/mini/train.parquet"
FROZEN = "protocols/gf_k2_mu10.parquet"
#: What the publisher says and no row can show: only the hash of the manifest vouches for it.
STATED = {
    *("family", "released", "title", "summary", "creators", "citation", "datasheet", "seed", "recipe_id"),
    *("versions", "version", "publishes", "shortcuts", "calibration", "provenance", "equal_content"),
    "prompts",
}


def test_the_docs_name_what_no_row_can_show():
    text = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    named = text.partition("\n- in the manifest ")[2].partition(";")[0]
    assert set(re.findall(r"`(\w+)`", named)) == STATED


def leaves(raw: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value in a manifest."""
    entries = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    for name, value in entries:
        yield from leaves(value, (*path, name))
    if not entries:
        yield path


def other(value: Any) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, str):
        return ("0" if value[:1] != "0" else "1") + value[1:] if len(value) == 64 else value + "x"
    if isinstance(value, list | dict):
        return ["x"] if isinstance(value, list) else {"x": "1"}
    return 1 if value is None else not value if isinstance(value, bool) else value + 1


def shape(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A path by its fields alone: entries of one list, files and bases are alike."""
    fields = ["*" if isinstance(name, int) or "/" in name else name for name in path]
    return tuple(fields[:1] if fields[0] in ("versions", "sample", "datasheet") else fields)


@pytest.mark.slow
def test_every_field_of_a_manifest_is_derived_or_named_as_stated(tmp_path, tmp_path_factory):
    copy = Path(shutil.copytree(dataset_of(tmp_path_factory, "text"), tmp_path / "shift" / "text"))
    text = (copy / "manifest.json").read_bytes()
    of_each = {shape(path): path for path in leaves(json.loads(text)) if path[0] != "checksum"}
    missed = set()
    for fields, path in of_each.items():

        def change(raw: Any, path: tuple[str | int, ...] = path) -> None:
            *before, last = path
            for name in before:
                raw = raw[name]
            raw[last] = other(raw[last])

        edit_manifest(copy, change)
        with suppress(ShiftdataError):
            missed |= set() if sd.verify(copy) else {fields}
        (copy / "manifest.json").write_bytes(text)
    assert {fields for fields in missed if fields[0] not in STATED} == set()  # croissant.json has the rest
    assert len(of_each) > 60


def with_statistics(old: float, new: float) -> Callable[[bytes], bytes]:
    """A Parquet file whose footer gives another number for one of its least or greatest values."""

    def change(data: bytes) -> bytes:
        size = int.from_bytes(data[-8:-4], "little")
        footer, stated = data[-8 - size :], struct.pack("<d", old)
        assert stated in footer
        return data[: -8 - size] + footer.replace(stated, struct.pack("<d", new))

    return change


@pytest.mark.parametrize("path", [SHARD, METADATA])
def test_false_statistics_are_named(copy, path):
    """A reader that filters by the quantile leaves these rows out."""
    rows = Manifest.read(copy).canonical_splits[0].sets["train"].size.rows
    filters = Manifest.read(copy).canonical_splits[0].sets["train"].filters
    group = pq.read_metadata(copy / path).row_group(0)
    number = group.num_columns - 1
    while group.column(number).path_in_schema != "quantile":
        number -= 1
    least = group.column(number).statistics.min
    edit_file(copy, path, with_statistics(least, 0.97))
    assert pq.read_table(copy / path, columns=["key"], filters=filters).num_rows < rows or path == METADATA
    problems = sd.verify(copy)
    assert {problem.kind for problem in problems} <= {"statistics", "filters", "croissant"}
    assert any(
        problem.path == path and "false statistics of quantile in row group 0" in problem.what
        for problem in problems
    )


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('- {"config_name": "mini"', '- {"config_name": "mine"', "other configs"),
        ('"num_examples": 200', '"num_examples": 201', "other dataset_info"),
        ("---\n\n", 'configs:\n- {"config_name": "x"}\n---\n\n', "other configs"),
    ],
)
def test_a_card_with_other_configs_is_named(copy, old, new, what):
    def change(data: bytes) -> bytes:
        text = data.decode()
        assert old in text
        return text.replace(old, new, 1).encode()

    edit_file(copy, "README.md", change)
    assert any(problem.path == "README.md" and what in problem.what for problem in sd.verify(copy))


def test_a_description_for_machines_of_another_dataset_is_named(copy):
    edit_file(copy, "croissant.json", lambda data: data.replace(b"Tinted Shapes", b"Other Shapes"))
    assert [problem.path for problem in sd.verify(copy)] == ["croissant.json"]


def test_other_credits_and_another_licence_are_named(copy):
    edit_file(copy, "ATTRIBUTION.md", lambda data: data.replace(b"made here", b"made there"))
    edit_manifest(copy, lambda raw: raw.update(license="MIT"))
    problems = "\n".join(map(str, sd.verify(copy)))
    assert "ATTRIBUTION.md: does not have the credits of the rows" in problems
    assert "manifest.json: has the licence 'MIT', its rows have 'CC0-1.0'" in problems


@pytest.mark.parametrize("column", ["origin", "attribution"])
def test_a_file_that_unpacks_to_far_more_is_not_decoded(copy, column):
    """A text that stands in a file once can come in every row: gigabytes of a few kilobytes."""
    rows = pq.read_table(copy / METADATA)
    place = rows.schema.get_field_index(column)
    texts = pa.array(["x" * 500_000] * len(rows))
    pq.write_table(rows.set_column(place, rows.schema.field(column), texts), copy / METADATA)
    edit_file(copy, METADATA, bytes)
    assert (copy / METADATA).stat().st_size < 200_000
    with raised(parquet_bytes=16 << 20):
        (problem, *_) = [problem for problem in sd.verify(copy) if problem.path == METADATA]
    assert "would unpack" in problem.what


@pytest.mark.parametrize(
    ("path", "column", "values", "message"),
    [
        (METADATA, "label", pa.repeat(-5, 200), "has label -5, and the manifest lists 4"),
        (METADATA, "severity", pa.repeat("x", 200), "has string in its column severity, and not double"),
        (
            FROZEN,
            "count",
            pa.repeat(pa.scalar(2**31 - 1, pa.int32()), 200),
            "draws [0-9,]{12,} rows: at most",
        ),
        (FROZEN, "count", pa.repeat(pa.scalar(-1, pa.int32()), 200), "draws a key -1 times: give 1 or more"),
        (FROZEN, "split", pa.repeat("mine", 200), "has other sets than the manifest lists for it"),
    ],
)
def test_a_forged_table_is_refused_where_it_is_read(copy, path, column, values, message):
    table = pq.read_table(copy / path)
    changed = table.set_column(table.column_names.index(column), column, values.slice(0, len(table)))
    pq.write_table(changed.slice(0, len(values)), copy / path)
    edit_file(copy, path, bytes)
    with pytest.raises(ShiftdataError, match=message):
        assert sd.task(copy, "gf_k2_mu10").metadata.columns["severity"][0] == 1
