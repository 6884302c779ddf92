"""The same pages over live data: every row of a group, any task, and nothing without the token."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

import shiftdata as sd
from shiftdata.data.metadata import columns
from shiftdata.errors import ShiftdataError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.serve import readers
from shiftdata.serve.page_routes import dataset_of
from shiftdata.serve.pages.rows import Rows
from tests.browser import wait_for_text
from tests.serve.serving import TOKEN, request, serving

DATASET = "/datasets/shift/tiny"
PAGES = ("", "/example.html")
DATA = ("rows.json?base={base}", "example.json?base={base}&key=x", "counts.json?base={base}&task=")


def ask(mirror, path: str, **query):
    answer = request(mirror.port, "GET", f"{DATASET}/data/{path}?{urlencode(query)}")
    return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def tiny_set(built: Path):
    return sd.open_dataset(built / "shift" / "tiny")


@pytest.fixture(scope="module")
def rows(tiny_set) -> Rows:
    return Rows.of(tiny_set, tiny_set.manifest.default_base)


def test_counts_are_those_of_the_package_for_any_parameters(mirror, tiny_set, rows):
    draw = random.Random(0)
    names = tiny_set.manifest.nuisances
    made = [""]
    made += [
        f"group-fairness k={draw.randint(2, 4)} mu={draw.choice([0.1, 0.5, 1])} seed={draw.randrange(9)}"
        for _ in range(12)
    ]
    made += [f"uda source={names[0]} target={names[1]} seed={draw.randrange(5)}" for _ in range(3)]
    made += [f"label-shift alpha={draw.choice([0.5, 1, 5])} seed={draw.randrange(9)}" for _ in range(5)]
    made += [f"leave-one-domain-out test={name}" for name in names[:3]] + [
        f"{rows.metadata.nuisance_column}!={names[2]}"
    ]
    answered = 0
    for words in made:
        status, counts = ask(mirror, "counts.json", base=rows.base, task=words)
        if status != 200:
            with pytest.raises(ShiftdataError, match=re.escape(counts["error"])):
                sd.task(tiny_set, parse_protocol(words), base=rows.base, on_empty="report")
            continue
        task = sd.task(tiny_set, parse_protocol(words), base=rows.base, on_empty="report")
        answered += 1
        wanted = task.report()
        assert counts["task"] == wanted.task
        assert counts["leaks"] == wanted.leaks
        shown = {of_set["name"]: of_set for of_set in counts["sets"]}
        for name, members in list(wanted.sets.items())[:12]:
            assert shown[name]["counts"] == [count for row in members.counts for count in row]
            assert (shown[name]["examples"], shown[name]["origins"]) == (members.examples, members.origins)
    assert answered > len(made) / 2


def test_rows_and_pictures_are_those_of_the_base(mirror, tiny_set, rows):
    for label, nuisance, split in ((None, None, None), (1, None, None), (2, 3, None), (0, 1, "test")):
        query = {
            "base": rows.base,
            "label": label,
            "nuisance": nuisance,
            "split": split,
            "from": 3,
            "count": 5,
        }
        status, answer = ask(
            mirror, "rows.json", **{name: value for name, value in query.items() if value is not None}
        )
        assert status == 200
        known = rows.metadata.table.to_pylist()
        fits = [
            row
            for row in known
            if (label is None or row["label"] == label)
            and (nuisance is None or row[rows.metadata.nuisance_column] == nuisance)
            and (split is None or row["split"] == split)
        ]
        assert answer["total"] == len(fits)
        assert {listed["key"] for listed in answer["rows"]} <= {row["key"] for row in fits}
        for listed in answer["rows"]:
            got = request(mirror.port, "GET", f"{DATASET}/data/picture/{rows.base}/{listed['row']}")
            assert got.body == rows.examples([listed["row"]])[0]
            assert got.headers["content-type"].startswith("image/")
            assert known[listed["row"]]["key"] == listed["key"]


def test_metadata_that_are_read_by_columns_are_read_at_once(built, monkeypatch):
    monkeypatch.setattr(columns, "SMALL", 0)
    with serving(built) as running:
        assert request(running.port, "GET", f"{DATASET}/data/rows.json?count=1").status == 200


def test_a_picture_costs_its_bytes_and_no_more(built, rows):
    with serving(built) as running:
        request(running.port, "GET", f"{DATASET}/data/picture/{rows.base}/7")
        live = dataset_of(*running.library.heads()[0])
        reader = Rows.of(live, rows.base).reader
        before, sent = reader.stats["fetched"], running.sent
        body = request(running.port, "GET", f"{DATASET}/data/picture/{rows.base}/8").body
        assert running.sent - sent == reader.stats["fetched"] - before == len(body)


def test_a_reader_turns_to_the_last_row_and_opens_it(page, mirror, rows):
    page.goto(f"{mirror.endpoint}{DATASET}")
    page.click("#show-all")
    page.wait_for_selector("#wall li img")
    total = len(rows.metadata)
    assert page.inner_text("#group-count") == f"{total:,} rows"
    while page.is_enabled("#turn-on"):
        begin = int(page.get_attribute("#turn-on", "value"))
        page.click("#turn-on")
        wait_for_text(page, "#turn-now", f"{begin + 1} to")
    assert page.inner_text("#turn-now").endswith(f" to {total}")
    page.go_back()
    wait_for_text(page, "#turn-now", f" to {begin}")
    page.go_forward()
    wait_for_text(page, "#turn-now", f" to {total}")
    page.locator("#wall li a").last.click()
    page.wait_for_selector("#facts dd")
    assert rows.metadata.keys(rows.order[-1:]).to_pylist()[0] in page.inner_text("#facts")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.querySelector('#picture img').naturalWidth") > 0
    assert page.wrong == []
    assert all(url.startswith((mirror.endpoint, "data:")) for url in page.asked)


def test_a_task_is_made_from_the_form_and_its_code_makes_it(page, mirror, built, tiny_set, rows, monkeypatch):
    page.goto(f"{mirror.endpoint}{DATASET}")
    page.wait_for_selector("#heats table")
    page.fill("#words", "")
    page.keyboard.press("Enter")
    wait_for_text(page, "#task-title", "canonical")
    page.fill("#words", "group-fairness k=3 mu=0.5 seed=4")
    page.keyboard.press("Enter")
    wait_for_text(page, "#task-title", "seed=4")
    wanted = sd.task(tiny_set, "group-fairness", k=3, mu=0.5, seed=4).report()
    captions = page.locator("#heats caption").all_inner_texts()
    for caption, (name, members) in zip(captions, wanted.sets.items(), strict=True):
        assert caption.startswith(
            f"{name} ({', '.join(members.roles)}): {members.examples:,} rows of {members.origins:,} origins"
        )
    page.fill("#words", "group-fairness k=3 mu=7 seed=4")
    page.keyboard.press("Enter")
    wait_for_text(page, "#task-error", "mu")
    page.reload()
    wait_for_text(page, "#task-error", "mu")
    page.goto(f"{mirror.endpoint}{DATASET}#task=group-fairness+k%3D3+mu%3D0.5+seed%3D4&taskbase={rows.base}")
    wait_for_text(page, "#task-title", "seed=4")
    scope: dict[str, Any] = {}
    monkeypatch.setenv("SHIFTDATA_HOME", str(built / "shift"))
    exec(page.text_content("#task-code"), scope)
    assert str(scope["task"].report()) == str(wanted)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("rows.json?base=nothing", 404, "base"),
        ("rows.json?base=mini&label=x", 400, "not a number"),
        ("rows.json?base=mini&from=-1", 400, "0 or more"),
        ("rows.json?base=mini&split=all", 400, "split"),
        ("rows.json?base=mini&sort=nothing", 404, "column to sort by"),
        ("rows.json?base=mini&license=MIT", 404, "license"),
        ("rows.json?base=mini&use=anything", 404, "Known: commercial, derivatives"),
        ("rows.json?base=mini&q=" + "x" * 300, 400, "at most 200"),
        ("example.json?base=mini&key=nothing", 404, "no row with the key"),
        ("counts.json?base=mini&task=nothing", 404, "protocol"),
        ("counts.json?base=mini&task=" + "x" * 2000, 400, "characters"),
        ("counts.json?base=mini&task=mine.parquet", 404, "protocol"),
        ("picture/mini/99999999", 400, "there is no row"),
        ("covers/mini-99-0.webp", 404, "label 99 at step 0 does not exist"),
        ("picture/mini/1?v=000000000000", 409, "has changed"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_a_reason(mirror, rows, path, status, text):
    answer = request(mirror.port, "GET", f"{DATASET}/data/{path.replace('mini', rows.base)}")
    assert answer.status == status
    assert text in json.loads(answer.body)["error"]


def test_a_private_mirror_shows_nothing_without_its_token(built, monkeypatch):
    monkeypatch.setattr(readers, "WRONG", 10_000)
    with serving(built, token=TOKEN) as running:
        base = sd.open_dataset(built / "shift" / "tiny").manifest.default_base
        pictures = ("card.webp", f"data/picture/{base}/0", f"data/covers/{base}-0-0.webp")
        api = (f"/api{DATASET}", f"/api{DATASET}/auth-check", f"/api{DATASET}/tree/main", "/api/whoami-v2")
        there = [
            *("/", "/catalog.json", "/api/datasets", f"{DATASET}/resolve/main/README.md", *api),
            *(DATASET + name for name in PAGES),
            *(f"{DATASET}/data/{query.format(base=base)}" for query in DATA),
            *(f"{DATASET}/{name}" for name in pictures),
        ]
        wrong = ("Basic not base64", "Bearer wrong", f"Bearer {TOKEN}x", "Bearer \xfc")
        refused = [{}, password("wrong"), *({"Authorization": text} for text in wrong)]
        for path in (*there, "/datasets/shift/not_here", "/api/datasets/shift/not_here"):
            for headers in refused:
                answer = request(running.port, "GET", path, headers=headers)
                assert answer.status == 401, path
                assert b"tiny" not in answer.body.replace(b"shift/tiny", b""), path
                assert TOKEN not in answer.body.decode() + str(answer.headers)
        for path in there:
            if "key=x" not in path:
                assert request(running.port, "GET", path, token=TOKEN).status == 200, path
                assert request(running.port, "GET", path, headers=password(TOKEN)).status == 200, path


def password(token: str) -> dict[str, str]:
    """The header of a browser that was given a token as the password."""
    return {"Authorization": f"Basic {b64encode(f'me:{token}'.encode()).decode()}"}


def test_a_browser_reads_with_the_token_as_its_password(chromium, built):
    with serving(built, token=TOKEN) as running:
        page = chromium.new_context(http_credentials={"username": "me", "password": TOKEN}).new_page()
        page.goto(f"{running.endpoint}{DATASET}")
        page.wait_for_selector("#matrix .cell")
        page.context.close()


def test_the_front_page_counts_what_is_here(page, built, tmp_path):
    shutil.copytree(built / "shift" / "tiny_text", tmp_path / "tiny_text")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("not one of ours")
    with serving(tmp_path) as running:
        page.goto(running.endpoint)
        assert page.inner_text("#shown") == "1 dataset, 1 other repository"


def test_a_dataset_that_changes_is_shown_as_it_is_now(built, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(built / "shift" / "tiny_text", folder)
    with serving(tmp_path) as running:
        before = request(running.port, "GET", DATASET).body
        shutil.rmtree(folder)
        shutil.copytree(built / "shift" / "tiny_table", folder)
        time.sleep(1.2)
        after = request(running.port, "GET", DATASET).body
        assert b"tiny_text" in before
        assert b"tiny_table" in after
        assert quote("tiny_text").encode() not in after
