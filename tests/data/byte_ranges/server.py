"""An HTTP server that knows Range, counts what it gives, and answers badly when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests.web import answering


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
        file = self.root / unquote(self.path).lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        fault = self.served.next_fault(self.path) if body else "well"
        asked = self.headers.get("Range")
        start, end = 0, len(data)
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
            self.served.bodies.append((self.path, len(part)))
            self.wfile.write(part)
        self.close_connection = fault == "cut"

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


ANSWERS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda part: part[: len(part) // 2],
    "short": lambda part: part[:-1],
    "flipped": lambda part: part[:-1] + bytes([part[-1] ^ 1]),
}


@contextmanager
def ranges(root: Path) -> Iterator[Served]:
    """Serve a folder."""
    served = Served()
    with answering(partial(Ranges, root, served)) as url:
        served.url = url
        yield served
