"""What the pages show in a browser without JavaScript: names, counts, pictures and links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.serve.pages import pages
from shiftdata.serve.pages.predictions import Compared
from shiftdata.serve.pages.predictions_page import predictions_page
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.site import write_gallery
from tests.serve.pages.test_predictions import random_predictions, task_of

#: Elements that a script would fill or that only a script answers, as far as they are seen.
DEAD = ".view:visible, button:visible, select:visible, input:visible, .scripted:visible"


@pytest.fixture
def plain(chromium: Any) -> Iterator[Any]:
    """An empty page in a browser without JavaScript."""
    with chromium.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900}) as context:
        yield context.new_page()


def cells_of(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


@pytest.mark.parametrize("name", ["tiny", "tiny_continuous", "tiny_table"])
def test_groups_and_splits_of_a_dataset_are_there(plain, site, built, name):
    plain.goto((site / name / "index.html").as_uri())
    manifest = sd.open_dataset(built / "shift" / name).manifest
    rows = Rows.of(sd.open_dataset(built / "shift" / name), manifest.default_base)
    counts = [str(count) for line in rows.counts[:, [one + 1 for one in rows.nuisances]] for count in line]
    assert cells_of(plain, ".groups tbody td.n") == counts
    assert cells_of(plain, ".groups tbody th") == list(manifest.labels)
    splits = plain.inner_text("#tasks")
    for split in manifest.canonical_splits:
        assert split.protocol in splits
        assert all(f"{one.size.rows:,}" in splits for one in split.sets.values())
    assert plain.locator(DEAD).count() == 0
    assert "Looking for" not in plain.inner_text("main")


def test_pictures_of_the_groups_are_loaded(plain, site, mirror, built):
    labels = sd.open_dataset(built / "shift" / "tiny").manifest.labels
    for address in ((site / "tiny" / "index.html").as_uri(), f"{mirror.endpoint}/datasets/shift/tiny"):
        plain.goto(address)
        widths = plain.locator(".groups img").evaluate_all("(all) => all.map((one) => one.naturalWidth)")
        assert len(widths) == len(labels)
        assert min(widths) > 0


def test_pages_of_an_example_and_of_severities_lead_to_the_dataset(plain, site):
    for path in ("tiny/example.html", "tiny_continuous/severity.html"):
        plain.goto((site / path).as_uri())
        assert plain.locator(DEAD).count() == 0
        plain.locator("main a", has_text="The page of").click()
        assert plain.locator(".groups").is_visible()


def test_the_front_page_lists_and_leads(plain, site):
    plain.goto((site / "index.html").as_uri())
    assert plain.locator(DEAD).count() == 0
    plain.locator(".cards h3 a").first.click()
    assert plain.locator(".groups").is_visible()


def test_predictions_list_the_groups_worst_first(plain, built, tmp_path):
    task = task_of(built, "tiny", "")
    given = {"erm": random_predictions(task, 1), "rwg": random_predictions(task, 2)}
    plain.goto(predictions_page(task, given, tmp_path / "page").as_uri())
    assert plain.locator(DEAD).count() == 0
    for method in given:
        wanted = sorted(round(100 * one[3] / one[2]) for one in Compared.of(task, given).groups(method))
        table = plain.locator("table", has=plain.locator("caption", has_text=method))
        assert cells_of(table, "tbody td:nth-child(2)") == [f"{share} %" for share in wanted]


def test_what_does_not_fit_is_said(plain, built, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PLAIN", (2, 1))
    write_gallery([built / "shift" / "tiny"], tmp_path, each=1)
    plain.goto((tmp_path / "tiny" / "index.html").as_uri())
    manifest = sd.open_dataset(built / "shift" / "tiny").manifest
    assert plain.locator(".groups tbody th").count() == 2
    text = plain.inner_text("#pictures")
    for names, role, limit in (
        (manifest.labels, manifest.roles.label, 2),
        (manifest.nuisances, manifest.roles.nuisance, 1),
    ):
        assert f"{len(names) - limit} more {role}s are not shown" in text


def test_a_browser_with_scripts_shows_none_of_it(page, site):
    page.goto((site / "tiny" / "index.html").as_uri())
    page.wait_for_selector("#matrix .cell")
    assert page.locator(".groups").count() == 0
    assert page.locator("#base").is_visible()
