"""Several ranges of a file in one answer: `multipart/byteranges` (RFC 9110, section 14.6), read strictly.

A server may join ranges, give them in another order, or give fewer of them. What it gives is taken by its
`Content-Range`, never by looking for the boundary, which the bytes of a picture may have by chance.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from shiftdata.errors import StorageError

#: The most bytes around a range: its boundary and head. Servers write about 150.
HEAD = 512
BOUNDARY = re.compile(
    r"multipart/byteranges\s*;\s*boundary=(\"?)([0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-])\1\s*",
    re.IGNORECASE | re.ASCII,
)
RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/(?:[0-9]{1,18}|\*)", re.IGNORECASE | re.ASCII)


class NoPartsError(StorageError):
    """An answer to several ranges that has one of them or the whole file, or cannot be read."""


class Parts:
    """Takes the answer to some ranges, each a start and a length, that do not overlap."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self.ranges = ranges
        #: The most bytes of an answer. Gaps that cost less than a head may be in it.
        self.most = sum(length for _, length in ranges) + (len(ranges) + 1) * HEAD
        self._first = min(start for start, _ in ranges)
        self._end = max(start + length for start, length in ranges)
        self._body = bytearray()
        self._boundary = b""  # with its dashes; of an answer without parts empty
        self._alone: tuple[int, int] | None = None

    @property
    def header(self) -> str:
        """The value of `Range`."""
        return "bytes=" + ",".join(f"{start}-{start + length - 1}" for start, length in self.ranges)

    @property
    def are_several(self) -> bool:
        """True if the answer has parts."""
        return bool(self._boundary)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of the answer, or refuse it before its body is read."""
        length = headers.get("content-length", "")
        if status != 206 or (length.isdecimal() and int(length[:19]) > self.most):
            raise NoPartsError("the server does not give several ranges at once")
        self._body.clear()
        multipart = BOUNDARY.fullmatch(headers.get("content-type", ""))
        self._boundary = b"--" + multipart[2].encode() if multipart else b""
        self._alone = None if multipart else self._bounds(headers.get("content-range", ""))

    def take(self, data: bytes) -> None:
        """Take more of the body."""
        self._body += data

    def found(self) -> dict[tuple[int, int], bytes]:
        """Return the ranges that have come whole, those before the end of an answer that was cut short."""
        parts = sorted(self._parts())
        starts, view = [start for start, _, _ in parts], memoryview(self._body)
        found: dict[tuple[int, int], bytes] = {}
        for start, length in self.ranges:
            place = bisect_right(starts, start) - 1
            if place >= 0 and start + length <= parts[place][1]:
                offset = parts[place][2] + start - starts[place]
                found[start, length] = bytes(view[offset : offset + length])
        return found

    def _parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first byte and the end of each range that is whole, and its place in the body."""
        body = self._body
        if self._alone is not None:
            yield self._alone[0], min(self._alone[1], self._alone[0] + len(body)), 0
            return
        at = 2 if body.startswith(b"\r\n") else 0
        for _ in range(len(self.ranges)):
            end_of_head = body.find(b"\r\n\r\n", at, at + HEAD)
            lines = bytes(body[at : max(end_of_head, 0)]).split(b"\r\n")
            if lines[0] != self._boundary:
                return
            fields = dict(line.decode("latin-1").lower().partition(":")[::2] for line in lines[1:])
            start, end = self._bounds(fields.get("content-range", "").strip())
            at = end_of_head + 4
            if at + end - start > len(body):
                return
            yield start, end, at
            at += end - start
            if body[at : at + 2] != b"\r\n":
                return
            at += 2

    def _bounds(self, text: str) -> tuple[int, int]:
        """Read a `Content-Range`, which lies within what was asked for."""
        match = RANGE.fullmatch(text)
        start, end = (int(match[1]), int(match[2]) + 1) if match else (0, 0)
        if not self._first <= start < end <= self._end:
            raise NoPartsError("the server gives other ranges than were asked for")
        return start, end
