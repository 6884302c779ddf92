"""`shiftdata published`."""

from __future__ import annotations

import pytest

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
    assert main(["published", "nico++", "3", "--format", "csv"]) == 0
    assert ",76.10" in capsys.readouterr().out
    assert main(["published", "nico++", "3", "--picture", str(tmp_path / "t.png")]) == 0
    assert (tmp_path / "t.png").stat().st_size > 10_000
    capsys.readouterr()
    assert main(["published", "nico++", "3", "--row", "Avg.", "--rank"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "Oracle"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["nico"], "unknown paper 'nico'"),
        (["nico++", "99"], "unknown table '99'"),
    ],
)
def test_bad_words_are_answered(words, match, capsys):
    assert main(["published", *words]) == 1
    assert match in capsys.readouterr().err
