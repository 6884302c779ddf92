"""Every page looks right: each kind of dataset, from files and served, on each screen, light and dark.

tests/visual.py has the checks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.bench.leaderboard import Submission, leaderboard
from shiftdata.bench.reporting import report
from shiftdata.serve.pages.predictions_page import predictions_page
from shiftdata.serve.pages.rows import Rows
from tests.bench.submissions import fair, part, submitted, written
from tests.bench.synthetic import made_task, synthetic
from tests.serve.pages.test_predictions import random_predictions, task_of
from tests.serve.serving import Running, serving
from tests.shared import made_once
from tests.visual import ask, open_page, problems, problems_without_script

pytestmark = pytest.mark.slow

NAMES = ("tiny", "tiny_continuous", "tiny_table", "tiny_text")
TASKS = {"tiny": "group-fairness k=3 mu=0.25 seed=1", "tiny_continuous": "continuous"}
PROTOCOLS = ("uda source=kind0 target=kind1", "group-fairness k=2 mu=0.2", "group-fairness k=4 mu=0.5")


@pytest.fixture(scope="session")
def served(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A mirror of all kinds of datasets and of a repository that is not ours."""

    def make(folder: Path) -> None:
        shutil.copytree(built / "shift", folder / "shift")
        (folder / "lab" / "notes").mkdir(parents=True)
        (folder / "lab" / "notes" / "README.md").write_text("# Notes\n\nWhat we saw.\n\n- a\n- b\n")

    with serving(made_once(tmp_path_factory, "served", make)) as running:
        yield running


@pytest.fixture(scope="session")
def results(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of predictions, a report and a leaderboard."""

    def make(folder: Path) -> None:
        for name in NAMES:
            task = task_of(built, name, TASKS.get(name, ""))
            given = {"erm": random_predictions(task, 1), "rwg": random_predictions(task, 2, 0.8)}
            if name == "tiny":
                given["group-dro"] = random_predictions(task, 3, 0.75)
            predictions_page(task, given, folder / name)
        records = synthetic(
            folder / "sweep", tasks={words: made_task(words) for words in PROTOCOLS}, trials=1, seeds=3
        )
        (folder / "report.html").write_text(report(records, ["last"]).to_html(), encoding="utf-8")
        task = fair(built / "shift" / "tiny")
        (folder / "sent").mkdir()
        for method, share in {"erm": 0.3, "rwg": 0.6, "group-dro": 0.95}.items():
            sent = submitted(task, [part(task, "test", share, seed) for seed in range(2)], method=method)
            written(folder / "sent", f"{method}.parquet", sent)
        refused = submitted(task, method="incomplete")
        written(folder / "sent", "refused.parquet", Submission(refused.card, refused.rows.slice(1)))
        board = leaderboard(folder / "sent", data=built / "shift")
        (folder / "board.html").write_text(board.to_html(), encoding="utf-8")

    return made_once(tmp_path_factory, "results", make)


def views(built: Path, site: Path, name: str) -> list[str]:
    """The pages of a dataset in the states in which somebody meets them."""
    rows = Rows.of(dataset := sd.open_dataset(built / "shift" / name), dataset.manifest.default_base)
    row = next(iter(rows.sample(3).values()))[0]
    states = {
        "index.html": ["", "#label=0&nuisance=0"],
        "example.html": [f"#base={rows.base}&key={rows.details([row])[0]['key']}"],
    }
    pages = sorted(path.name for path in (site / name).glob("*.html"))
    return [f"{page}{state}" for page in pages for state in states.get(page, [""])]


def wrong(chromium: Any, url: str) -> list[str]:
    """What is wrong on a page, with scripts and without."""
    with open_page(chromium, url) as (page, watch):
        found = problems(page, watch)
        words, *_ = ask(page, "shownWords()")
    with open_page(chromium, url, script=False, opened=False) as (page, watch):
        return found + [f"no script: {problem}" for problem in problems_without_script(page, watch, words)]


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_a_dataset_from_files(chromium, built, site, name):
    urls = [f"{(site / name).as_uri()}/{view}" for view in views(built, site, name)]
    assert {url: found for url in urls if (found := wrong(chromium, url))} == {}


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_a_dataset_from_a_server(chromium, built, site, served, name):
    start = f"{served.endpoint}/datasets/shift/{name}"
    urls = [f"{start}/{view}".replace("/index.html", "") for view in views(built, site, name)]
    assert {url: found for url in urls if (found := wrong(chromium, url))} == {}


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_predictions(chromium, results, name):
    assert wrong(chromium, (results / name / "index.html").as_uri()) == []


@pytest.mark.parametrize("name", ["report.html", "board.html"])
def test_pages_of_results(chromium, results, name):
    assert wrong(chromium, (results / name).as_uri()) == []


def test_front_pages_and_the_page_of_a_repository(chromium, site, served):
    urls = [(site / "index.html").as_uri(), f"{served.endpoint}/", f"{served.endpoint}/datasets/lab/notes"]
    assert {url: found for url in urls if (found := wrong(chromium, url))} == {}
