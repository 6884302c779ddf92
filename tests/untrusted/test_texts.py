from __future__ import annotations

import csv
import math

import pytest

from shiftdata.errors import LimitError
from shiftdata.untrusted.limits import raised
from shiftdata.untrusted.texts import (
    CsvReader,
    read_csv,
    read_csv_table,
    read_json,
    read_toml,
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("1" * 401, "a number of 401 digits"),
        ("1." + "1" * 401, "a number of 403 digits"),
        ("[" + "0," * 20_000_000 + "0]", "40,000,003 bytes"),
    ],
)
def test_too_much_of_json_is_refused(text, message):
    with pytest.raises(LimitError, match=message):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        '{"a": [-Infinity]}',
        "1e999",
        "[-1E+400]",
        r'"\ud800"',
        r'{"\uDFFF": 1}',
        "1e",
        b'"\xed\xa0\x80"',
    ],
)
def test_what_no_writer_can_write_is_no_json(text):
    with pytest.raises(ValueError):  # noqa: PT011  # each has its own words
        read_json(text)


def test_honest_json_is_read(tmp_path):
    assert read_json(r'["\ud83d\ude00", "\\ud800", "NaN", 1e100, "1e999"]') == [
        "😀",
        r"\ud800",
        "NaN",
        1e100,
        "1e999",
    ]
    flat = "[" + ",".join(['{"a": "]]]"}'] * 1_000) + "]"
    assert len(read_json(flat)) == 1_000
    assert math.isnan(read_json("NaN", constants=True))
    assert read_json('{"a": 1, "a": 2}', pairs=list) == [("a", 1), ("a", 2)]
    path = tmp_path / "x.json"
    path.write_text('\ufeff{"a": "é"}', encoding="utf-8")
    assert read_json(path) == {"a": "é"}


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 1_000) + "=1",
        '["a b"' + ' . "a b"' * 1_000 + "]",
        "x = { " + ".".join("a" * 99) + " = 1}",
    ],
)
def test_long_keys_of_toml_are_refused(text):
    with pytest.raises(LimitError, match="a key of too many parts"):
        read_toml(text)


def test_toml_is_read(tmp_path):
    (tmp_path / "x.toml").write_text('a.b = [0.1, 0.2]\nc = "' + "a." * 200 + '"', encoding="utf-8")
    assert read_toml(tmp_path / "x.toml") == {"a": {"b": [0.1, 0.2]}, "c": "a." * 200}
    with pytest.raises(ValueError, match="nested too deeply"):
        read_toml("a=" + "[" * 100_000)
    with pytest.raises(LimitError, match="at most 1,048,576 bytes are read"):
        read_toml("#" * (2 << 20))


def test_cells_are_read_by_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('\ufefffile,label\na.png,"a\nb"\n\nb.png\nc.png,d,e\n', encoding="utf-8")
    assert read_csv(path) == [
        {"file": "a.png", "label": "a\nb"},
        {"file": "b.png", "label": ""},
        {"file": "c.png", "label": "d"},
    ]
    assert read_csv("a\tb\n" + "x" * 200_000 + "\t1\n", delimiter="\t") == [{"a": "x" * 200_000, "b": "1"}]
    assert read_csv('a\n"b" c\n') == [{"a": "b c"}]
    with pytest.raises(csv.Error):
        list(CsvReader(["a\n", '"b" c\n'], "x"))


@pytest.mark.parametrize(
    ("text", "limit", "message"),
    [
        ("a\n" + "x" * 100, {"csv_field": 50}, "has a line of 50 bytes or more"),
        ('a\n"' + "x\n" * 100, {"csv_field": 50}, "has a row of 51 bytes or more|has a row of 52 bytes"),
        ("a" + ",a" * 30_000, {}, "has 30,001 columns"),
        ("a\n" + "b\n" * 11, {"csv_records": 10}, "has 11 rows"),
    ],
)
def test_too_much_of_a_table_is_refused(text, limit, message):
    with raised(**limit), pytest.raises(LimitError, match=f"x.csv ({message})"):
        read_csv(text, "x.csv")


def test_the_columns_of_a_table_are_counted_before_it_is_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("," * 300_000 + "\n", encoding="utf-8")
    with pytest.raises(LimitError, match=r"^x.csv has 300,001 columns"):
        read_csv_table(path)
    path.write_text("a,b\n" + "1,x\n" * 1_000, encoding="utf-8")
    assert read_csv_table(path).num_rows == 1_000
    assert next(CsvReader(["a;b"], "x", ";")) == ["a", "b"]
