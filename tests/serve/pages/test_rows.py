"""The rows of a group or of all: searched, sorted, chosen by licence, selected; in files and served."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.serve.pages import finding
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.site import write_gallery
from tests.browser import accessibility_problems, wait_for_text
from tests.serve.serving import serving
from tests.tiny import edit_file
from tests.visual import check

KINDS = ("tiny", "tiny_continuous", "tiny_table", "tiny_text")
FREE, BOUND = "CC0-1.0", "CC-BY-NC-4.0"


def rows_of(folder: Path) -> Rows:
    dataset = sd.open_dataset(folder)
    return Rows(dataset, dataset.manifest.default_base)


@pytest.fixture(params=["files", "served"])
def address(request) -> Callable[[str], str]:
    """The address of a dataset's page, as a file or of a server."""
    if request.param == "files":
        site = request.getfixturevalue("site")
        return lambda name: (site / name / "index.html").as_uri()
    mirror = request.getfixturevalue("mirror")
    return lambda name: f"{mirror.endpoint}/datasets/shift/{name}"


def column(page: Any, name: str) -> list[str]:
    """The texts of a column of the table."""
    at = [text.strip(" ↑↓") for text in page.locator("#wall thead th").all_inner_texts()].index(name)
    texts: list[str] = page.locator(f"#wall tbody tr > :nth-child({at + 1})").all_inner_texts()
    return texts


def held(rows: Rows, address: str) -> list[int]:
    """The rows that a page can show: the first of each group, or all."""
    return np.concatenate(
        [*rows.sample(3).values()] if address.startswith("file:") else [rows.order]
    ).tolist()


def words_of(row: Mapping[str, Any], rows: Rows) -> str:
    text = row.get("text", "")
    nuisance = rows.metadata.nuisances[row["nuisance"]] if row["nuisance"] >= 0 else ""
    examples = [text] if isinstance(text, str) else map(str, text.values())
    return "\n".join(
        [row["key"], row["origin"], rows.metadata.labels[row["label"]], nuisance, *examples]
    ).lower()


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_found_by_their_names_and_examples(built, name):
    rows = rows_of(built / "shift" / name)
    known = rows.listed(rows.order)
    for text in (
        "1",
        known[5]["key"][2:9].upper(),
        known[7]["origin"],
        *rows.metadata.labels,
        "é",
        "quit",
        "nowhere",
    ):
        wanted = [row["row"] for row in known if text.lower() in words_of(row, rows)]
        assert rows.choose(text=text).tolist() == wanted, text


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_in_the_order_of_any_column_with_what_is_missing_last(built, name):
    rows = rows_of(built / "shift" / name)
    known = {row["row"]: row for row in rows.details(rows.order)}
    splits = ["train", "validation", "test"]
    values = {
        "label": lambda row: rows.metadata.labels[row["label"]],
        rows.metadata.nuisance_column: lambda row: [*rows.metadata.nuisances, None][row["nuisance"]],
        "split": lambda row: splits.index(row["split"]),
    }
    columns = ["key", "severity", "origin", "license", "length", *values]
    columns += rows.dataset.manifest.roles.example if rows.modality == "table" else []
    for column in columns:
        value = values.get(
            column,
            lambda row, column=column: row.get("text", {})[column] if column not in row else row[column],
        )
        place = {row: at for at, row in enumerate(rows.order.tolist())}
        for sign in ("", "-"):
            found = [value(known[row]) for row in rows.choose(sort=sign + column).tolist()]
            present = [each for each in found if each is not None]
            assert present == sorted(present, reverse=bool(sign)), sign + column
            assert found[len(present) :] == [None] * (len(known) - len(present))
        chosen = rows.choose(sort=column).tolist()
        same = [place[row] for row in chosen if value(known[row]) == value(known[chosen[0]])]
        assert same == sorted(same), "rows with one value stay in their order"


def test_searches_and_orders_are_bounded(built, monkeypatch):
    rows = rows_of(built / "shift" / "tiny_text")
    assert len(rows.choose(text="bonjour"))
    with pytest.raises(InputError, match="at most 200"):
        rows.choose(text="x" * 201)
    monkeypatch.setattr(finding, "MOST_TEXT", 100)
    rows = rows_of(built / "shift" / "tiny_text")
    assert not len(rows.choose(text="bonjour"))
    assert not finding.searches_examples(rows)
    assert len(rows.choose(text="greeting"))
    monkeypatch.setattr(finding, "MOST_FOUND", 100)
    other = rows_of(built / "shift" / "tiny_text")
    for asked in ({"text": "greeting"}, {"sort": "key"}):
        with pytest.raises(InputError, match="bases of at most 100 are"):
            other.choose(**asked)
    assert len(other.choose(label=0))


