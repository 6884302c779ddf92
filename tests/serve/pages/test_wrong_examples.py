"""Every example that a method gets wrong is on the page of predictions, two clicks from its top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.evaluation.tasks.comparison import Comparison
from shiftdata.serve.pages import predictions_page as predictions
from shiftdata.serve.pages.predictions_page import predictions_page as write_page
from tests.serve.pages.test_predictions import random_predictions, task_of, truth

TITLES = "(links) => links.map((link) => link.title)"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "PART", 2)
    monkeypatch.setattr(predictions, "RIGHT", 1)


@pytest.fixture
def task(built: Path) -> sd.Task:
    return task_of(built, "tiny", "")


def keys_of_group(task: sd.Task, group: str) -> list[str]:
    metadata, name = task.metadata, task.set_of("test")
    rows = zip(task.keys(name), task.rows(name), strict=True)
    return [key for key, row in rows if metadata.group_name(int(metadata.group[row])) == group]


def settled(page: Any) -> None:
    page.wait_for_selector("#gallery[aria-busy=false]")


def shown_keys(page: Any) -> list[str]:
    """The keys of all pages of the chosen group and filter; each page is one choice away from the others."""
    keys = list[str]()
    for value in page.locator("[name=page] option").evaluate_all("(all) => all.map((node) => node.value)"):
        if page.is_visible("[name=page]"):  # there are several
            page.select_option("[name=page]", value)
        settled(page)
        keys += page.locator("#examples a").evaluate_all(TITLES)
    return keys


@pytest.mark.parametrize("words", ["", "label-shift alpha=0.1 seed=1 replacement=true"])
def test_examples_are_all_that_any_method_gets_wrong_once_and_a_few_others(built, words):
    task = task_of(built, "tiny", words)
    compared = Comparison.of(task, {"a": random_predictions(task, 1, 0.1), "b": random_predictions(task, 2)})
    for group, places in compared.examples(1).items():
        wrong = (compared.group == group) & (compared.wrong > 0)
        shown = compared.rows[places].tolist()
        assert len(shown) == len(set(shown))
        assert set(compared.rows[wrong].tolist()) <= set(shown)
        assert len(shown) <= len(set(compared.rows[wrong].tolist())) + 1
        order = [(-int(which).bit_count(), int(which)) for which in compared.wrong[places]]
        assert order == sorted(order)


def test_two_clicks_lead_to_every_wrong_example_of_the_worst_group(page, task, tmp_path):
    given = {"erm": random_predictions(task, 1, 0.1), "rwg": random_predictions(task, 2, 0.5)}
    page.goto(write_page(task, given, tmp_path / "page").as_uri())
    page.wait_for_selector("#examples li")
    worst = page.locator("main table").first.locator("a").nth(1)  # of the second method
    name = worst.inner_text()
    before = len(page.asked)
    worst.click()
    page.locator("#group", has_text=name).wait_for()
    page.locator("#choice option[value=wrong-1]:checked").wait_for(state="attached")
    wanted = {key for key in keys_of_group(task, name) if given["rwg"][key] != truth(task)[key]}
    assert len(wanted) > predictions.PART
    assert page.locator("#examples a").count() == predictions.PART
    shown = shown_keys(page)
    assert len(shown) == len(set(shown))
    assert set(shown) == wanted
    asked = [url for url in page.asked[before:] if url.endswith(".js")]
    assert len(asked) == len(set(asked))
    assert page.wrong == []


RIGHT: dict[str, Callable[[list[bool]], bool]] = {
    "any": lambda right: not all(right),
    "wrong-0": lambda right: not right[0],
    "wrong-2": lambda right: not right[2],
    "all": lambda right: not any(right),
    "only-1": lambda right: right == [False, True, False],
    "not-2": lambda right: right == [True, True, False],
}


@pytest.mark.slow
def test_a_filter_shows_the_examples_that_its_name_says(page, task, tmp_path):
    given = {name: random_predictions(task, at, 0.5) for at, name in enumerate(("a", "b", "c"))}
    page.goto(write_page(task, given, tmp_path / "page").as_uri())
    page.wait_for_selector("#examples li")
    keys = keys_of_group(task, page.inner_text("#group"))
    right = {key: [labels[key] == truth(task)[key] for labels in given.values()] for key in keys}
    for value, fits in RIGHT.items():
        wanted = {key for key in keys if fits(right[key])}
        option = page.locator(f"[name=filter] option[value={value}]")
        if not wanted:
            assert option.count() == 0
            continue
        assert option.inner_text().endswith(f"({len(wanted)})")
        page.select_option("[name=filter]", value)
        settled(page)
        assert set(shown_keys(page)) == wanted, value
    for link in page.locator("#examples a").all():
        said = link.get_attribute("aria-label")
        key = link.get_attribute("title")
        for (name, labels), is_right in zip(given.items(), right[key], strict=True):
            assert f"{name} right" in said if is_right else f"{name} wrong: {labels[key]}" in said
    assert page.wrong == []


@pytest.mark.slow
def test_an_example_that_was_drawn_twice_counts_twice(page, built, tmp_path):
    task = task_of(built, "tiny", "label-shift alpha=0.1 seed=1 replacement=true")
    compared = Comparison.of(task, {"erm": random_predictions(task, 1, 0.1)})
    drawn = Counter(compared.rows[~compared.right("erm")].tolist())
    assert max(drawn.values()) > 1
    page.goto(write_page(task, {"erm": random_predictions(task, 1, 0.1)}, tmp_path / "page").as_uri())
    page.wait_for_selector("#examples li")
    counted = 0
    for link in page.locator("#list tbody a").all():
        link.click()
        page.locator("#group", has_text=link.inner_text()).wait_for()
        settled(page)
        option = page.locator("[name=filter] option[value=any]")
        counted += int(option.inner_text().rpartition("(")[2].strip(")")) if option.count() else 0
    assert counted == sum(drawn.values())
    shown = page.locator("#examples").inner_text()
    assert "drawn" in shown or all(count == 1 for count in drawn.values())
    assert page.wrong == []
