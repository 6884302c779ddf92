"""The site of the docs: its reference has every public name, its tutorials run, its links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib import import_module
from pathlib import Path

import pytest

import shiftdata as sd
from tests.browser import accessibility_problems
from tests.paths import ROOT
from tests.web import answering

REPO = ROOT
TUTORIALS = sorted((REPO / "docs" / "tutorials").glob("*.md"))


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPO / "scripts" / "docs_site"))
    for name in ("checking", "navigation", "reference", "staging", "tutorials"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_reference_has_every_public_name_and_every_verb(tmp_path):
    reference = import_module("reference")
    reference.write_reference(tmp_path / "reference")
    pages = {path.stem: path.read_text() for path in (tmp_path / "reference").iterdir()}
    for name in sd.__all__:
        assert f"## {name}\n" in pages["0_shiftdata"]
    for module in reference.MODULES:
        text = next(page for stem, page in pages.items() if stem.endswith(f"_{module.replace('.', '_')}"))
        names = reference.public_names(import_module(module))
        assert [name for name in names if f"## {name}\n" not in text] == []
        assert names
    assert "## gallery\n" in pages["command_shiftdata"]
    assert "## build\n" in pages["command_builders"]
    assert all(text.count("```") % 2 == 0 for text in pages.values())


def test_every_page_is_staged_where_it_stands_and_has_a_place_in_the_order(tmp_path):
    import_module("staging").stage(tmp_path)
    listed = import_module("navigation").config(tmp_path)
    assert '"docs/gallery.md"' in listed
    assert (tmp_path / "index.md").read_text().startswith("# shiftdata")
    (tmp_path / "docs" / "lost.md").write_text("# Lost")
    with pytest.raises(SystemExit, match="lost"):
        import_module("navigation").config(tmp_path)


def test_links_that_lead_nowhere_and_what_comes_from_elsewhere_are_named(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id=top>A</h1><a href="b.html#top">b</a><a href="b.html#no">b</a><a href="c.html">c</a>'
        '<a href="https://x.org">far</a><img src="https://example.org/x.png"><script src="//x.org/y.js">'
    )
    (tmp_path / "b.html").write_text('<h1 id=top>B</h1><a href="#state=1">view</a>')
    named = import_module("checking").problems(tmp_path)
    assert len(named) == 4
    assert [one for one in ("b.html#no", "c.html", "x.png", "y.js") if one not in str(named)] == []
    (tmp_path / "a.html").write_text(
        '<img srcset="b.html, https://x.org/big.png 2x"><link rel="modulepreload" href="https://x.org/m.js">'
        "<style>@import '//x.org/s.css'; p { background: url(https://x.org/p.png) }</style>"
        '<pre class="mermaid">graph</pre><p style="background: url(//x.org/q.png)">'
    )
    elsewhere = import_module("checking").problems(tmp_path)
    assert [
        one for one in ("big.png", "m.js", "s.css", "p.png", "mermaid", "q.png") if one not in str(elsewhere)
    ] == []
    assert len(elsewhere) == 6


def test_the_output_of_a_page_stands_below_its_code(tmp_path):
    page = "```console\n$ echo hello $((1 + 1))\n```\n\n```python\nx = 3\nx + 4\n```\n"
    page += "\n```python\nprint(x)\n```\n"
    shown = import_module("tutorials").run_tutorial(page, tmp_path)
    assert "```text\nhello 2\n```" in shown
    assert "```text\n7\n```" in shown
    assert "```text\n3\n```" in shown
    with pytest.raises(SystemExit, match="no_such_command"):
        import_module("tutorials").run_tutorial("```console\n$ no_such_command\n```\n", tmp_path)
    with pytest.raises(ZeroDivisionError):
        import_module("tutorials").run_tutorial("```python\n1 / 0\n```\n", tmp_path)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_tutorials_can_be_read(page):
    for kind, code in import_module("tutorials").BLOCK.findall(page.read_text()):
        assert kind == "console" or ast.parse(code)


#: What the output of each tutorial must say, with the least that a number in it may be.
SAID = {
    "1_first_shift": {r"no origin is on two sides": None, r"\noverall +([\d.]+)": 0.7, r"open it in": None},
    "2_own_folder": {r"\nall: train ([\d,]+)": 4000, r"shapes: all well": None, r"no origin is on two": None},
    "3_sweep": {r"72 runs: 72 done": None, r"\nerm +([\d.]+)±": 85, r"may be noise: ": None, r"as SVG": None},
}


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run_and_show_what_they_speak_of(page, tmp_path):
    shown = import_module("tutorials").run_tutorial(page.read_text(), tmp_path)
    for pattern, least in SAID[page.stem].items():
        found = re.search(pattern, shown)
        assert found, f"{pattern} is not in {shown}"
        assert least is None or float(found[1].replace(",", "")) >= least


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, made as `make site` makes it; tutorials are run by a slow test."""
    pytest.importorskip("zensical", reason="the group `docs` is not installed")
    out = tmp_path_factory.mktemp("docs") / "site"
    done = _make("--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def _make(*arguments) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/docs_site", "--skip-tutorials", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False)


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where a web server shows the site."""
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with answering(handler) as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "scheme", "width"), [("index", "light", 1280), ("cards/sma_glyphs", "dark", 360)]
)
def test_everybody_can_use_the_pages(chromium, address, page, scheme, width):
    wrong: list[str] = []
    asked: list[str] = []
    with chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 740}) as context:
        shown = context.new_page()
        shown.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
        shown.on("requestfailed", lambda one: wrong.append(one.url))
        shown.on(
            "request",
            lambda one: None if one.url.startswith((address, "data:", "blob:")) else wrong.append(one.url),
        )
        shown.goto(f"{address}/{page}.html")
        shown.locator("nav.md-code__nav[role=none], .md-typeset__scrollwrap[tabindex]").first.wait_for()
        assert accessibility_problems(shown) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    done = _make("--out", tmp_path)
    assert done.returncode == 2
    assert "name a new folder" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "mine"
