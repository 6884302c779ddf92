"""The body of a commit, line by line, without ever holding a file: its base64 is decoded as it comes.

A line is a JSON object, `{"key": "file", "value": {"content": "<base64>", "path": ...}}`. The one long text,
that of `content`, is decoded on the way; the rest of the line must be short, and `json` reads it.
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

#: What ends the part of a line that is kept: the start of a content, or the end of the line. A quote after a
#: backslash belongs to another text.
CONTENT_OR_END = re.compile(rb'(?<!\\)"content"[ \t\r]{0,40}:[ \t\r]{0,40}"|\n')
LONGEST_START = 100


@dataclass(frozen=True)
class Line:
    """One line that is complete; its content, if it `has_content`, has been handed out before as bytes."""

    key: str
    value: dict[str, Any]
    has_content: bool


class CommitLines:
    """Feed it a body in any pieces: it yields the bytes of files and, after those of each file, its line."""

    def __init__(self) -> None:
        self._kept = bytearray()  # of the line: all but the content
        self._searched = 0  # so much of it needs no second look
        self._base64 = bytearray()  # less than a group of four letters, or one with a backslash
        self._has_content = self._in_content = self._padded = False

    def feed(self, data: bytes) -> Iterator[bytes | Line]:
        while data:
            if self._in_content:
                letters, quote, data = data.partition(b'"')
                yield self._decoded(letters)
                self._end_content(quote)
            else:
                data = self._keep(data)
                if self._kept.endswith(b"\n"):
                    yield from self._line()

    def close(self) -> Iterator[Line]:
        """The body has ended, perhaps without a line feed."""
        if self._in_content:
            raise Refusal(400, "the body of the commit ends in the middle of a line")
        yield from self._line()

    def _keep(self, data: bytes) -> bytes:
        """Keep what comes before a content or the end of the line; return the rest."""
        self._kept += data
        found = CONTENT_OR_END.search(self._kept, self._searched)
        end = found.end() if found else len(self._kept)
        rest = bytes(self._kept[end:])
        del self._kept[end:]
        if end > LONGEST_LINE:
            raise Refusal(413, f"a line of the commit is longer than {LONGEST_LINE} bytes")
        self._searched = end if found else max(self._searched, end - LONGEST_START)
        if found and found[0] != b"\n":
            if self._has_content:
                raise Refusal(400, "a line of the commit has two contents")
            self._has_content = self._in_content = True
            self._padded = False
        return rest

    def _decoded(self, letters: bytes) -> bytes:
        """Decode whole groups of four letters and keep the rest for the next piece."""
        self._base64 = (self._base64 + letters).replace(rb"\/", b"/")  # the one escape that base64 can need
        whole = (len(self._base64) - self._base64.endswith(b"\\")) // 4 * 4
        group = bytes(self._base64[:whole])
        del self._base64[:whole]
        if group and self._padded:
            raise Refusal(400, "the content of a file is not base64: letters follow its padding")
        self._padded = self._padded or group.endswith(b"=")
        try:
            return binascii.a2b_base64(group, strict_mode=True)
        except binascii.Error as error:
            raise Refusal(400, f"the content of a file is not base64: {error}") from None

    def _end_content(self, quote: bytes) -> None:
        if quote and self._base64:
            raise Refusal(400, "the content of a file is not base64: it is cut")
        self._in_content = not quote
        self._kept += quote

    def _line(self) -> Iterator[Line]:
        kept, has_content = bytes(self._kept), self._has_content
        self._kept.clear()
        self._searched, self._has_content = 0, False
        if not kept.strip():
            return
        try:
            line = json.loads(kept)
        except (ValueError, RecursionError):
            raise Refusal(400, "a line of the commit is not JSON") from None
        if not isinstance(line, dict) or not isinstance(line.get("key"), str):
            raise Refusal(400, 'a line of the commit is not {"key": ..., "value": {...}}')
        value = line.get("value")
        if not isinstance(value, dict) or (has_content and value.get("content") != ""):
            raise Refusal(400, 'a line of the commit has no plain "value"')
        yield Line(line["key"], value, has_content)
