"""Every example that a method gets wrong can be reached on the page of predictions, part by part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.evaluation.tasks.comparison import Comparison
from shiftdata.serve.pages import predictions_page as predictions
from shiftdata.serve.pages.predictions_page import predictions_page as write_page
from tests.serve.pages.test_predictions import random_predictions, task_of, truth

TITLES = "(all) => all.map((one) => one.title.split('\\n')[0])"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(predictions.FIRST, "wrong", 1)
    monkeypatch.setattr(predictions, "PART", 2)


@pytest.fixture
def task(built: Path) -> sd.Task:
    return task_of(built, "tiny", "")


def wrong_by_group(task: sd.Task, given: dict[str, str]) -> dict[str, set[str]]:
    """The keys of each group that a method gets wrong, by the group's name as the page writes it."""
    metadata, found, name = task.metadata, {}, task.set_of("test")
    for key, row in zip(task.keys(name), task.rows(name), strict=True):
        if given[key] != truth(task)[key]:
            found.setdefault(metadata.group_name(int(metadata.group[row])), set()).add(key)
    return found


@pytest.mark.parametrize("words", ["", "label-shift alpha=0.1 seed=1 replacement=true"])
def test_the_parts_of_a_group_hold_all_that_any_method_gets_wrong_once(built, words):
    task = task_of(built, "tiny", words)
    compared = Comparison.of(task, {"a": random_predictions(task, 1, 0.1), "b": random_predictions(task, 2)})
    wrong = ~(compared.right("a") & compared.right("b"))
    for group, parts in compared.shown(1, 4, 2).items():
        shown = compared.rows[np.concatenate(parts)].tolist()
        assert set(compared.rows[wrong & (compared.group == group)].tolist()) <= set(shown)
        assert len(shown) == len(set(shown))
        assert all(len(part) <= predictions.PART for part in parts[1:])


def test_a_click_at_a_time_shows_all_wrong_examples_of_a_group(page, task, tmp_path):
    given = {"erm": random_predictions(task, 1, 0.1), "rwg": random_predictions(task, 2, 0.5)}
    front = write_page(task, given, tmp_path / "page")
    page.goto(front.as_uri())
    page.wait_for_selector("#worst-list .group li")
    group = page.locator("#worst-list .group").first
    wanted = wrong_by_group(task, given["erm"])[group.locator("h3").inner_text()]
    wrong = group.locator(".sides > div").first
    shown = wrong.locator("li").count()
    assert shown == 1 < len(wanted)
    assert f"wrong: {shown} of {len(wanted)}" in wrong.inner_text()
    before = len(page.asked)
    while wrong.locator("button").is_visible():
        shown = wrong.locator("li").count()
        wrong.locator("button").click()
        wrong.locator("li").nth(min(shown + 1, len(wanted) - 1)).wait_for()
    wrong.locator("p", has_text=f"wrong: {len(wanted)} of {len(wanted)}").wait_for()
    assert set(wrong.locator("li").evaluate_all(TITLES)) == wanted
    assert wrong.locator("ul").evaluate("(one) => one === document.activeElement")
    parts = [url for url in page.asked[before:] if "/data/shown/" in url]
    assert len(parts) == len(set(parts)) <= -(-len(wanted) // predictions.PART) + 4
    assert page.wrong == []


def test_an_example_that_was_drawn_twice_counts_twice(page, built, tmp_path):
    task = task_of(built, "tiny", "label-shift alpha=0.1 seed=1 replacement=true")
    compared = Comparison.of(task, {"erm": random_predictions(task, 1, 0.1)})
    drawn = Counter(compared.rows[~compared.right("erm")].tolist())
    assert max(drawn.values()) > 1
    page.goto(write_page(task, {"erm": random_predictions(task, 1, 0.1)}, tmp_path / "page").as_uri())
    page.wait_for_selector("#worst-list .group li")
    while page.locator("#more").is_visible():
        page.click("#more")
        page.wait_for_timeout(100)
    while page.locator("#worst-list button:visible").count():
        page.locator("#worst-list button:visible").first.click()
        page.wait_for_timeout(50)
    heads = page.locator("#worst-list .sides p").all_inner_texts()
    counts = [head.removeprefix("wrong: ").split(" of ") for head in heads if head.startswith("wrong")]
    assert all(shown == total for shown, total in counts)
    assert sum(int(total) for _, total in counts) == sum(drawn.values())
