"""Check a site: links lead somewhere, nothing comes from elsewhere, pages are short and nothing is cut."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: The policy of every page; the generator writes scripts and styles into its pages.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; worker-src 'self' blob:; base-uri 'self'; form-action 'none'"
)
#: Attributes whose addresses a browser loads without being asked; of links, all but those that only name.
LOADED = ("src", "srcset", "poster", "data")
NAMED = ("canonical", "next", "prev", "alternate")
#: Blocks for which the generator's script would load a library from elsewhere.
FOREIGN = ("mermaid", "glightbox")
#: The most pixels that a page is high where the window is `WIDE`.
MOST_HEIGHT, WIDE = 12_000, 1280
#: Texts of an open page that end where their box does; what scrolls is not cut.
CUT = """() => [...document.querySelectorAll("article *, .md-ellipsis")]
  .filter((box) => box.checkVisibility() && box.clientWidth && box.scrollWidth > box.clientWidth + 1)
  .filter((box) => ["hidden", "clip"].includes(getComputedStyle(box).overflowX))
  .map((box) => box.textContent.trim().slice(0, 60))"""
STYLE = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]?((?:https?:)?//\S+)")


class Page(HTMLParser):
    """The links, anchors and loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.in_style = False
        self.feed(text)

    def has(self, fragment: str) -> bool:
        return not fragment or unquote(fragment) in self.anchors

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name in LOADED:
            self.loaded += [part.split()[0] for part in given.get(name, "").split(", ") if part.strip()]
        if tag == "link" and given.get("rel") not in NAMED:
            self.loaded.append(given.get("href", ""))
        self.loaded += [
            f"//a library for {name}" for name in FOREIGN if name in given.get("class", "").split()
        ]
        self.loaded += _of_style(given.get("style", ""))
        self.in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.loaded += _of_style(data)
            self.in_style = False


def _of_style(text: str) -> list[str]:
    """Return the addresses elsewhere that a style loads."""
    return [url or imported for url, imported in STYLE.findall(text)]


def finish(site: Path) -> None:
    """Put the policy on every page, and no empty header on a table: the generator has no setting for them."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8").replace("<head>", f"<head>{meta}", 1)
        text = re.sub(r"<thead>\s*<tr>\s*(<th[^>]*></th>\s*)+</tr>\s*</thead>", "", text)
        path.write_text(re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text), encoding="utf-8")


def problems(site: Path) -> list[str]:
    """Return a line for each thing that is wrong."""
    files = [
        path for path in sorted(site.rglob("*.html")) if path.name != "404.html"
    ]  # it links from the root
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    wrong = []
    for path, page in pages.items():
        where = path.relative_to(site)
        wrong += [f"{where} loads {url} from elsewhere" for url in page.loaded if urlsplit(url).netloc]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("//"):
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{where} links to {link}, which is not there")
            elif "=" not in parts.fragment and target in pages and not pages[target].has(parts.fragment):
                wrong.append(f"{where} links to {link}: that page lacks the anchor")
    return wrong


def layout_problems(page: Any, width: int) -> list[str]:
    """Return a line for each fault in the layout of a page that a browser of this width shows."""
    wrong = [f"cuts {text!r}" for text in page.evaluate(CUT)]
    height, wide = page.evaluate(
        "[document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
    )
    if wide > width:
        wrong.append(f"is {wide:,} px wide")
    if width >= WIDE and height > MOST_HEIGHT:
        wrong.append(f"is {height:,} px high: split or fold it")
    return wrong
