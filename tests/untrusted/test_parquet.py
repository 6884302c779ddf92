"""Files of strangers that would fill the memory: refused by what they declare, and by what they give."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shiftdata.errors import InputError, IntegrityError, LimitError, NotFoundError
from shiftdata.evaluation.tasks.predictions import read_prediction_file
from shiftdata.evaluation.verify import verify
from shiftdata.files import sha256_of
from shiftdata.untrusted.limits import raised
from shiftdata.untrusted.parquet import ParquetReader, read_footer, read_parquet
from tests.bombs import growth, with_small_footer, write_equal_rows
from tests.tiny import edit_file, edit_manifest

#: Bytes by which a process may grow that is given a file of equal rows; each took a gigabyte.
MOST_GROWTH = 300 << 20


def with_dropped(folder: Path, rows: int, base: str = "mini") -> Path:
    """Let a dataset list equal rows as dropped, and its manifest count them."""
    path = write_equal_rows(folder / "dropped.parquet", {"base": base, "key": "k", "reason": "r"}, rows)
    record = {"bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": rows}

    def change(raw: dict[str, Any]) -> None:
        raw["files"] = dict(sorted({**raw["files"], path.name: record}.items()))
        (forged,) = (entry for entry in raw["bases"] if entry["name"] == base)
        forged |= {"dropped": {"r": rows}, "dropped_id": "0" * 64}

    edit_manifest(folder, change)
    return path


def test_equal_rows_of_what_was_dropped_do_not_fill_the_memory(tiny, copy):
    assert with_dropped(copy, 12_000_000).stat().st_size < 300_000
    begin = "import shiftdata as sd\nassert sd.verify(sys.argv[2]) == []"
    code = "print(*[problem.what for problem in sd.verify(sys.argv[1]) if problem.path == 'dropped.parquet'])"
    bytes_more, printed = growth(begin, code, copy, tiny)
    assert printed.startswith("would unpack")
    assert "12,000,000 rows" in printed
    assert bytes_more < MOST_GROWTH


def test_equal_rows_of_predictions_do_not_fill_the_memory(tiny, tmp_path):
    bomb = write_equal_rows(tmp_path / "bomb.parquet", {"key": "k", "prediction": "p"}, 30_000_000)
    assert bomb.stat().st_size < 600_000
    begin = """
import shiftdata as sd
from shiftdata.errors import InputError
task = sd.task(sys.argv[1], "group-fairness", k=2, mu=0.2)
"""
    code = """
try:
    task.evaluate(sys.argv[2])
except InputError as error:
    print(error)
