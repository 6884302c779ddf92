"""The addresses of files in croissant.json: relative to itself, or on the web.

Venues load its JSON alone, so a published one has the addresses of its place. The manifest lists the text
with relative ones, which is the same everywhere: compare `relative(data)` with its hash.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from shiftdata.data.format.paths import CROISSANT
from shiftdata.data.format.records import FileRecord

#: The beginning of each address; in a text of the datasheet the quotes would be escaped.
FIELD = b'"contentUrl": "'
#: An entry of the distribution, whose name is its path; the group is what lies before the path.
ON_THE_WEB = re.compile(rb'"name": "([^"\n]+)",\s*"contentUrl": "(https?://[^"\s]*/)\1"')


def absolute(data: bytes, web: str) -> bytes:
    """Return the text with relative addresses as one for a place on the web.

    >>> absolute(b'"name": "a/b", "contentUrl": "a/b"', "https://lab/my data")
    b'"name": "a/b", "contentUrl": "https://lab/my%20data/a/b"'
    """
    start = quote(web.rstrip("/"), safe="/:@%?&=[]~!$'()*+,;").encode()
    return relative(data).replace(FIELD, FIELD + start + b"/")


def relative(data: bytes) -> bytes:
    """Return the text with relative addresses; one that names several places keeps those of the others.

    >>> relative(b'"name": "a/b", "contentUrl": "https://lab/my%20data/a/b"')
    b'"name": "a/b", "contentUrl": "a/b"'
    """
    match = ON_THE_WEB.search(data)
    return data.replace(FIELD + match[2], FIELD) if match else data


def is_listed(path: str, data: bytes, record: FileRecord) -> bool:
    """Return True if the bytes of a file are those that a manifest lists, at any address."""
    text = relative(data) if path == CROISSANT else data
    return len(text) == record.bytes and hashlib.sha256(text).hexdigest() == record.sha256
