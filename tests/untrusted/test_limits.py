from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shiftdata.errors import InputError, IntegrityError, LimitError, NotFoundError
from shiftdata.untrusted import limits
from shiftdata.untrusted.limits import LIMITS, VARIABLE, check, check_unpacked, most, raised
from shiftdata.untrusted.texts import read_json


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    """The variable is read once a process."""
    monkeypatch.setattr(limits, "_now", {})


def test_an_error_names_file_finding_limit_and_remedy_which_helps():
    text = "[" * 200 + "]" * 200
    with pytest.raises(
        LimitError, match=r"^p.json is nested too deeply: at most 100 levels are read"
    ) as raised_:
        read_json(text, "p.json")
    remedy = str(raised_.value).partition('SHIFTDATA_LIMITS="')[2].removesuffix('"')
    assert remedy == "json_depth=200"
    code = f"from shiftdata.untrusted.texts import read_json; read_json({text!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {VARIABLE: remedy})
    with raised(json_depth=200):
        read_json(text)
    with pytest.raises(IntegrityError):
        read_json(text)


def test_limits_are_raised_by_variable(monkeypatch):
    monkeypatch.setenv(VARIABLE, "parquet_bytes=8e9, picture_pixels=4e8,")
    assert (most("parquet_bytes"), most("picture_pixels")) == (8_000_000_000, 400_000_000)
    assert most("json_depth") == LIMITS["json_depth"].default
    with raised(parquet_bytes=9):
        assert most("parquet_bytes") == 9


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("parquet_byts=1", NotFoundError, "SHIFTDATA_LIMITS: unknown limit 'parquet_byts'; did you mean"),
        ("json_bytes", InputError, "SHIFTDATA_LIMITS has 'json_bytes': give names and numbers, such as"),
        ("json_bytes=x", InputError, "SHIFTDATA_LIMITS has 'json_bytes=x': give names and numbers"),
        ("json_bytes=-1", InputError, "the limit json_bytes is -1.0: give a number from 1 on"),
        ("json_bytes=nan", InputError, "the limit json_bytes is nan"),
    ],
)
def test_a_bad_variable_says_what_it_has(monkeypatch, value, error, message):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(error, match=message):
        most("json_bytes")


def test_what_unpacks_is_allowed_by_its_size():
    with raised(archive_bytes=1000, archive_ratio=10):
        check_unpacked("archive", 1000, 1, "x.gz")
        check_unpacked("archive", 2000, 200, "x.gz")
        with pytest.raises(LimitError, match=r"^x.gz would unpack 200 bytes to 2,001 or more: at most 2,000"):
            check_unpacked("archive", 2001, 200, "x.gz")
        with raised(archive_bytes=2001):
            check_unpacked("archive", 2001, 200, "x.gz")
    with pytest.raises(LimitError, match="at most 30,000 columns are read"):
        check("csv_columns", 30_001, "x.csv")
