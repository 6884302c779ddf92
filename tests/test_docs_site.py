"""The site of the docs: its reference has every public name, its links lead somewhere."""

from __future__ import annotations

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


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPO / "scripts" / "docs_site"))
    for name in ("checking", "navigation", "reference", "staging", "topics"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_reference_has_every_public_name_and_every_verb_once(tmp_path):
    reference = import_module("reference")
    reference.write_reference(tmp_path / "reference")
    pages = {path.stem: path.read_text() for path in (tmp_path / "reference").iterdir()}
    headings = [line for text in pages.values() for line in text.splitlines() if line.startswith("## ")]
    assert len(set(headings)) == len(headings)
    modules = reference.MODULES
    for module, called in modules.items():
        loaded = import_module(module)
        names = [name for name in reference.public_names(loaded) if name not in ("errors", "losses")]
        assert names
        for name in names:  # under the first module that has it
            homes = {f"## {modules[home]}.{name}" for home in modules if hasattr(import_module(home), name)}
            assert homes & set(headings), (called, name)
    assert "## protocols.UDA\n" in pages["protocols"]
    assert "## build\n" in pages["command_make"]
    assert all(text.count("```") % 2 == 0 for text in pages.values())


def test_a_public_name_without_a_topic_is_named(tmp_path, monkeypatch):
    reference = import_module("reference")
    monkeypatch.setattr(
        sd.errors, "LostError", type("LostError", (Exception,), {"__module__": "shiftdata.errors"}), False
    )
    with pytest.raises(SystemExit, match="LostError"):
        reference.write_reference(tmp_path / "reference")


def test_every_page_is_staged_where_it_stands_and_has_a_place_in_the_order(tmp_path):
    import_module("staging").stage(tmp_path)
    listed = import_module("navigation").config(tmp_path)
    assert '"docs/gallery.md"' in listed
    readme, notebook = (tmp_path / name for name in ("index.md", "docs/notebooks/researcher.md"))
    assert readme.read_text().startswith("# shiftdata")
    assert "(docs/notebooks/researcher.md)" in readme.read_text()
    parts = ["# A network", "```ipython\nimport", '<img alt="B / amber"', "```text\nERM: mean"]
    assert [part for part in parts if part not in notebook.read_text()] == []
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
    assert [name for name in ("b.html#no", "c.html", "x.png", "y.js") if name not in str(named)] == []
    (tmp_path / "a.html").write_text(
        '<img srcset="b.html, https://x.org/big.png 2x"><link rel="modulepreload" href="https://x.org/m.js">'
        "<style>@import '//x.org/s.css'; p { background: url(https://x.org/p.png) }</style>"
        '<pre class="mermaid">graph</pre><p style="background: url(//x.org/q.png)">'
    )
    elsewhere = import_module("checking").problems(tmp_path)
    loaded = ("big.png", "m.js", "s.css", "p.png", "mermaid", "q.png")
    assert [name for name in loaded if name not in str(elsewhere)] == []
    assert len(elsewhere) == 6


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, made as `make site` makes it."""
    pytest.importorskip("zensical", reason="the group `docs` is not installed")
    out = tmp_path_factory.mktemp("docs") / "site"
    done = _make("--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def _make(*arguments) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/docs_site", *map(str, arguments)]
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
    with chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 740}) as context:
        shown = context.new_page()
        shown.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        shown.on("requestfailed", lambda request: wrong.append(request.url))
        shown.on(
            "request",
            lambda request: (
                None if request.url.startswith((address, "data:", "blob:")) else wrong.append(request.url)
            ),
        )
        shown.goto(f"{address}/{page}.html")
        shown.locator("nav.md-code__nav[role=none], .md-typeset__scrollwrap[tabindex]").first.wait_for()
        assert accessibility_problems(shown) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
def test_no_page_is_endless_too_wide_or_cut(chromium, site, width):
    layout_problems = import_module("checking").layout_problems
    page = chromium.new_page(viewport={"width": width, "height": 800})
    files = [path for path in site.rglob("*.html") if "gallery" not in path.relative_to(site).parts]
    assert len(files) > 80
    wrong = {}
    for path in files:
        page.goto(path.as_uri())
        wrong[str(path.relative_to(site))] = layout_problems(page, width)
    page.close()
    assert {name: lines for name, lines in wrong.items() if lines and name != "404.html"} == {}


@pytest.mark.slow
def test_the_first_screen_shows_the_product(chromium, site):
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "index.html").as_uri())
    for selector in ("article img", "article pre", "article li:has-text('Auditor')"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] < 900, selector
    page.close()


@pytest.mark.slow
def test_what_is_cut_endless_or_too_wide_is_named(chromium):
    checking = import_module("checking")
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.set_content(
        "<article><p style='width: 4em; overflow: hidden; white-space: nowrap'>A long title, cut</p>"
        "<pre style='width: 4em; overflow: auto'>what scrolls is not cut</pre>"
        "<div style='width: 2000px; height: 13000px'></div></article>"
    )
    assert [line[:7] for line in checking.layout_problems(page, 1280)] == ["cuts 'A", "is 2,00", "is 13,0"]
    page.close()


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    done = _make("--out", tmp_path)
    assert done.returncode == 2
    assert "name a new folder" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "mine"
