"""`shiftdata published`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.cli.app import main


def test_papers_and_tables_are_listed(capsys):
    assert main(["published"]) == 0
    out = capsys.readouterr().out
    assert "nico++: X. Zhang" in out
    assert "  11 " in out
    assert main(["published", "rlsbench"]) == 0
    assert "left out, line" in capsys.readouterr().out


def test_a_table_is_shown_exported_drawn_and_ranked(tmp_path, capsys):
    assert main(["published", "nico++", "3"]) == 0
    assert "76.10" in capsys.readouterr().out
    assert main(["published", "nico++", "3", "--format", "latex", "--output", str(tmp_path / "t.tex")]) == 0
    assert "\\toprule" in (tmp_path / "t.tex").read_text()
    assert main(["published", "nico++", "3", "--picture", str(tmp_path / "t.png")]) == 0
    assert (tmp_path / "t.png").stat().st_size > 10_000
    capsys.readouterr()
    assert main(["published", "nico++", "3", "--row", "Avg.", "--rank"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "Oracle"


def test_a_check_prints_counts_and_findings(tmp_path, capsys):
    assert main(["published", "--check"]) == 0
    out = capsys.readouterr().out
    assert "SagNet, OfficeHome" in out
    assert main(["published", "cns-bench", "--check", "--strict"]) == 0
    assert main(["published", "sma", "--check", "--strict"]) == 1
    assert (
        main(["published", "sma", "2", "--check", "--format", "csv", "--output", str(tmp_path / "f.csv")])
        == 0
    )
    assert "42620" in (tmp_path / "f.csv").read_text()


def test_damaged_data_are_told_and_give_an_exit_status(tmp_path, capsys):
    rows = sd.published("sma", 3).rows.to_pylist()
    rows[5] |= {"printed": "60.44±1.9", "value": 60.44}
    pq.write_table(pa.Table.from_pylist(rows, sd.published("sma").rows.schema), tmp_path / "mine.parquet")
    assert main(["published", "--check", "--file", str(tmp_path / "mine.parquet")]) == 1
    err = capsys.readouterr().err
    assert "damaged: sma, table 3" in err
    assert "Airplanes, K=4, Top-3 Worst Acc. 60.44±1.9 (extracted: 70.74±2.7)" in err


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["nico"], "unknown paper 'nico'"),
        (["nico++", "99"], "unknown table '99'"),
        (["--check", "--row", "x"], "--check needs whole tables"),
        (["--check", "--format", "latex"], "findings are printed as"),
        (["--file", "absent.parquet"], "no readable Parquet"),
    ],
)
def test_bad_words_are_answered(words, match, capsys):
    assert main(["published", *words]) == 1
    assert match in capsys.readouterr().err
