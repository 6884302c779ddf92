"""HTML that objects show in a notebook: no script, and no style but its own."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from typing import TypeVar

from shiftdata.tables import Block

T = TypeVar("T")

#: Characters of what is shown, and lines of a table, at most.
MOST, MOST_LINES = 1_000_000, 40


def shown(make: Callable[[T], str]) -> Callable[[T], str | None]:
    """Return a function that gives None where `make` fails or gives too much: a notebook then shows text."""

    @wraps(make)
    def html(value: T) -> str | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                text = make(value)
        except Exception:
            return None
        return text if len(text) <= MOST else None

    return html


def box(title: str, *parts: str) -> str:
    """Return a title and the parts below it; what is wider than the page can be scrolled."""
    head = f'<div style="max-width:100%;overflow-x:auto">\n<div><strong>{escape(title)}</strong></div>'
    return re.sub("\n+", "\n", "\n".join([head, *parts, "</div>"]))  # a blank line would end it in Markdown


def line(text: str) -> str:
    """Return a paragraph, paler than a title."""
    return f'<div style="opacity:.75">{escape(text)}</div>'


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of the first rows, and how many are left out."""
    shown = plain(Block(tuple(header), tuple(map(tuple, rows[:MOST_LINES]))).html(caption))
    return shown + (line(f"and {len(rows) - MOST_LINES:,} more") if len(rows) > MOST_LINES else "")


def plain(html: str) -> str:
    """Return a table as it looks without the style of our pages: a notebook or a site has its own."""
    return re.sub(' class="[^"]*"', "", html.replace(' class="n"', ' style="text-align:right"'))


def strip(pictures: Sequence[tuple[str, bytes, str]]) -> str:
    """Return pictures side by side, each a name, bytes and their type, under the names."""
    shapes = "display:inline-block;margin:4px 8px 4px 0;text-align:center;vertical-align:top;font-size:.8em"
    figures = (
        f'<div style="{shapes}"><img alt="{escape(name)}" style="height:64px;margin:0 auto" '
        f'src="data:{kind};base64,{base64.b64encode(data).decode()}"><div>{escape(name)}</div></div>'
        for name, data, kind in pictures
    )
    return f"<div>{''.join(figures)}</div>"
