"""Defects that our pages once had, put back one by one: each fails the check that was written against it.

Most are a rule of style and elements at the end of a finished page: they outlive rewritten templates.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.visual import SCREENS, ask, at_size, check, open_page, problems_without_script

pytestmark = pytest.mark.slow

PHONE, LAPTOP = SCREENS
#: Adds rules and elements. A sheet that is made so is not what the policy of the pages forbids.
PUT = """([css, html]) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets = [sheet];
  document.getElementById("defect")?.remove();
  if (html) document.querySelector("main").insertAdjacentHTML("beforeend", `<div id="defect">${html}</div>`);
}"""


class Defect(NamedTuple):
    """What is put back, and the check that finds it."""

    found_by: str
    css: str = ""
    html: str = ""
    size: tuple[int, int] = LAPTOP
    scheme: str = "light"
    page: str = "tiny_table/index.html"


def field(label: str, more: str = "") -> str:
    return f"<label><span>{label}</span><input>{more}</label>"


def table(cell: str, caption: str = "") -> str:
    above = caption and f"<caption>{caption}</caption>"
    return f"<table>{above}<tbody><tr><th>a</th>{cell}</tr></tbody></table>"


def drawing(shape: str) -> str:
    return f'<svg viewBox="0 0 90 20">{shape}</svg>'


BAR = table(f"<td>{drawing('<rect width=90 height=20 />')}</td>")
NARROW = "body { overflow-wrap: anywhere } #defect td { width: 1.8rem; display: block }"
DEFECTS = {
    "numbers on two lines": Defect("broken words", NARROW, table("<td>2,872</td>"), PHONE),
    "captions of a syllable a line": Defect(
        "broken words",
        "caption { overflow-wrap: anywhere } #defect table { width: 2rem }",
        table("<td>1</td>", "train (fit): 2,872 rows of 193 origins"),
    ),
    "captions of a word a line": Defect(
        "squeezed texts",
        "#defect caption { min-width: 0 }",
        table("<td>1</td>", "Rows of each label in the base"),
    ),
    "black bars": Defect("contrast of shapes", "#defect rect { fill: #000 }", BAR, LAPTOP, "dark"),
    "black bars in what scrolls": Defect(
        "contrast of shapes",
        "#defect { background: linear-gradient(to left, var(--paper), #0000) } #defect rect { fill: #000 }",
        BAR,
        scheme="dark",
    ),
    "pale bars": Defect("contrast of shapes", "#defect rect { fill: var(--line) }", BAR),
    "transparent bars": Defect("contrast of shapes", "#defect rect { opacity: .2 }", BAR),
    "a pale line of a chart": Defect(
        "contrast of shapes",
        "#defect polyline { fill: none; stroke: #f0e442 }",
        drawing('<polyline points="0,0 9,9"/>'),
    ),
    "a pale key of a chart": Defect(
        "contrast of boxes", "#defect { --c: var(--line) }", "<p class=key>erm</p>"
    ),
    "bars that are boxes": Defect(
        "contrast of boxes",
        "#defect span { display: block; height: 1rem; background: var(--line) }",
        "<p><span></span></p>",
    ),
    "grey texts": Defect("contrast of texts", ":root { --soft: #9aa3ad }"),
    "grey texts in the dark": Defect("contrast of texts", ":root { --soft: #5b636d }", scheme="dark"),
    "numbers of dark squares": Defect(
        "contrast of texts", "#defect td { background: #084594; color: #000 }", table("<td>96</td>")
    ),
    "names in a dark chart": Defect(
        "contrast of texts", "#defect text { fill: #333 }", drawing("<text y=15>erm</text>"), scheme="dark"
    ),
    "edges of fields": Defect("contrast of fields", "select { border-color: var(--line) }"),
    "no heat map at first": Defect("empty parts", "", table("", "train (fit)")),
    "an empty chart": Defect(
        "empty parts", "", f"<figure><figcaption>accuracy</figcaption>{drawing('')}</figure>"
    ),
    "an empty list": Defect("empty parts", "", "<ul></ul>"),
    "a heading alone": Defect("empty parts", "", "<section><h2>Along the severity</h2></section>"),
    "a grey box": Defect("empty boxes", "#defect div { height: 9rem }", '<div class="view"></div>'),
    "a picture that is not there": Defect("empty boxes", "", '<img alt="a" src="data:image/png;base64,AA">'),
    "look-alikes that never come": Defect("waiting", "", "<p>Looking for look-alikes ...</p>"),
    "a page that scrolls sideways": Defect("too wide", "main { min-width: 425px }", size=PHONE),
    "headings outside of the screen": Defect(
        "too wide", "h2 { position: relative; left: -2rem }", size=PHONE
    ),
    "names without their end": Defect(
        "cut",
        "#defect p { width: 8rem; overflow: hidden; white-space: nowrap }",
        "<p>ls_alphanone_smooth_smooth_none</p>",
    ),
    "cards that end in a line": Defect(
        "cut", "#defect p { height: 2rem; width: 9rem; overflow: hidden }", f"<p>{'word ' * 40}</p>"
    ),
    "pictures without their edge": Defect("cut", ".cards img { object-fit: cover }", page="index.html"),
    "code without its end": Defect("cut on wide screens", "", f"<pre>{'load_dataset ' * 20}</pre>"),
    "a column behind the edge": Defect(
        "cut on wide screens",
        "#defect th { min-width: 16rem }",
        f'<div class="scroll"><table><tr>{"<th>overall</th>" * 9}</tr></table></div>',
    ),
    "a field without a label": Defect("forms", "", "<p><input value=7></p>"),
    "a field without help": Defect("forms", "", field("nu")),
    "labels on two lines": Defect(
        "forms",
        "#defect small { display: block; font-size: 10px }",
        f"<div class=controls>{field('the protocol')}{field('k, of groups', '<small>2 to 9</small>')}</div>",
    ),
}


@pytest.fixture(scope="module")
def opened(chromium: Any, site: Path) -> Iterator[dict[str, Any]]:
    """The pages, once for all defects."""
    with ExitStack() as stack:
        urls = {path: (site / path).as_uri() for path in {defect.page for defect in DEFECTS.values()}}
        yield {path: stack.enter_context(open_page(chromium, url))[0] for path, url in urls.items()}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_a_page_is_found(opened, name):
    defect = DEFECTS[name]
    page = opened[defect.page]
    page.evaluate(PUT, ["", ""])
    at_size(page, defect.size, defect.scheme)
    before = check(page, [defect.found_by])
    page.evaluate(PUT, [defect.css, defect.html])
    after = check(page, [defect.found_by])
    assert set(after) - set(before)


#: The view in which a heat map once had no column.
UNTOUCHED = "#task=&taskbase=content"
#: Texts of our assets as they once were: bars black in the dark, captions of a syllable a line, no heat map.
OLD = {
    "contrast of shapes": ("style.css", {".bar-of {": ".chart .bar-of {"}),
    "broken words": (
        "style.css",
        {"wrap: break-word": "wrap: anywhere", ".heat caption {": ".heat figcaption {"},
    ),
    "empty parts": ("dataset.js", {"[-1, ...page.nuisances.keys()]": "[...page.nuisances.keys()]"}),
}


@pytest.mark.parametrize("found_by", OLD)
def test_a_defect_of_an_asset_is_found(chromium, site, tmp_path, found_by):
    asset, texts = OLD[found_by]
    for folder in ("assets", "tiny"):
        shutil.copytree(site / folder, tmp_path / folder)

    def found() -> list[str]:
        url = f"{(tmp_path / 'tiny' / 'index.html').as_uri()}{UNTOUCHED}"
        with open_page(chromium, url) as (page, _):
            at_size(page, LAPTOP, "dark")
            return check(page, [found_by])

    assert found() == []
    file = tmp_path / "assets" / asset
    for new, old in texts.items():
        source = file.read_text(encoding="utf-8")
        assert new in source
        file.write_text(source.replace(new, old), encoding="utf-8")
    assert found() != []


@pytest.mark.parametrize(
    ("css", "words"),
    [
        (".scripted { display: revert !important }", "empty box"),
        (".scripted { display: revert !important }", "does nothing without JavaScript"),
        ("noscript { display: none }", "no sentence says why"),
    ],
)
def test_a_page_that_waits_for_scripts_is_found(chromium, site, css, words):
    url = (site / "tiny_table" / "index.html").as_uri()
    with open_page(chromium, url, script=False, opened=False) as (page, watch):
        shown, *_ = ask(page, "shownWords()")
        before = problems_without_script(page, watch, shown)
        page.evaluate(PUT, [css, ""])
        after = problems_without_script(page, watch, 2 * shown)
    assert any(words in problem for problem in set(after) - set(before))


def test_what_a_page_says_and_asks_for_elsewhere_is_found(chromium, site):
    with open_page(chromium, (site / "index.html").as_uri()) as (page, watch):
        assert watch.said == []
        page.evaluate("console.log('left over')")
        page.evaluate("fetch('https://elsewhere.example/x').catch(() => {})")
        page.evaluate("setTimeout(() => { throw new Error('broken') })")
        page.wait_for_timeout(100)
    assert [
        said for said in ("left over", "elsewhere.example", "error: broken") if said not in str(watch.said)
    ] == []


def test_the_colours_of_charts_can_be_seen(opened):
    """Those of `.c0` to `.c7`: a page shows as many as it has lines."""
    page = opened["index.html"]
    lines = "".join(f'<polyline class="line-of c{at}" points="0,{at} 9,{at + 1}"/>' for at in range(8))
    page.evaluate(PUT, ["", f'<svg class="chart" viewBox="0 0 9 9">{lines}</svg>'])
    for scheme in ("light", "dark"):
        at_size(page, LAPTOP, scheme)
        assert check(page, ["contrast of shapes"]) == []
