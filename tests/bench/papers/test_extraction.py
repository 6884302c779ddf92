"""Reading tables out of text as conversion leaves it, with made-up numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.paths import ROOT

SCRIPTS = ROOT / "scripts" / "regenerate_published"


@pytest.fixture
def read(monkeypatch):
    """The readers, which are a script and no package."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    for name in ("nico", "sma"):  # recipes have these names too
        monkeypatch.delitem(sys.modules, name, raising=False)
    import nico
    import reading
    import rlsbench
    import sma

    return {"reading": reading, "nico": nico, "sma": sma, "rlsbench": rlsbench}


def cells(table) -> list[tuple[str, str, str, str]]:
    return [(cell.part, cell.row, cell.column, cell.printed) for cell in table.cells]


def test_scenarios_get_their_full_names_and_the_mean_its_spread(read):
    text = read["reading"].Text(
        (
            "Following are the 20 categories", "", "- wave", "- arts and crafts", "- cloud", "", "Prose.",
            "Scenario\tDANN\tCDAN", r"<i>CATS arts_and_cr... → wave</i>" + "\t70.10\t71.30",
            r"<i>CATS</i> cloud \rightarrow wave" + "\t72.10\t73.30",
            "CATS mean\t71.10 ± 1.00\t72.30 \\pm 1.00",
            "", "Table 4: Accuracy over CATS",
        )
    )  # fmt: skip
    table = read["sma"]._scenarios(text, 4, read["sma"]._styles(text))
    assert cells(table) == [
        ("CATS", "arts and crafts → wave", "DANN", "70.10"),
        ("CATS", "arts and crafts → wave", "CDAN", "71.30"),
        ("CATS", "cloud → wave", "DANN", "72.10"),
        ("CATS", "cloud → wave", "CDAN", "73.30"),
        ("CATS", "mean", "DANN", "71.10±1.00"),
        ("CATS", "mean", "CDAN", "72.30±1.00"),
    ]


def test_a_torn_header_gives_its_training_domains(read):
    first = "Method\t\tTrainin\tg doma\tins: G,\tWa, R, <i>A</i>\tA, I, Di\t\t\t"
    header = first + "Traini\tng doma\tains: S,\tWa, F\tR, O\t"
    assert read["nico"]._splits(header) == [["G", "Wa", "R", "A", "I", "Di"], ["S", "Wa", "R", "O"]]


UNIQUE = """Table 10: common
Category\twater\tgrass\tsand\trock\tautumn\twinter\tindoor\toutdoor\tdim\tdark\tTotal
cat   1   2\tcat\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t55
dog   1   2\tdog\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t55
Table 11: unique
Category\tUnique Domains\tTotal
cat\tred\tin hole\tc\td\te\tf\tg\th\ti\tj\t65
\t11\t12\t3\t4\t5\t6\t7\t8\t9\t0\t
\tred\tb\t\td\te\tf\tg\th\ti\tj\t55
blurred  1  2  3\t\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t
Table 12: none"""


def test_a_category_without_a_name_is_named_by_elimination_and_torn_names_are_told(read):
    table = read["nico"]._unique(read["reading"].Text(tuple(UNIQUE.split("\n"))))
    assert ("", "cat", "2 in hole", "12") in cells(table)
    assert ("", "dog", "1", "1") in cells(table)
    assert ("", "dog", "Total", "55") in cells(table)
    assert [(place.row, "torn" in place.reason) for place in table.left_out] == [("dog", True)]


def test_a_row_with_too_few_or_cut_numbers_is_left_out_and_named(read):
    lines = (
        "\tSource\tDA\tNN\t", "Dataset\tNone RW\tNone\tRW\tRS\tRS+ RW",
        "Cats\t60.1 61.\t70.1\t71.1\t72.1\t73.1",
        "Dogs\t60.1 61.2\t70.1\t71.1", "", "Table 5. Results",
    )  # fmt: skip
    table = read["rlsbench"]._corrected(read["reading"].Text(lines), "5", "pets")
    assert cells(table) == [
        ("None", "Cats", "Source", "60.1"),
        ("None", "Cats", "DANN", "70.1"),
        ("RW", "Cats", "DANN", "71.1"),
        ("RS", "Cats", "DANN", "72.1"),
        ("RS+RW", "Cats", "DANN", "73.1"),
    ]
    assert [(place.row, place.reason) for place in table.left_out] == [
        ("Cats, Source, RW", "'61.' is cut off"),
        ("Dogs", "4 numbers for 6 columns"),
    ]


def test_a_folder_without_the_papers_is_answered(tmp_path):
    command = [sys.executable, str(SCRIPTS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "contains 0 texts" in done.stderr


@pytest.mark.skipif(
    "SHIFTDATA_PAPERS" not in os.environ, reason="the papers' texts are not part of this repository"
)
def test_the_shipped_numbers_are_what_the_texts_say():
    command = [sys.executable, str(SCRIPTS), os.environ["SHIFTDATA_PAPERS"], "--check"]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
