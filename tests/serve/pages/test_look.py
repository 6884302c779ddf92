"""What the views of a dataset show in a real browser: long names, heat maps of tasks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.serve.pages.pages import tasks_of
from shiftdata.serve.pages.site import write_gallery
from tests.tiny import edit_manifest
from tests.visual import SCREENS, at_size, check, open_page


@pytest.mark.slow
def test_long_names_do_not_widen_a_narrow_page(chromium, built, tmp_path):
    shutil.copytree(built / "shift" / "tiny", tmp_path / "tiny")

    def change(raw: dict[str, Any]) -> None:
        raw["labels"][0], raw["nuisances"][0] = "l" * 110, "n_" * 55
        raw["title"] = raw["summary"] = raw["credits"][0]["attribution"] = "w" * 300

    edit_manifest(tmp_path / "tiny", change)
    write_gallery([tmp_path / "tiny"], tmp_path / "site", each=1)
    for path in ("index.html", "tiny/index.html#label=0&nuisance=0", "tiny/example.html"):
        with open_page(chromium, f"file://{tmp_path}/site/{path}") as (page, _):
            at_size(page, SCREENS[0], "light")
            assert check(page, ["too wide", "broken words", "cut"]) == [], path


#: Text and shade of every square of each heat map, by its caption.
HEATS = """(maps) => maps.map((one) => [one.caption.innerText, [...one.querySelectorAll("tbody td")]
  .map((cell) => [cell.innerText, cell.className])])"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "tiny_continuous", "tiny_table"])
def test_the_first_view_of_tasks_shows_heat_maps(page, site, built, name, monkeypatch):
    page.goto((site / name / "index.html").as_uri())
    page.wait_for_selector("#heats table")
    manifest = sd.open_dataset(built / "shift" / name).manifest
    first = manifest.canonical_splits[0]
    task = sd.task(built / "shift" / name, first.name, base=first.base)
    assert page.inner_text("#task-title") == task.report().task
    for caption, squares in page.locator("#heats table").evaluate_all(HEATS):
        assert any(text for text, _ in squares), caption
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    scope: dict[str, Any] = {}
    exec(page.text_content("#task-code"), scope)
    assert scope["task"].content_id() == task.content_id()


def test_the_first_task_without_canonical_splits_is_of_the_default_base(built):
    manifest = sd.open_dataset(built / "shift" / "tiny").manifest
    assert manifest.default_base != manifest.bases[0].name
    assert tasks_of(replace(manifest, canonical_splits=()))[0] == (manifest.default_base, "")


@pytest.mark.slow
def test_untouched_rows_have_a_column(page, site, built):
    dataset = sd.open_dataset(built / "shift" / "tiny")
    counts = {name: len(rows) for name, rows in sd.task(dataset, None, base="content").sets.items()}
    page.goto(f"{(site / 'tiny' / 'index.html').as_uri()}#task=&taskbase=content")
    page.wait_for_selector("#heats table")
    assert set(page.locator("#heats thead th").all_inner_texts()) == {"untouched"}
    shown = page.locator("#heats table").evaluate_all(HEATS)
    assert [sum(int(text or 0) for text, _ in squares) for _, squares in shown] == list(counts.values())


@pytest.mark.slow
def test_only_departure_from_balance_has_a_colour(page, site):
    page.goto((site / "tiny" / "index.html").as_uri())
    page.wait_for_selector("#heats table")
    skewed, *balanced = page.locator("#heats table").evaluate_all(HEATS)
    assert {shade for _, squares in balanced for text, shade in squares if text} == {"s2"}
    shades = {int(text): shade for text, shade in skewed[1] if text}
    few, many = shades[min(shades)], shades[max(shades)]
    assert few.startswith("fewer ")
    assert not many.startswith("fewer ")
    assert "hatched" in page.inner_text("#task-legend")