"""
    bytes_more, printed = growth(begin, code, tiny, bomb)
    assert "30,000,000 rows" in printed
    assert "at most 1,000,000 rows are read" in printed
    assert bytes_more < MOST_GROWTH


def test_a_flat_file_is_read_as_it_is(tmp_path):
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", "é"]))
    table = pa.table(
        {
            "text": ["x", None, "", "long" * 100],
            "category": categories,
            "bytes": pa.array([b"1", b"", None, b"2"], pa.binary()),
            "number": [1.5, None, float("nan"), 0.0],
            "whole": pa.array([1, 2, None, 4], pa.int8()),
            "truth": [True, False, None, True],
            "empty": pa.nulls(4),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3)
    wanted = table.set_column(1, "category", categories.cast(pa.string()))
    for names in (table.column_names, ["number", "text"]):
        read = read_parquet(tmp_path / "x.parquet", names, most_rows=4)
        assert read.to_pandas().equals(wanted.select(names).to_pandas())
        assert read.schema.types == wanted.select(names).schema.types
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert len(read_parquet(tmp_path / "none.parquet", ["text", "category"], most_rows=0)) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"other": [1]}, "has 0 columns 'key'"),
        ({"key": [[1, 2]]}, r"has list<.*> in its column 'key': give numbers or texts"),
        ({"key": ["a"] * 11}, "has 11 rows or more in .* bytes: at most 10 rows are read"),
        ({"key": ["a"], **{f"c{n}": [0] for n in range(31)}}, "has 32 columns: at most 30 columns are read"),
        ({"key": ["x" * 300_000] * 10}, "would unpack .* bytes to 10 rows of 3,000,000 bytes or more"),
    ],
)
def test_a_file_that_is_not_read_says_why(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with (
        raised(parquet_bytes=1 << 20, parquet_columns=30),
        pytest.raises(IntegrityError, match=f"x.parquet {message}"),
    ):
        read_parquet(tmp_path / "x.parquet", ["key"], most_rows=10)


def test_predictions_that_cannot_be_read_say_why_once(tmp_path):
    pq.write_table(pa.table({"prediction": [[1, 2]], "key": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"^predictions: x.parquet has list<.*; give the columns key and"):
        read_prediction_file(tmp_path / "x.parquet", 10)
    with pytest.raises(NotFoundError, match=r"^there are no predictions at .*other.parquet: name a file"):
        read_prediction_file(tmp_path / "other.parquet", 10)


def test_pages_are_larger_than_the_footer_says(tmp_path):
    """A reader makes room for a page by its own header."""
    path = tmp_path / "x.parquet"
    zeros = pa.table({"number": np.zeros(8_000_000), "key": pa.repeat("k", 8_000_000)})
    pq.write_table(zeros, path, use_dictionary=["key"], compression="zstd", row_group_size=8_000_000)
    check(path)
    path.write_bytes(with_small_footer(path.read_bytes()))
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 1
    with pytest.raises(LimitError, match=r"unpack its column 'number' to 64,\d+,\d+ bytes, and 1 by its"):
        read_parquet(path, ["number"])


def check(path: Path) -> None:
    with ParquetReader(path) as file:
        file.check()


@pytest.mark.parametrize(
    ("version", "compression"),
    [("1.0", "none"), ("1.0", "snappy"), ("2.0", "zstd"), ("2.0", "gzip"), ("2.0", "lz4")],
)
def test_headers_of_pages_are_read_whatever_they_have(tmp_path, version, compression):
    count = 2_000
    table = pa.table(
        {
            "text": [f"{number}" * 20 for number in range(count)],
            "long": ["x" * 5_000, None] * (count // 2),
            "lists": [[number, None] for number in range(count)],
            "records": [{"a": number, "b": str(number)} for number in range(count)],
            "truth": [True, None] * (count // 2),
        }
    )
    for options in ({}, {"write_page_checksum": True}, {"write_page_index": True}, {"use_dictionary": False}):
        path = tmp_path / "x.parquet"
        pq.write_table(table, path, compression=compression, data_page_version=version, **options)
        check(path)
        if compression != "none":
            path.write_bytes(with_small_footer(path.read_bytes()))
            with pytest.raises(LimitError, match="would unpack its column 'text'"):
                check(path)


def test_damaged_headers_of_pages_are_errors(tmp_path):
    path, draw = tmp_path / "x.parquet", random.Random(0)
    pq.write_table(pa.table({"a": [1.5, 2.5], "b": ["x", "y"]}), path)
    whole = path.read_bytes()
    start = whole.index(b"PAR1", 4) - int.from_bytes(whole[-8:-4], "little") - 4
    footer, seen = pq.read_metadata(path), set()
    for _ in range(2_000):
        damaged = bytearray(whole)
        damaged[draw.randrange(4, start)] = draw.randrange(256)
        try:
            with ParquetReader(io.BytesIO(damaged), "it", footer=footer) as file:
                file.check()
        except IntegrityError as error:
            seen.add(str(error)[:21])
    assert {"it has a damaged page", "it would unpack its c"} <= seen


def test_verify_names_a_table_whose_footer_is_false(copy):
    path = "metadata/mini/train.parquet"
    edit_file(copy, path, with_small_footer)
    (problem, *_) = [problem for problem in verify(copy) if problem.path == path]
    assert "and 1 by its footer: it is not read" in problem.what


def test_an_archive_called_an_array_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", np.zeros(40_000_000))
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"x.npy cannot be read as npy: the magic string is not correct"):
        read_prediction_file(tmp_path / "x.npy", 10)


def refused(path: Path, columns: list[str] | None = None) -> str:
    with pytest.raises(LimitError) as error:
        read_parquet(path, columns)
    return str(error.value)


def test_one_text_of_every_row_is_counted_before_it_is_decoded(tmp_path):
    path = write_equal_rows(tmp_path / "x.parquet", {"text": "x" * 100_000, "number": 1.0}, 100_000)
    assert "of 10,000,000,000 bytes or more: at most 268,435,456 bytes are read" in refused(path, ["text"])
    assert len(read_parquet(path, ["number"])) == 100_000


def test_a_picture_of_every_row_is_counted(tmp_path):
    pictures = pa.array([{"bytes": b"x" * 50_000}] * 200)
    pq.write_table(pa.table({"image": pictures}), path := tmp_path / "x.parquet")
    assert path.stat().st_size < 50_000
    with raised(parquet_bytes=1 << 20):
        assert "200 rows" in refused(path)
    assert len(read_parquet(path)) == 200


def test_prefixes_of_texts_are_refused(tmp_path):
    table, path = pa.table({"text": ["x" * 10_000 + str(n) for n in range(1_000)]}), tmp_path / "x.parquet"
    options = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    for version in ("1.0", "2.0"):
        pq.write_table(table, path, data_page_version=version, **options)
        assert path.stat().st_size < 1 << 20
        assert "DELTA_BYTE_ARRAY" in refused(path)


def test_a_long_footer_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + bytes(20 << 20) + (20 << 20).to_bytes(4, "little") + b"PAR1")
    assert "x.parquet has a footer of 20,971,528 bytes: at most 16,777,216 bytes are read" in refused(path)


def test_raised_limits_let_a_file_through(tmp_path):
    path = write_equal_rows(tmp_path / "x.parquet", {"key": "k"}, 40_000_000)
    assert 'set SHIFTDATA_LIMITS="parquet_bytes=' in refused(path)
    with raised(parquet_bytes=2 << 30), ParquetReader(path) as file:
        assert sum(map(len, file.batches(count=1 << 20))) == 40_000_000


def test_verify_names_params_that_unpack_to_too_much(copy):
    """They are read apart from the other columns, and last."""
    path = copy / "metadata/mini/train.parquet"
    rows = pq.read_table(path)
    place = rows.schema.get_field_index("params")
    params = pa.array(["[" * 100_000] * len(rows))
    pq.write_table(rows.set_column(place, rows.schema.field(place), params), path)
    edit_file(copy, "metadata/mini/train.parquet", bytes)
    with raised(parquet_bytes=1 << 20):
        (problem, *_) = [problem for problem in verify(copy) if "would unpack" in problem.what]
    assert problem.path == "metadata/mini/train.parquet"


def test_rows_of_an_honest_large_table_are_read(tmp_path):
    count = 300_000
    keys = [f"bird-{number:06}--leaves" for number in range(count)]
    columns = {"key": keys, "license": ["CC0-1.0"] * count, "fold": np.arange(count) % 100}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=20_000, compression="zstd")
    read = read_parquet(tmp_path / "x.parquet", ["license", "key"])
    assert (len(read), read.column_names, read["key"][-1].as_py()) == (count, ["license", "key"], keys[-1])


def test_a_stream_stays_open_for_whoever_opened_it(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    with path.open("rb") as stream:
        footer = read_footer(stream, "x")
        with ParquetReader(stream, "x", footer=footer, far=True) as table:
            assert table.read().to_pydict() == {"x": [1, 2]}
        assert not stream.closed
