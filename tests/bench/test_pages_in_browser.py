"""Reports and leaderboards in a real browser: on every screen, in the dark, by keyboard, on paper."""

from __future__ import annotations

import json

import pytest

from shiftdata.bench.leaderboard import Submission, leaderboard
from shiftdata.bench.reporting import report
from tests.bench.submissions import fair, part, submitted, written
from tests.bench.synthetic import made_task, synthetic
from tests.visual import open_page, problems

HOSTILE = '<img src=x onerror="document.title=1"></style><script>document.title=2</script>'


@pytest.fixture(scope="module")
def pages(tiny, tmp_path_factory):
    """A report of several kinds of tables and a board, full of hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    methods = {"erm": (0.9, 0.4), "rwg": (0.85, 0.65), HOSTILE: (0.9, 0.9), "w" * 300: (0.5, 0.5)}
    methods |= {f"method-{number}": (0.5, number / 20) for number in range(12)}
    words = [
        "uda source=kind0 target=kind1",
        "uda source=kind1 target=kind2",
        "uda source=kind2 target=kind0",
    ]
    words += ["group-fairness k=2 mu=0.2", "group-fairness k=4 mu=0.2", "group-fairness k=4 mu=0.5"]
    tasks = {protocol: made_task(protocol) for protocol in words}
    records = synthetic(
        folder / "sweep", tasks=tasks, methods=methods, trials=1, seeds=2, steps=[1], commit=HOSTILE
    )
    asked = json.loads((folder / "sweep" / "sweep.json").read_text()) | {"about": HOSTILE}
    (folder / "sweep" / "sweep.json").write_text(json.dumps(asked))
    (folder / "report.html").write_text(report(records, ["last"]).to_html(), encoding="utf-8")
    task = fair(tiny)
    (folder / "sent").mkdir()
    for name, share in (("low", 0.3), ("high", 0.95), (HOSTILE, 0.6), ("w" * 200, 0.5)):
        sent = submitted(task, [part(task, "test", share)], method=name, code=HOSTILE)
        written(folder / "sent", f"{name[:4].strip('<')}.parquet", sent)
    refused = submitted(task, method=HOSTILE)
    written(folder / "sent", "refused.parquet", Submission(refused.card, refused.rows.slice(1)))
    board = leaderboard(folder / "sent", data=tiny.parent)
    (folder / "board.html").write_text(board.to_html(), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "title"), [("report.html", "Report on made"), ("board.html", "Leaderboard")]
)
def test_everybody_can_use_the_page_on_every_screen(chromium, pages, name, title):
    with open_page(chromium, (pages / name).as_uri()) as (page, watch):
        assert page.title() == title
        assert problems(page, watch) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "board.html"])
def test_hostile_names_are_texts(chromium, pages, name):
    with open_page(chromium, (pages / name).as_uri()) as (page, _):
        assert page.locator("img, script, main style").count() == 0
        assert page.get_by_text(HOSTILE).count() > 0


@pytest.mark.slow
def test_contents_lead_to_sections_by_keyboard(chromium, pages):
    with open_page(chromium, (pages / "report.html").as_uri()) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.locator(".toc a", has_text="Paired comparisons").focus()
        page.keyboard.press("Enter")
        assert page.get_by_role("heading", name="Paired comparisons").bounding_box()["y"] < 450
