"""The gallery as files, opened from the disk in a real browser."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shiftdata as sd
from builders.describe.renderings import write_without_pixels
from builders.make.build import build
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import CELL, GAP
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.site import write_gallery
from tests.contracts.kinds import prepare
from tests.serve.pages.conftest import make_hostile
from tests.tiny import edit_manifest

QUESTIONS = ["Balanced?", "Leaks?", "Shortcuts?", "Severity?", "Licence?"]
NAMES = ("tiny", "tiny_continuous", "tiny_table", "tiny_text")


def address(site: Path, path: str) -> str:
    return f"file://{site}/{path}"


def quiet(page) -> None:
    """Nothing failed, and nobody but the files was asked."""
    assert page.wrong == []
    assert all(url.startswith(("file:", "data:")) for url in page.asked)


def test_the_front_page_finds_by_text_and_shift(page, site):
    page.goto(address(site, "index.html"))
    shown = page.locator("[data-search]:visible").count
    assert shown() == len(NAMES)
    assert page.inner_text("#shown") == f"{len(NAMES)} datasets"
    page.fill("#search", "tiny_text")
    assert shown() == 1
    assert page.inner_text("#shown") == f"1 of {len(NAMES)} datasets"
    page.fill("#search", "")
    page.select_option("#shift", "continuous")
    assert page.locator(".cards h3:visible").count() == 1
    assert "shift=continuous" in page.url
    page.reload()
    assert page.locator(".cards h3:visible").count() == 1
    quiet(page)


def test_a_group_opens_by_keyboard_alone_and_its_link_restores_it(page, site, built):
    page.goto(address(site, "tiny/index.html"))
    page.wait_for_selector("#matrix [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#wall li")
    manifest = sd.open_dataset(built / "shift" / "tiny").manifest
    assert page.inner_text("#group-title") == f"{manifest.labels[1]} / {manifest.nuisances[1]}"
    rows = Rows.of(sd.open_dataset(built / "shift" / "tiny"), manifest.default_base)
    count = int(rows.counts[1, 2])
    assert page.inner_text("#group-count") == f"3 of {count} rows; a server shows all"
    assert page.locator("#wall li").count() == 3
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#wall li")
    assert page.inner_text("#group-title") == f"{manifest.labels[1]} / {manifest.nuisances[1]}"
    page.go_back()
    quiet(page)


def test_an_example_says_all_that_is_known_and_its_code_loads_it(page, site, built, monkeypatch):
    dataset = sd.open_dataset(built / "shift" / "tiny")
    rows = Rows.of(dataset, dataset.manifest.default_base)
    row = int(rows.sample(3)[2, 1][1])
    known = rows.details([row])[0]
    page.goto(address(site, f"tiny/example.html#base={rows.base}&key={known['key']}"))
    page.wait_for_selector("#facts dd")
    facts = page.inner_text("#facts")
    for value in (
        known["key"],
        known["sha256"],
        known["origin"],
        known["license"],
        f"{known['length']} bytes",
    ):
        assert str(value) in facts
    assert json.loads(page.inner_text("#params")) == known["params"]
    same = rows.appearances(row)
    assert {int(rows.metadata.label[other]) for other in same} == {int(rows.metadata.label[row])}
    links = [link.get_attribute("href") for link in page.locator("#appearances a").all()]
    shown = {link.rpartition("key=")[2] for link in links}
    assert known["key"] in shown
    assert shown <= set(rows.metadata.keys(same).to_pylist())
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    scope: dict[str, object] = {}
    exec(page.inner_text("#code"), scope)
    assert scope["data"] == rows.examples([row])[0]
    assert scope["example"]["key"] == known["key"]
    quiet(page)


@pytest.mark.parametrize("name", NAMES)
def test_the_code_on_the_page_of_a_dataset_loads_it(page, site, built, monkeypatch, name):
    monkeypatch.chdir(built)
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    page.goto(address(site, f"{name}/index.html"))
    scope: dict[str, Any] = {}
    exec(page.inner_text("#load-plain"), scope)
    assert next(iter(scope["ds"]))["key"]
    exec(page.inner_text("#load-task"), scope)
    with scope["loader"] as loader:
        assert len(next(iter(loader))[1]) > 0


def test_the_pictures_of_a_group_are_those_of_its_rows(page, site, built):
    dataset = sd.open_dataset(built / "shift" / "tiny")
    rows = Rows.of(dataset, dataset.manifest.default_base)
    with Image.open(site / "tiny" / "data" / "groups" / f"{rows.base}-3-2.webp") as opened:
        sheet = np.asarray(opened.convert("RGB"), float)
    side = sheet.shape[0]
    for place, data in enumerate(rows.examples(rows.sample(3)[3, 2])):
        with Image.open(io.BytesIO(data)) as opened:
            wanted = np.asarray(opened.convert("RGB").resize((side, side)), float)
        assert np.abs(sheet[:, place * side : (place + 1) * side] - wanted).mean() < 12


def test_the_front_page_filters_by_what_a_licence_allows(page, built, tmp_path):
    shutil.copytree(built / "shift" / "tiny", tmp_path / "tiny")
    edit_manifest(tmp_path / "tiny", lambda raw: raw.update(license="CC-BY-NC-4.0"))
    front = write_gallery([tmp_path / "tiny", built / "shift" / "tiny_text"], tmp_path / "site", each=1)
    page.goto(front.as_uri())
    page.select_option("#licence", "use=commercial")
    assert page.locator(".cards .mono:visible").all_inner_texts() == ["tiny_text"]
    quiet(page)


def test_pictures_of_the_front_page_are_whole(site):
    with Image.open(site / "tiny" / "card.webp") as opened:
        sheet = np.asarray(opened.convert("RGB"), int)
    step = CELL + GAP
    assert [(side + GAP) % step for side in sheet.shape[:2]] == [0, 0]
    between = [sheet[:, x * step - GAP : x * step] for x in range(1, (sheet.shape[1] + GAP) // step)]
    assert all(gap[:, 1].mean() > 240 for gap in between)


def test_the_film_shows_one_original_at_every_step_of_two_shifts(page, site, built):
    dataset = sd.open_dataset(built / "shift" / "tiny_continuous")
    steps = list(dataset.manifest.severities)
    page.goto(address(site, "tiny_continuous/severity.html#label=1&a=0&b=1"))
    page.wait_for_selector("#film-b .tile")
    assert page.locator("#steps th").all_inner_texts()[1:] == [f"{step:g}" for step in steps]
    rows = Rows.of(dataset, dataset.manifest.default_base)
    for nuisance, film in enumerate(("#film-a", "#film-b")):
        keys = page.locator(f"{film} a").evaluate_all("(all) => all.map((one) => one.title)")
        known = rows.details([rows.row_of(key) for key in keys])
        assert [details["severity"] for details in known] == steps[-len(keys) :]
        assert {(details["label"], details["nuisance"]) for details in known} == {(1, nuisance)}
        assert len({details["origin"] for details in known}) == 1
    page.click("#after")
    page.locator(f"#film-b a:not([title='{keys[-1]}'])").first.wait_for()
    assert "origin=1" in page.url
    quiet(page)


def test_a_group_is_shown_by_its_first_trajectories(built):
    dataset = sd.open_dataset(built / "shift" / "tiny_continuous")
    rows = Rows.of(dataset, dataset.manifest.default_base)
    for at in rows.sample(2).values():
        assert len(at) == 2 * len(dataset.manifest.severities)
        assert rows.metadata.columns["severity"][at].tolist() == 2 * list(dataset.manifest.severities)


def test_texts_and_tables_have_pages(page, site, built):
    for name in ("tiny_text", "tiny_table"):
        page.goto(address(site, f"{name}/index.html"))
        page.wait_for_selector("#matrix .cell .count")
        page.locator("#matrix .cell").first.click()
        first = page.locator("#wall :is(li, tbody tr)").first
        dataset = sd.open_dataset(built / "shift" / name)
        rows = Rows.of(dataset, dataset.manifest.default_base)
        row = rows.row_of(first.locator("a").get_attribute("href").rpartition("key=")[2])
        text = rows.texts([row])[0]
        if name == "tiny_text":
            assert first.locator("p").inner_text() == text
        else:
            heads = page.locator("#wall thead th").all_inner_texts()
            shown = dict(zip(heads, first.locator("th, td").all_inner_texts(), strict=True))
            assert {name: shown[name] for name in text if name != "dose"} == {
                name: str(value) for name, value in text.items() if name != "dose"
            }
            assert float(shown["dose"]) == text["dose"]
    quiet(page)


def test_names_of_strangers_run_nothing(page, built, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(built / "shift" / "tiny", folder)
    make_hostile(folder)
    out = tmp_path / "site"
    write_gallery([folder], out, each=2)
    for path in ("index.html", "tiny/index.html#label=0&nuisance=0", "tiny/example.html"):
        page.goto(address(out, path))
        page.wait_for_timeout(300)
        assert page.title() != "run"
        assert page.locator("main img[src=x], main script:not([type])").count() == 0
    assert "javascript:" not in (out / "tiny" / "index.html").read_text().replace("(javascript:", "")
    quiet(page)


def test_pages_that_are_up_to_date_are_not_made_again(built, tmp_path):
    steps: list[str] = []

    def begin(name: str, count: int):
        steps.append(name)
        return lambda: None

    write_gallery([built / "shift" / "tiny_table"], tmp_path, each=2, begin=begin)
    write_gallery([built / "shift" / "tiny_table"], tmp_path, each=2, begin=begin)
    assert steps == ["tiny_table"]
    write_gallery([built / "shift" / "tiny_table"], tmp_path, each=3, begin=begin)
    assert steps == ["tiny_table"] * 2


def test_what_cannot_be_made_is_refused(built, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file: give a folder"):
        write_gallery([built / "shift" / "tiny"], tmp_path / "file")
    with pytest.raises(InputError, match="at least 1"):
        write_gallery([built / "shift" / "tiny"], tmp_path, each=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_read_without_scripts(chromium, site, name):
    with chromium.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(address(site, f"{name}/index.html"))
        assert page.locator("#verdict summary strong").all_inner_texts() == QUESTIONS
        for summary in page.locator("#verdict summary").all():
            summary.click()
        assert page.locator("#verdict details[open] :is(table, p)").first.is_visible()
        assert page.locator("#load-plain").bounding_box()["y"] > 0
        assert not page.locator(".view:visible, canvas:visible").count()
        pictures = page.locator("#verdict .strip img")
        assert pictures.count() == {"tiny": 5, "tiny_continuous": 4}.get(name, 0)
        assert all(picture.evaluate("(one) => one.naturalWidth > 0") for picture in pictures.all())


@pytest.mark.slow
def test_what_matters_is_on_the_first_screen(page, site):
    for name in NAMES:
        page.goto(address(site, f"{name}/index.html"))
        box = page.locator("#load-task").bounding_box()
        assert box["y"] + box["height"] < 900, name
        for code in page.locator(".wide pre, .cards pre").all():
            assert code.evaluate("(one) => one.scrollWidth <= one.clientWidth"), name
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(address(site, "tiny_continuous/severity.html"))
    box = page.locator("#film-b").bounding_box()
    assert box["y"] + box["height"] < 800


@pytest.mark.slow
def test_a_dataset_without_its_pictures_has_pages_of_its_splits(page, built, tmp_path):
    recipe = prepare("stylized", tmp_path)
    recipe.write_text(recipe.read_text().replace("\n    family=", '\n    publishes="splits",\n    family='))
    local = build(str(recipe), tmp_path / "out", workers=1, quiet=True)
    folder = write_without_pixels(local, tmp_path / "tiny")
    write_gallery([folder], tmp_path / "site", each=2)
    page.goto(address(tmp_path / "site", "tiny/index.html"))
    page.wait_for_selector("#matrix .count")
    assert "not included" in page.inner_text("#pictures")
    quiet(page)
