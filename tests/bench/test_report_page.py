"""The page: one file, nothing from elsewhere, everything escaped, a table under each chart."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from shiftdata.bench.reporting import report
from tests.bench.synthetic import made_task, synthetic
from tests.evaluation.protocols.made import metadata

HOSTILE = ('<script>alert("x")</script>', "$\\frac{$ & co", "=cmd|' /C calc'!A0", "_under | pipe")


class Page(HTMLParser):
    """A page's links and elements, which must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.refers: list[str] = []
        self.elements: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.charts: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        of = dict(attrs)
        self.elements.append(tag)
        self.refers += [of[name] for name in ("href", "src", "xlink:href", "srcset", "action") if name in of]
        self.ids += [of["id"]] if "id" in of else []
        self.charts += [of] if tag == "svg" else []
        assert not [name for name in of if name.startswith("on")]
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    of = metadata(3, HOSTILE, 30, shared=False)
    tasks = {f"leave-one-domain-out test={n}": made_task_of(of, name) for n, name in enumerate(HOSTILE)}
    skills = {"erm": (0.8, 0.6), HOSTILE[0]: (0.9, 0.9)}
    records = synthetic(
        tmp_path_factory.mktemp("page"),
        tasks=tasks,
        methods=skills,
        trials=1,
        backbone=HOSTILE[0],
        commit=HOSTILE[0] + "\x1b[31m",
    )
    return report(records, ["last"])


def made_task_of(of, name):
    import shiftdata as sd

    return sd.task(of, "leave-one-domain-out", test=name)


def test_the_page_needs_nothing_else(page):
    text = page.to_html()
    read = Page(text)
    assert not read.open
    assert {"script", "img", "image", "iframe", "object", "base", "form"}.isdisjoint(read.elements)
    inside = [address for address in read.refers if address.startswith("#")]
    assert read.refers == ["data:,", *inside]  # no icon is asked for
    assert {anchor[1:] for anchor in inside} <= set(read.ids)
    assert not re.search(r"@import|url\((?!#)", text)


def test_each_chart_says_what_it_shows_and_has_its_table(page):
    read = Page(page.to_html())
    assert len(read.charts) == 1
    assert "Accuracy, %, by test domain" in (read.charts[0]["aria-label"] or "")
    assert read.elements.count("table") == sum(len(t.blocks) for s in page.sections for t in s.tables)
    assert len(read.ids) == len(set(read.ids))


def test_csv_runs_nothing_in_a_spreadsheet(tmp_path):
    records = synthetic(tmp_path, tasks={"=1+1": made_task()}, trials=1)
    assert ",'=1+1," in report(records, ["last"]).to_csv()
