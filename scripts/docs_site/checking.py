"""Whether a site hangs together: every link leads somewhere, and nothing comes from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser loads without being asked.
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The links, anchors and loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def has(self, fragment: str) -> bool:
        return not fragment or unquote(fragment) in self.anchors

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "preconnect"):
            self.loaded.append(given.get("href", ""))


def problems(site: Path) -> list[str]:
    """What is wrong, a line each."""
    files = [
        path for path in sorted(site.rglob("*.html")) if path.name != "404.html"
    ]  # it links from the root
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        found += [f"{where} loads {one} from elsewhere" for one in page.loaded if urlsplit(one).netloc]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{where} links to {link}, which is not there")
            elif "=" not in parts.fragment and target in pages and not pages[target].has(parts.fragment):
                found.append(f"{where} links to {link}: there is no such anchor")
    return found