@pytest.fixture
def two_licences(built: Path, tmp_path: Path) -> Path:
    """A folder with a dataset of which every third row may not be used commercially."""
    folder = tmp_path / "shift" / "tiny"
    shutil.copytree(built / "shift" / "tiny", folder)

    def change(data: bytes) -> bytes:
        table = pq.read_table(io.BytesIO(data))
        names = [FREE if number % 3 else BOUND for number in range(len(table))]
        at = table.column_names.index("license")
        table = table.set_column(at, table.schema.field(at), pa.array(names))
        sink = io.BytesIO()
        pq.write_table(table, sink)
        return sink.getvalue()

    for path in sorted(folder.glob("metadata/*/*.parquet")):
        edit_file(folder, path.relative_to(folder).as_posix(), change)
    return tmp_path


def test_rows_are_chosen_by_licence(two_licences):
    rows = rows_of(two_licences / "shift" / "tiny")
    known = rows.listed(rows.order)
    free = [row["row"] for row in known if row["license"] == FREE]
    assert {row["commercial"] for row in known if row["row"] in free} == {"yes"}
    assert 0 < len(free) < len(known)
    assert rows.choose(use="commercial").tolist() == rows.choose(license=FREE).tolist() == free
    assert rows.choose(use="commercial", license=BOUND).tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize("is_served", [False, True])
def test_commercial_use_is_two_clicks_away(page, two_licences, tmp_path, is_served):
    rows = rows_of(two_licences / "shift" / "tiny")
    with serving(two_licences) as running:
        path = running.endpoint + "/datasets/shift/tiny"
        if not is_served:
            path = (
                write_gallery([two_licences / "shift" / "tiny"], tmp_path / "site", each=4).parent.as_uri()
                + "/tiny/index.html"
            )
        page.goto(f"{path}#label=0&nuisance=1")
        page.wait_for_selector("#wall li")
        page.select_option(
            "#choose-license", label="allows commercial use"
        )  # a list is one click, its entry the other
        chosen = rows.choose(label=0, nuisance=1)
        free = {
            row["key"] for row in rows.listed(chosen if is_served else chosen[:4]) if row["license"] == FREE
        }
        page.locator("#group-count").filter(has_text=re.compile(rf"^{len(free)} ")).wait_for()
        assert {box.get_attribute("value") for box in page.locator("#wall input").all()} == free
        page.reload()
        page.wait_for_selector("#wall li")
        assert page.locator("#choose-license option:checked").inner_text() == "allows commercial use"
        assert page.wrong == []


@pytest.mark.slow
def test_a_table_sorts_by_its_heads_alone_by_keyboard(page, address, built):
    rows, path = rows_of(built / "shift" / "tiny_table"), address("tiny_table")
    ages = [text["age"] for text in rows.texts(held(rows, path))]
    up = sorted(str(age) for age in ages if age is not None)
    missing = [""] * ages.count(None)
    page.goto(f"{path}#all=1")
    head = page.locator("#wall th[aria-sort]")
    page.wait_for_selector("#wall [data-sort=age]").focus()
    for wanted, name in ((up, "ascending"), (up[::-1], "descending")):
        page.keyboard.press("Enter")
        wait_for_text(page, "#wall th[aria-sort]", "↑" if name == "ascending" else "↓")
        assert head.get_attribute("aria-sort") == name
        assert column(page, "age") == [*wanted, *missing][:100]
        assert page.evaluate("document.activeElement.dataset.sort") == "age"
    assert {"age", "dose", "smoker", "town"} <= {
        text.strip(" ↑↓") for text in page.locator("#wall thead th").all_inner_texts()
    }
    assert {"no", "quit", "yes"} >= set(column(page, "smoker"))
    page.set_viewport_size({"width": 360, "height": 600})
    page.evaluate("wall = document.getElementById('wall'); wall.scrollTop = wall.scrollLeft = 1e6")
    box = page.locator("#wall").bounding_box()
    assert page.locator("#wall thead th").first.bounding_box()["y"] - box["y"] < 3
    assert page.locator("#wall tbody th").last.bounding_box()["x"] - box["x"] < 3
    assert check(page, ["broken words"]) == []
    assert page.wrong == []


