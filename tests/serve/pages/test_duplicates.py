"""The page of near-duplicates in a browser: as files and served."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from shiftdata.evaluation.duplicates import keep, near_duplicates
from shiftdata.serve.pages.site import write_gallery
from tests.browser import accessibility_problems, wait_for_text
from tests.evaluation import planted
from tests.serve.serving import serving
from tests.shared import made_once
from tests.visual import ask, open_page, problems, problems_without_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shift(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the planted dataset, whose result is kept in a cache of its own."""

    def make(folder: Path) -> None:
        shutil.copytree(dataset, folder / "shift" / "planted")
        keep(near_duplicates(dataset, cache=False))

    dataset = made_once(tmp_path_factory, "planted", planted.make) / "out/shift/planted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("cache")))
        yield made_once(tmp_path_factory, f"planted_kept_{os.getpid()}", make)


def look(page: Any, url: str) -> None:
    """Slider and filter say how many clusters remain; a picture leads to its example."""
    page.goto(url)
    wait_for_text(page, "#count", "15 of 15 clusters, 11 of them across splits")
    assert page.locator("#clusters article").count() == 15
    assert page.locator("#clusters article").first.locator("li").count() == 2
    page.locator("#across").check()
    wait_for_text(page, "#count", "11 of 15 clusters, 11 of them across splits")
    page.locator("#distance").fill("0.01")
    wait_for_text(page, "#count", "4 of 15 clusters, 4 of them across splits")
    page.reload()
    wait_for_text(page, "#count", "4 of 15 clusters")  # the address keeps the view
    page.locator("#clusters a").first.click()
    wait_for_text(page, "#facts", "round--p4--east")
    assert page.locator("#error").text_content() == ""
    assert page.wrong == []
    page.go_back()
    assert accessibility_problems(page) == []


def test_the_page_as_files(shift, page, tmp_path):
    write_gallery([shift / "shift" / "planted"], tmp_path, each=1)
    look(page, (tmp_path / "planted" / "duplicates.html").as_uri())
    assert all(url.startswith("file:") for url in page.asked)


def test_the_page_served(shift, page):
    with serving(shift) as running:
        look(page, f"{running.endpoint}/datasets/shift/planted/duplicates.html")


def test_there_is_no_page_without_a_result(shift, page, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    write_gallery([shift / "shift" / "planted"], tmp_path / "site", each=1)
    assert not (tmp_path / "site/planted/duplicates.html").exists()
    with serving(shift) as running:
        response = page.goto(f"{running.endpoint}/datasets/shift/planted/duplicates.html")
        assert response.status == 404
        assert "shiftdata duplicates planted" in page.content()


def test_it_looks_right_on_every_screen(shift, chromium, tmp_path):
    write_gallery([shift / "shift" / "planted"], tmp_path, each=1)
    url = (tmp_path / "planted" / "duplicates.html").as_uri()
    with open_page(chromium, url) as (page, watch):
        wait_for_text(page, "#count", "15 of 15 clusters")
        assert problems(page, watch) == []
        words = ask(page, "shownWords()")[0]
    with open_page(chromium, url, script=False) as (page, watch):
        assert problems_without_script(page, watch, words) == []
