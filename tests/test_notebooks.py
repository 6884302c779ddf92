"""Objects in a notebook, and the notebooks of the docs."""

from __future__ import annotations

import re
import shutil
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir

import nbformat
import numpy as np
import pyarrow as pa
import pytest

import shiftdata as sd
from shiftdata.evaluation.tasks.task import canonical_task
from shiftdata.notebook import box, line, shown
from tests.bench.synthetic import synthetic
from tests.data.byte_ranges.server import ranges
from tests.paths import ROOT
from tests.tiny import edit_manifest

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


class Shown(HTMLParser):
    """The tables of a fragment, as lists of the texts of their cells, its pictures and its text."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.tables, self.open, self.text = list[list[list[str]]](), list[str](), ""
        self.pictures = list[dict[str, str | None]]()
        self.feed(value._repr_html_())  # type: ignore[attr-defined]
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "style", "link", "iframe")
        assert {name for name, _ in attrs} <= {"style", "scope", "alt", "src"}
        if tag == "img":
            self.pictures.append(dict(attrs))
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if set(self.open) & {"td", "th"}:
            self.tables[-1][-1][-1] += data


@pytest.fixture
def task(tiny: Path) -> sd.Task:
    return sd.task(str(tiny), "group-fairness", k=2, mu=0.1)


def test_a_dataset_shows_its_rows_and_pictures_of_its_groups(tiny):
    opened = sd.open_dataset(tiny)
    seen, about = Shown(opened), Shown(opened.manifest)
    base = opened.manifest.ordered_bases[0]
    assert seen.tables == about.tables
    assert seen.tables[0][1] == [base.name, *(f"{split.rows:,}" for split in base.splits.values())]
    assert (about.pictures, opened.manifest.license in about.text) == ([], True)
    assert len(seen.pictures) == 12
    labels = {picture["alt"].partition(" / ")[0] for picture in seen.pictures}
    assert labels == set(opened.manifest.labels)
    assert all(picture["src"].startswith("data:image/") for picture in seen.pictures)


def test_no_byte_comes_from_elsewhere_and_what_is_wrong_leaves_the_table(tiny, copy):
    with ranges(tiny.parent) as served:
        opened = sd.open_dataset(f"{served.url}/{tiny.name}")
        asked = len(served.bodies)
        assert Shown(opened).pictures == []
        assert len(served.bodies) == asked
    edit_manifest(copy, lambda raw: raw.update(title='<b onload="x">&amp;'))
    opened = sd.open_dataset(copy)
    assert '<b onload="x">&amp;' in Shown(opened).text
    assert len(Shown(opened).pictures) == 12
    for shard in copy.glob("data/**/*.parquet"):
        shard.write_bytes(b"\0" * shard.stat().st_size)
    assert Shown(opened).pictures == []
    assert Shown(opened).tables == Shown(sd.open_dataset(tiny)).tables


def test_a_task_shows_its_sets_and_an_evaluation_its_groups(task):
    seen, counts = Shown(task), np.array(task.report().sets["train"].counts)
    assert [row[0] for row in seen.tables[0][1:]] == list(task.sets)
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    assert [list(map(int, row[1:])) for row in seen.tables[1][1:]] == counts.tolist()

    labels = task.table("test", named=True)["label"].to_pylist()
    result = task.evaluate(np.where(np.arange(len(labels)) % 3 > 0, labels, labels[0]).tolist())
    figures, squares = Shown(result).tables
    assert [row[:2] for row in figures[1:]] == [[n, f"{value:.4f}"] for n, value in result.figures.items()]
    shares = [f"{100 * share:.0f}" for share in result.groups.accuracy]
    assert [text for row in squares[1:] for text in row[1:]] == shares
    assert str(result.groups.worst_group) in Shown(result).text


def test_names_of_strangers_are_text_and_what_is_too_much_is_left_out():
    names = [f"<i>{number}" for number in range(60)]
    rows = pa.table({"key": range(3600), "label": sorted(names * 60), "style": names * 60})
    many, few = (canonical_task(sd.metadata_from_table(rows[:size], nuisance="style")) for size in (3600, 2))
    assert len(Shown(many).tables) == 1  # 3,600 squares could not be read
    assert "<i>0" in Shown(few).text
    assert shown(lambda size: box("a", line("x" * size)))(1_000_000) is None
    assert shown(lambda zero: str(1 / zero))(0) is None


def test_runs_and_records_show_their_results(task, tmp_path):
    run = sd.train(task, "erm", steps=2, seed=0)
    seen = Shown(run)
    assert seen.tables == Shown(run.evaluate()).tables
    assert "small-cnn" in seen.text
    assert repr(run).startswith("<Run of erm: <Task group-fairness")
    made = Shown(synthetic(tmp_path, failed=[("erm", 0, 0)]))
    assert [row[2:] for row in made.tables[0][1:3]] == [
        ["erm", "heads", "6", "5"],
        ["rwg", "heads", "6", "6"],
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_shows_everything_and_nothing_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in nbformat.reads(text, 4).cells if cell.cell_type == "code"]
    assert len(text) <= 150_000
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("image/png" in str(cell.outputs) or "image/jpeg" in str(cell.outputs) for cell in cells) >= 2
    assert not re.search(r'"output_type": "error"|it/s', text)
    assert not {str(place) for place in (gettempdir(), Path.home(), ROOT) if f"{place}/" in text}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_runs(path, demo, tmp_path, monkeypatch):
    shutil.copytree(demo / "out", tmp_path / "build")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("SHIFTDATA_HOME", raising=False)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "regenerate_notebooks", raising=False)
    ran = import_module("regenerate_notebooks").executed(path, tmp_path, {"steps=120": "steps=3"})
    outputs = [output for cell in ran.cells for output in cell.get("outputs", [])]
    assert sum("text/html" in output.get("data", {}) for output in outputs) >= 2
    assert "error:" not in str(outputs)  # of a command