@pytest.mark.slow
def test_a_search_narrows_and_marks_what_it_found(page, address, built):
    rows, path = rows_of(built / "shift" / "tiny_text"), address("tiny_text")
    fits = [row for row in rows.listed(held(rows, path)) if "bo" in words_of(row, rows)]
    page.goto(f"{path}#all=1")
    page.wait_for_selector("#wall li")
    page.fill("#choose-q", "BO")
    page.wait_for_selector("#wall p mark")
    shown = dict(
        zip(*(page.locator(f"#wall li {part}").all_inner_texts() for part in ("a", "p")), strict=True)
    )
    assert shown == {row["key"]: row["text"] for row in fits}
    assert {text.lower() for text in page.locator("#wall p mark").all_inner_texts()} == {"bo"}
    assert page.locator("#wall p mark").count() == sum(row["text"].lower().count("bo") for row in fits)
    page.select_option("#choose-sort", label="longest first")
    wait_for_text(
        page,
        "#wall li:first-child p",
        max((row["text"] for row in fits), key=lambda text: len(text.encode())),
    )
    page.fill("#choose-q", "nothing has this")
    wait_for_text(page, "#wall", "No row fits")
    assert page.wrong == []


@pytest.mark.slow
def test_texts_are_whole_at_a_readable_measure(page, site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    long = " ".join(f"word{number}" for number in range(400))
    file = next(iter(sorted((tmp_path / "site" / "tiny_text" / "data" / "rows").glob("*.js"))))
    file.write_text(
        re.sub(r'"text":"[^"]*"', lambda match: f'"text":{json.dumps(long)}', file.read_text(), count=1)
    )
    page.goto((tmp_path / "site" / "tiny_text" / "index.html").as_uri() + "#all=1&sort=-length")
    text = page.locator("#wall p").filter(has_text="word399")
    measure = """(node) => { const zero = document.createElement("span"); zero.textContent = "0".repeat(100);
      zero.style.cssText = "position: absolute; white-space: pre";
      node.append(zero);
      const width = zero.getBoundingClientRect().width / 100;
      zero.remove();
      return node.clientWidth / width; }"""
    assert 60 <= text.evaluate(measure) <= 75
    folded = text.bounding_box()["height"]
    more = page.locator("#wall .more:visible")
    assert more.count() == 1, "only the long one folds"
    more.click()
    assert more.inner_text() == "less"
    assert text.bounding_box()["height"] > 2 * folded
    assert text.inner_text() == long
    page.fill("#choose-q", "word390")
    page.wait_for_selector("#wall mark")
    assert page.locator("#wall mark").first.is_visible()
    assert text.bounding_box()["height"] > 2 * folded, "a hit is not folded away"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "tiny_table", "tiny_text"])
def test_selected_rows_are_keys_and_the_code_that_loads_them(page, address, built, name, monkeypatch):
    page.goto(f"{address(name)}#all=1")
    page.wait_for_selector("#wall input")
    picked = [page.locator("#wall input").nth(at).get_attribute("value") for at in (1, 4)]
    for at in (1, 4):
        page.locator("#wall input").nth(at).focus()
        page.keyboard.press("Space")
    page.fill("#choose-q", picked[1])  # what is selected stays so when other rows are shown
    page.wait_for_selector("#wall input:checked")
    assert page.inner_text("#picked-keys").split() == picked
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    scope: dict[str, Any] = {}
    exec(page.inner_text("#picked-code"), scope)
    assert sorted(scope["rows"]["key"]) == sorted(picked)
    page.click("#picked-none")
    assert page.locator("#picked").is_hidden()
    page.fill("#choose-q", "")
    wait_for_text(page, "#pick-shown", "Select these 1")
    page.click("#pick-shown")
    count = page.locator("#wall input").count()
    assert len(page.inner_text("#picked-keys").split()) == count
    assert page.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_a_table_too_that_everybody_can_use(page, address, built, name):
    rows = rows_of(built / "shift" / name)
    page.goto(f"{address(name)}#label=0&nuisance=0&view=table")
    page.wait_for_selector("#wall tbody tr")
    key = column(page, "key")[0].strip()
    (known,) = rows.details([rows.row_of(key)])
    assert column(page, "label")[0] == rows.metadata.labels[known["label"]]
    assert column(page, rows.metadata.nuisance_column)[0] == rows.metadata.nuisances[known["nuisance"]]
    for head, field in (
        ("split", "split"),
        ("origin", "origin"),
        ("licence", "license"),
        ("commercial use", "commercial"),
    ):
        assert column(page, head)[0] == known[field]
    if name == "tiny_continuous":
        assert float(column(page, "severity")[0]) == known["severity"]
    if name in ("tiny", "tiny_text"):
        page.click(f"#choose-view [value={'pictures' if name == 'tiny' else 'texts'}]")
        page.wait_for_selector("#wall li")
        assert page.locator(f"#wall a[href$='{key}']").count() == 1
    assert page.wrong == []
    assert accessibility_problems(page) == []
