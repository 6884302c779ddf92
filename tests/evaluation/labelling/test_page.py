"""The page of labels in a real browser, by keys alone."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.curate.labelling import read_labels
from builders.shifts.styles.listed import StylePicture, write_listed
from scripts.calibrate_filter import _read
from shiftdata.evaluation.labelling.purposes import STYLES
from shiftdata.evaluation.labelling.styles import StylePictures
from shiftdata.evaluation.labelling.table import latest
from shiftdata.evaluation.labelling.table import read_labels as read_table
from tests.browser import accessibility_problems, wait_for_text
from tests.evaluation.labelling.conftest import HOSTILE
from tests.evaluation.labelling.running import Running, labelling
from tests.paths import ROOT


def opened(page: Any, running: Running, who: str = "anna") -> Any:
    """The page, signed in as somebody by keys."""
    page.goto(running.address)
    page.wait_for_selector("#who:focus")
    page.keyboard.type(who)
    page.keyboard.press("Enter")
    page.wait_for_selector("#pictures img")
    return page


def press(page: Any, key: str, progress: str) -> None:
    page.keyboard.press(key)
    wait_for_text(page, "#progress", progress)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return [row[:-1] for row in csv.reader(stream)][1:]


def test_a_set_is_labelled_by_keys_alone(shapes: Path, tmp_path: Path, page: Any) -> None:
    out = tmp_path / "l.csv"
    with labelling(shapes, "--for", "filter", "--each", 1, "--out", out) as running:
        opened(page, running)
        assert "token" not in page.url
        total = int(page.inner_text("#progress").split(" of ")[1].split(";")[0])
        for place, key in enumerate(["1", "p", "D"], 1):
            press(page, key, f"{place} of {total}; at {place + 1}")
        assert [row[1:] for row in rows(out)] == [["keep", "anna"], ["partly", "anna"], ["drop", "anna"]]
        wait_for_text(page, "#said", "drop. 4 of")  # what was set, and what is asked now
        press(page, "ArrowLeft", f"3 of {total}; at 3")
        assert page.get_attribute("[data-label=drop]", "aria-pressed") == "true"
        press(page, "k", f"3 of {total}; at 4")  # relabelled
        press(page, "u", f"3 of {total}; at 3")
        assert page.get_attribute("[data-label=drop]", "aria-pressed") == "true"
        press(page, "u", f"2 of {total}; at 3")
        press(page, "n", f"2 of {total}; at 4")  # skipped
        press(page, "3", f"3 of {total}; at 5")
        page.reload()
        page.wait_for_selector("#who:focus")
        assert page.input_value("#who") == "anna"
        page.keyboard.press("Enter")
        wait_for_text(page, "#progress", f"3 of {total}; at 5")  # where the address says
        page.goto(running.origin)
        page.wait_for_selector("#who:focus")
        page.keyboard.press("Enter")
        wait_for_text(page, "#progress", f"3 of {total}; at 3")  # the first without a label
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("1")  # no label while the help is open
        page.keyboard.press("Escape")
        for done in range(4, total + 1):
            press(page, "1", f"{done} of {total};")
        wait_for_text(page, "#said", f"All {total} are labelled")
        assert len(latest(read_table(out, ("keep", "partly", "drop")))["anna"]) == total
        assert page.wrong == []


def test_everybody_can_use_it(shapes: Path, tmp_path: Path, page: Any) -> None:
    with labelling(shapes, "--for", "filter", "--each", 1, "--out", tmp_path / "l.csv") as running:
        page.goto(f"{running.origin}/")
        assert "Open the whole address" in page.inner_text("main")
        assert accessibility_problems(page) == []
        page.goto(running.address)
        page.wait_for_selector("#who:focus")
        assert accessibility_problems(page) == []
        opened(page, running)
        running.label(0, "keep", "ben")
        running.label(1, "drop", "ben")
        press(page, "1", "1 of")
        press(page, "1", "2 of")
        for scheme, width in (("light", 1100), ("dark", 360)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 740})
            assert accessibility_problems(page) == []
            for button in page.locator("#answers button, .moves button").all():
                box = button.bounding_box()
                assert min(box["width"], box["height"]) >= 44
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("?")
            assert accessibility_problems(page) == []
            page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.keyboard.press("Space")  # keys off, for those whose software types letters
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        page.focus("#forth")
        press(page, "Enter", "2 of 8; at 4")
        page.goto(f"{running.origin}/agreement")
        assert "Cohen's kappa" in page.inner_text("main")
        assert page.locator(".differ img").count() == 1
        assert accessibility_problems(page) == []
        page.locator(".differ a").press("Enter")
        page.wait_for_selector("#who:focus")
        page.keyboard.press("Enter")
        wait_for_text(page, "#progress", "2 of 8; at 2")
        assert page.wrong == []


def test_a_label_takes_no_wait_and_one_that_is_not_saved_is_asked_again(
    shapes: Path, tmp_path: Path, page: Any
) -> None:
    out = tmp_path / "l.csv"
    with labelling(shapes, "--for", "filter", "--out", out) as running:
        opened(page, running)
        page.wait_for_load_state("networkidle")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.route("**/labels", lambda route: None)  # an answer that never comes
        page.keyboard.press("1")
        wait_for_text(page, "#progress", "saving; at 2")
        page.wait_for_selector("#pictures img")
        assert f"{running.origin}/pictures/1/0" not in asked  # it was there before
        page.unroute("**/labels")
    with labelling(shapes, "--for", "filter", "--out", out) as running:
        opened(page, running, "ben")
        running.process.kill()
        running.process.wait()
        page.keyboard.press("1")
        wait_for_text(page, "#error", "Not saved: the server does not answer")
        wait_for_text(page, "#progress", "0 of")
        assert page.get_attribute("[data-label=keep]", "aria-pressed") == "false"


@pytest.mark.slow
def test_two_tabs_and_two_people_in_one_file(shapes: Path, tmp_path: Path, page: Any) -> None:
    out = tmp_path / "l.csv"
    with labelling(shapes, "--for", "filter", "--each", 1, "--out", out) as running:
        opened(page, running)
        other = opened(page.context.new_page(), running)
        press(page, "1", "1 of 8; at 2")
        press(other, "3", "1 of 8; at 2")  # the same one: the last label counts
        press(other, "2", "2 of 8; at 3")
        press(page, "ArrowRight", "1 of 8; at 3")
        press(page, "k", "3 of 8; at 4")  # it learns of the other tab's
        third = opened(page.context.new_page(), running, "ben")
        press(third, "1", "1 of 8; at 2")
    counted = latest(read_table(out, ("keep", "partly", "drop")))
    assert sorted(counted["anna"].values()) == ["drop", "keep", "partly"]
    assert [*counted["ben"].values()] == ["keep"]


def test_pairs_that_look_alike_are_labelled(shapes: Path, tmp_path: Path, page: Any) -> None:
    out = tmp_path / "l.csv"
    with labelling(shapes, "--for", "duplicates", "--out", out) as running:
        opened(page, running)
        assert page.locator("#pictures img").count() == 2
        press(page, "s", "1 of")
        press(page, "d", "2 of")
        while len(rows(out)) < 2:  # the page is ahead of the answer
            page.wait_for_timeout(20)
        assert page.wrong == []
    first, second = rows(out)
    assert (first[2:], second[2:]) == (["same", "anna"], ["different", "anna"])
    assert first[0] < first[1]


def test_names_of_strangers_stay_texts_and_the_style_filter_reads_them(styles: Path, page: Any) -> None:
    listed = [
        StylePicture(
            style=file.parent.name, file=f"{file.parent.name}/{file.name}", source="x", sha256="0" * 64,
            width=70, height=70, bytes=1,
        )
        for file in styles.glob("*/*.png")
    ]  # fmt: skip
    write_listed(styles, listed)
    keys = [key[0] for key in StylePictures(styles).keys]
    with labelling(styles, "--for", "styles") as running:
        opened(page, running, HOSTILE)
        for done in range(1, 13):
            press(page, "g" if done % 3 else "b", f"{done} of 12;")
        running.label(0, "bad", "ben")
        page.goto(f"{running.origin}/agreement")
        assert HOSTILE in page.inner_text("main")
        assert page.wrong == []
        assert page.title().startswith("Agreement")
    assert {*latest(read_table(styles / "labels.csv", STYLES.labels))} == {HOSTILE, "ben"}
    labels, differ = read_labels(styles, styles / "labels.csv")
    assert any(key.startswith(HOSTILE) for key in keys)
    assert differ == [keys[0]]
    assert labels == {key: "good" if at % 3 else "bad" for at, key in enumerate(keys, 1) if at > 1}


@pytest.mark.parametrize(
    "file", ["../secret.png", "dawn/../../secret.png", "/etc/passwd", "dawn/..", "dawn/a\nb.png"]
)
def test_no_picture_outside_the_folder_is_named(styles: Path, file: str) -> None:
    (styles.parent / "secret.png").write_bytes(next(styles.glob("dawn/*.png")).read_bytes())
    (styles / "styles.tsv").write_text(f'style\tfile\ndawn\t"{file}"\n')
    with pytest.raises(Exception, match="is not a file <style>/<picture>"):
        StylePictures(styles)


def test_what_is_not_a_picture_is_said_to_be_none(styles: Path) -> None:
    for name in ("page.png", "drawing.png"):
        (styles / "dawn" / name).write_text(
            "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
        )
    with labelling(styles, "--for", "styles") as running:
        kinds = {}
        for number, key in enumerate(StylePictures(styles).keys):
            kinds[key[0]] = running.ask("GET", f"/pictures/{number}/0")
    assert {kinds[f"dawn/{name}"].status for name in ("page.png", "drawing.png")} == {400}
    others = {
        one.headers["content-type"]
        for file, one in kinds.items()
        if not file.endswith(("page.png", "drawing.png"))
    }
    assert others == {"image/png"}


@pytest.mark.slow
def test_labels_of_the_page_calibrate_a_filter(shapes: Path, tmp_path: Path, page: Any) -> None:
    out = tmp_path / "l.csv"
    with labelling(shapes, "--for", "filter", "--each", 2, "--out", out, "--who", "anna") as running:
        page.goto(running.address)
        page.wait_for_selector("#pictures img")
        severities = [float(running.ask("GET", f"/items/{at}").json["facts"]["severity"]) for at in range(16)]
        for done, severity in enumerate(severities, 1):
            press(page, "k" if severity < 1 else "p" if severity == 1 else "d", f"{done} of 16;")
    command = [sys.executable, "scripts/calibrate_filter.py", shapes, "extended", "ink", out]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    partly = severities.count(1)
    assert f"left out: {partly} partly" in ran.stdout
    table = [line.split()[-2:] for line in ran.stdout.splitlines() if line.startswith("should be")]
    assert sum(int(one) for line in table for one in line) == 16 - partly > 0
    for partly_as in ("keep", "drop"):
        verdicts = _read(out, partly_as)
        assert (len(verdicts), {*verdicts.values()}) == (16, {"keep", "drop"})


def test_without_javascript_the_page_says_what_it_needs(styles: Path, tmp_path: Path, chromium: Any) -> None:
    with (
        labelling(styles, "--for", "styles", "--out", tmp_path / "l.csv") as running,
        chromium.new_context(java_script_enabled=False) as context,
    ):
        page = context.new_page()
        page.goto(running.address)
        assert "needs JavaScript" in page.inner_text("main")
        page.click("main a")
        assert page.inner_text("h1") == "Agreement"
