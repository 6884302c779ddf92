"""The body of a commit, line by line, without ever holding a file: its base64 is handed on as it comes.

A line is a JSON object, `{"key": "file", "value": {"content": "<base64>", "path": ...}}`. The one long text,
that of `content`, is decoded on the way; the rest of the line is kept, must be short, and is read by `json`.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shiftdata.serving.refusals import Refusal

#: Bytes of a line at most, without the content.
LONGEST_LINE = 1 << 20

#: What stands before a text that is a file's content; an escaped quote before it makes it another key.
CONTENT_KEY = re.compile(rb'(?<!\\)"content"[ \t\r]*:[ \t\r]*\Z')
MARKS = re.compile(rb'["\\\n]')


@dataclass(frozen=True)
class Line:
    """One line that is complete; its content, if it `has_content`, has been handed out before as bytes."""

    key: str
    value: dict[str, Any]
    has_content: bool


class CommitLines:
    """Feed it a body in any pieces: it gives the bytes of files and, after those of each file, its line."""

    def __init__(self) -> None:
        self._kept = bytearray()  # of the line: all but the content
        self._base64 = bytearray()  # less than a group of four letters
        self._state = self._outside
        self._has_content = False
        self._ended = False  # the padding of a content was met
        self._escape = False

    def feed(self, data: bytes) -> Iterator[bytes | Line]:
        """Take a piece of the body."""
        at = 0
        while at < len(data):
            at, made = self._state(data, at)
            if made is not None:
                yield made

    def close(self) -> Iterator[Line]:
        """The body has ended, perhaps without a line feed."""
        if self._state != self._outside:
            raise Refusal(400, "the body of the commit ends in the middle of a line")
        if self._kept.strip():
            yield self._line()

    def _outside(self, data: bytes, at: int) -> tuple[int, bytes | Line | None]:
        """Outside of any text."""
        found = MARKS.search(data, at)
        if not found:
            self._keep(data[at:])
            return len(data), None
        end = found.end()
        self._keep(data[at:end])
        if found[0] == b"\n":
            return end, self._line() if self._kept.strip() else None
        if found[0] == b'"':
            self._open()
        return end, None

    def _open(self) -> None:
        """A text begins: the content, or one to keep."""
        if not CONTENT_KEY.search(self._kept, max(0, len(self._kept) - 100), len(self._kept) - 1):
            self._state = self._text
            return
        if self._has_content:
            raise Refusal(400, "a line of the commit has two contents")
        self._has_content, self._ended = True, False
        self._state = self._content

    def _text(self, data: bytes, at: int) -> tuple[int, None]:
        """Inside a text that is kept."""
        if self._escape:
            self._escape = False
            self._keep(data[at : at + 1])
            return at + 1, None
        found = MARKS.search(data, at)
        end = found.end() if found else len(data)
        self._keep(data[at:end])
        if found and found[0] == b"\n":
            raise Refusal(400, "a line of the commit is no JSON: it ends inside a text")
        if found and found[0] == b'"':
            self._state = self._outside
        self._escape = found is not None and found[0] == b"\\"
        return end, None

    def _content(self, data: bytes, at: int) -> tuple[int, bytes | None]:
        """Inside a content."""
        if self._escape:  # the one escape that base64 can need
            if data[at : at + 1] != b"/":
                raise Refusal(400, "the content of a file is not base64")
            self._escape = False
            return at + 1, self._decoded(b"/")
        found = MARKS.search(data, at)
        end = found.start() if found else len(data)
        made = self._decoded(data[at:end])
        if not found:
            return end, made
        if found[0] == b"\n":
            raise Refusal(400, "a line of the commit is no JSON: it ends inside a content")
        if found[0] == b"\\":
            self._escape = True
            return end + 1, made
        if self._base64:
            raise Refusal(400, "the content of a file is not base64: it is cut")
        self._keep(b'"')
        self._state = self._outside
        return end + 1, made

    def _decoded(self, letters: bytes) -> bytes | None:
        """Decode whole groups of four letters and keep the rest for the next piece."""
        self._base64 += letters
        whole = len(self._base64) // 4 * 4
        if not whole:
            return None
        if self._ended:
            raise Refusal(400, "the content of a file is not base64: letters follow its padding")
        group = bytes(self._base64[:whole])
        del self._base64[:whole]
        self._ended = group.endswith(b"=")
        try:
            return binascii.a2b_base64(group, strict_mode=True)
        except binascii.Error as error:
            raise Refusal(400, f"the content of a file is not base64: {error}") from None

    def _keep(self, part: bytes) -> None:
        self._kept += part
        if len(self._kept) > LONGEST_LINE:
            raise Refusal(
                413, f"a line of the commit is longer than {LONGEST_LINE} bytes without its content"
            )

    def _line(self) -> Line:
        """Read what was kept of a line, and begin the next."""
        kept, has_content = bytes(self._kept), self._has_content
        self._kept.clear()
        self._has_content = False
        try:
            read = json.loads(kept)
        except (ValueError, RecursionError):
            raise Refusal(400, "a line of the commit is no JSON") from None
        if not isinstance(read, dict) or not isinstance(read.get("key"), str):
            raise Refusal(400, 'a line of the commit is no {"key": ..., "value": {...}}')
        value = read.get("value")
        if not isinstance(value, dict) or (has_content and value.get("content") != ""):
            raise Refusal(400, 'a line of the commit has no plain "value"')
        return Line(read["key"], value, has_content)
