"""An HTTP server that knows Range, counts what it gives, and answers badly when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from tests.web import answering

Pairs: TypeAlias = Sequence[tuple[int, int]]
Heads: TypeAlias = dict[str, str]


@dataclass
class Served:
    """The requests that a server got, and how it is to answer for the files whose path has `faulty`.

    `faults` are words for the next requests of these, one each; `always` is for all that follow. `faults_of`
    has words for paths of their own.
    """

    url: str = ""
    bodies: list[tuple[str, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    faults_of: dict[str, list[str]] = field(default_factory=dict)
    always: str = "well"
    faulty: str = "/data/"
    versions: bool = False  # whether it sends an ETag
    several: str = ""  # how it answers several ranges: a word of `PARTS`, or "" for the whole file
    #: Whole files that it gave instead of several ranges, of which a client reads no more than the head.
    unasked: list[tuple[str, int]] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)  # those that are stuck

    def fetched(self, part: str = "") -> int:
        return sum(size for path, size in self.bodies if part in path)

    def next_fault(self, path: str) -> str:
        with self.lock:
            if self.faults_of.get(path):
                return self.faults_of[path].pop(0)
            return (self.faults.pop(0) if self.faults else self.always) if self.faulty in path else "well"


class Ranges(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, root: Path, served: Served, *args: object) -> None:
        self.root, self.served = root, served
        super().__init__(*args)  # type: ignore[arg-type]

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that was interrupted
            super().handle()

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        with self.served.lock:
            self.served.busy += 1
            self.served.most_busy = max(self.served.most_busy, self.served.busy)
        try:
            self.answer(body=True)
        finally:
            with self.served.lock:
                self.served.busy -= 1

    def answer(self, body: bool) -> None:
        file = self.root / unquote(self.path.partition("?")[0]).lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        fault = self.served.next_fault(self.path) if body else "well"
        asked = self.headers.get("Range")
        start, end = 0, len(data)
        several = bool(asked and "," in asked) and fault != "whole"
        if several:
            if self.served.several:
                self.parts(data, asked, fault)
                return
            asked = None
        if asked and fault != "whole":
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last) + 1, len(data))
        part = ANSWERS.get(fault, bytes)(data[start:end])
        if fault == "slow":
            time.sleep(0.05)
        if fault == "stuck":
            self.served.released.wait(60)
        well = 206 if asked and fault != "whole" else 200
        self.send_response({"error": 500, "refused": 403}.get(fault, well))
        elsewhere = fault == "elsewhere"
        self.send_header("Content-Range", f"bytes {start + elsewhere}-{end - 1 + elsewhere}/{len(data)}")
        self.send_header("Content-Length", str(len(part) * 2 if fault == "cut" else len(part)))
        if self.served.always != "whole":
            self.send_header("Accept-Ranges", "bytes")
        if self.served.versions:
            self.send_header("ETag", f'"{file.stat().st_mtime_ns}-{len(data)}"')
        self.end_headers()
        if body:
            (self.served.unasked if several else self.served.bodies).append((self.path, len(part)))
            self.wfile.write(part)
        self.close_connection = fault == "cut"

    def parts(self, data: bytes, asked: str, fault: str) -> None:
        """Answer several ranges."""
        pairs = [tuple(map(int, each.split("-"))) for each in asked.removeprefix("bytes=").split(",")]
        heads, body = PARTS[self.served.several](data, [(first, last + 1) for first, last in pairs])
        self.send_response(500 if fault == "error" else 206)
        for name, value in heads.items():
            self.send_header(name, value)
        ends = {"cut": len(body) // 2, "short": len(body) - 200}
        part = body[: ends.get(fault, len(body))]
        if fault == "flipped":
            last = body.rindex(b"\r\n\r\n") + 4  # of the last range
            part = body[:last] + bytes([body[last] ^ 1]) + body[last + 1 :]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.served.bodies.append((self.path, len(part)))
        self.wfile.write(part)
        self.close_connection = fault in ("cut", "short")

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


ANSWERS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda part: part[: len(part) // 2],
    "short": lambda part: part[:-1],
    "flipped": lambda part: part[:-1] + bytes([part[-1] ^ 1]),
}


def multipart(data: bytes, pairs: Pairs, boundary: str = "of-parts", said: str = "") -> tuple[Heads, bytes]:
    """A body of parts; its head may say another boundary."""
    body = b""
    for start, end in pairs:
        where = f"Content-Type: a/b\r\nContent-Range: bytes {start}-{end - 1}/{len(data)}"
        body += f"\r\n--{boundary}\r\n{where}\r\n\r\n".encode() + data[start:end]
    kind = f"multipart/byteranges; boundary={said or boundary}"
    return {"Content-Type": kind}, body + f"\r\n--{boundary}--\r\n".encode()


def alone(data: bytes, start: int, end: int) -> tuple[Heads, bytes]:
    """A single range."""
    return {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}, data[start:end]


#: Ways to answer several ranges: those of real servers, and wrong ones.
PARTS: dict[str, Callable[[bytes, Pairs], tuple[Heads, bytes]]] = {
    "well": multipart,
    "reordered": lambda data, pairs: multipart(data, pairs[::-1]),
    "fewer": lambda data, pairs: multipart(data, pairs[: len(pairs) // 2 + 1]),
    "joined": lambda data, pairs: multipart(data, [(pairs[0][0], pairs[1][1]), *pairs[2:]]),
    "first": lambda data, pairs: alone(data, *pairs[0]),
    "around": lambda data, pairs: alone(data, pairs[0][0], pairs[-1][1]),
    "other boundary": lambda data, pairs: multipart(data, pairs, said="another"),
    "quoted": lambda data, pairs: multipart(data, pairs, "a b", '"a b"'),
    "elsewhere": lambda data, pairs: multipart(data, [(start + 1, end + 1) for start, end in pairs]),
    "huge": lambda data, pairs: multipart(data, [(0, len(data))] * 9),
    "backwards": lambda data, pairs: multipart(data, [(end, start) for start, end in pairs]),
}


@contextmanager
def ranges(root: Path) -> Iterator[Served]:
    """Serve a folder."""
    served = Served()
    with answering(partial(Ranges, root, served)) as url:
        served.url = url
        yield served
