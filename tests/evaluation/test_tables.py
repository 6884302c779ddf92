"""Tables: every form holds every cell, and no name is read as markup, a command or a formula."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest

from shiftdata.tables import Block, Cell, Table, csv_text

HOSTILE = "<b>50% of $x_1$ & =cmd|'/C calc'"
TABLE = Table.plain(
    "Gains", ["method", "accuracy", "verdict"], [[HOSTILE, "84.1±0.3", "higher"]], ["A note."]
)


class Cells(HTMLParser):
    """The texts of a table's cells, with their classes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_no_form_reads_a_name_as_its_own():
    page = Cells(TABLE.html())
    assert "b" not in page.tags
    assert {HOSTILE, "84.1", "±0.3", "higher"} <= set(page.texts)
    assert r"=cmd\|'/C" in TABLE.markdown()
    rows = list(csv.reader(io.StringIO(csv_text([["method"], ["=1+1"], [None], [-1.5]]))))
    assert rows == [["method"], ["'=1+1"], [""], ["-1.5"]]


def test_columns_of_numbers_stand_to_the_right():
    lines = TABLE.text().split("\n\n")[1].splitlines()
    assert lines[0].rstrip().endswith("accuracy  verdict")
    assert lines[1].endswith("84.1±0.3  higher")
    assert TABLE.blocks[0].numeric == [False, True, False]
    assert Block(("", "n"), ()).numeric == [False, True]


@pytest.mark.parametrize("drawn", [True, False])
def test_a_chart_has_the_most_frequent_unit(drawn):
    cells = {("", method, column): Cell("1", "accuracy", "%") for method in "ab" for column in "xy"}
    cells |= {("", method, "rank"): Cell("2", "rank", "rank") for method in "ab"}
    table = Table.of("Domains", cells, corner="domain", order=("y", "x", "rank"), drawn=drawn)
    assert table.blocks[0].header == ("domain", "y", "x", "rank")
    assert [block.header for block in table.drawn] == [("domain", "y", "x")] * drawn
    assert table.label == ("accuracy (%)" if drawn else "%")
