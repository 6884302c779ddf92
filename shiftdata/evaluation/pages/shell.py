"""The shell of every page: templates that escape what they show, one style, a policy that forbids the rest.

Pages run no script but their own, and ask nobody but where they come from: labels, captions and cards are
texts of strangers. Data of scripts is in the page as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import number
from shiftdata.extras import require

if TYPE_CHECKING:
    from jinja2 import Environment

#: Each room may have templates and assets of its own.
ROOMS = Path(__file__).parents[2]

#: What a page may load and run. `form-action` and `base-uri` are not covered by `default-src`.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'"
)


def render(
    template: str, *, root: str, index: str = "index.html", policy: str = POLICY, **context: Any
) -> str:
    """Render a page from its template; `root` begins the links from it to the front page's folder.

    `index` is the front page's name there: a server has none.
    """

    def asset(name: str) -> str:
        return f"{root}assets/{name}?{asset_hash(name)}"

    page = environment().get_template(template)
    return page.render(root=root, index=index, asset=asset, policy=policy, **context)


def render_alone(template: str, **context: Any) -> str:
    """Render a page that is one file: no script, its style inside, and allowed to load nothing."""
    style = assets()["style.css"].read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment().get_template(template).render(style=style, policy=policy, **context)


@cache
def asset_hash(name: str) -> str:
    """Return the end of a link to a script or a style: another release is another address."""
    return hashlib.sha256(assets()[name].read_bytes()).hexdigest()[:12]


@cache
def assets() -> dict[str, Path]:
    """Return scripts and styles by name; all are in one folder next to the pages."""
    return {path.name: path for path in sorted(ROOMS.glob("**/assets/*"))}


def write_assets(out: Path) -> None:
    """Copy the scripts and the style of all pages next to pages that are files."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: give a folder for the pages")
    (out / "assets").mkdir(parents=True, exist_ok=True)
    for name, file in assets().items():
        shutil.copyfile(file, out / "assets" / name)


@cache
def environment() -> Environment:
    """Return the templates, with their filters."""
    jinja2 = require("jinja2", "a page")
    shared: Environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(sorted(ROOMS.glob("**/templates"))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shared.filters |= {"data": as_data, "size": as_size, "count": "{:,}".format, "number": number}
    return shared


def as_data(value: Mapping[str, Any]) -> Any:
    """Return a value as JSON for a `<script type="application/json">`: no text in it ends that."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return require("markupsafe", "a page").Markup(text)


def data_script(name: str, value: Mapping[Any, Any]) -> str:
    """Return data as a script, the only form that a page opened from a disk can read."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"shiftdata.receive({json.dumps(name)},{text});\n"


#: What keyboards and screen readers need of Markdown's HTML: what scrolls can be reached, no head is empty.
USABLE = (
    ("<pre>", '<pre tabindex="0">'),
    ("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>'),
    ("</table>", "</table></div>"),
    ("<th></th>", "<td></td>"),
)


def markdown(text: str, file_url: str) -> Any:
    """Return a stranger's Markdown as HTML: no tags of its own, links to files below `file_url`."""
    reader = require("markdown_it", "a page").MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in (inner for outer in tokens for inner in (outer, *(outer.children or ()))):
        for name in ("src", "href"):
            url = str(token.attrGet(name) or "")
            if url and not re.match(r"[a-z][a-z0-9+.-]*:|#|/", url):
                token.attrSet(name, f"{file_url}{url}")
        if token.type == "image":
            token.attrSet("loading", "lazy")
            if re.match(r"[a-z]+:|//", str(token.attrGet("src") or "")):
                token.attrSet("src", "")  # the policy would forbid it
    fold(tokens)
    page = str(reader.renderer.render(tokens, reader.options, {}))
    for plain, usable in USABLE:  # every other `<` of a text is escaped by now
        page = page.replace(plain, usable)
    return require("markupsafe", "a page").Markup(page)


#: The only HTML of a card that is more than text: what folds a part of it.
FOLD, END = re.compile(r"<details><summary>(.*)</summary>"), "</details>"


def fold(tokens: list[Any]) -> None:
    """Make the paragraphs that begin and end a fold into HTML: in pairs, none inside another."""
    begun: list[Any] = []
    for place, token in enumerate(tokens):
        around = tokens[place - 1 : place + 2]
        text = token.content if token.type == "inline" and around[0].level == 0 else ""
        if begins := FOLD.fullmatch(text):
            begun = [*around, html.escape(begins[1])]
        elif text == END and begun:
            for paragraph, tag in ((begun[:3], f"<details><summary>{begun[3]}</summary>"), (around, END)):
                for part in paragraph:
                    part.type, part.content = "html_block", ""
                paragraph[0].content = f"{tag}\n"
            begun = []


def as_size(size: float) -> str:
    """Write bytes for people.

    >>> [as_size(size) for size in (420, 5_300, 2_500_000, 7_250_000_000)]
    ['0.4 kB', '5.3 kB', '2.5 MB', '7.25 GB']
    """
    if size >= 1e9:
        return f"{size / 1e9:,.2f} GB"
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
