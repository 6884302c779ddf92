"""A real HTTP server over a folder, with ranges, counts, and faults on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Server:
    """Where it is, what it sent, and what it shall do wrong with the next requests for data files."""

    url: str
    sent: int = 0
    requests: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    always: str = ""
    slow: float = 0.0


class _Answers(BaseHTTPRequestHandler):
    """Answers for the files of a folder."""

    protocol_version = "HTTP/1.1"
    of: Path
    told: Server

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen of a test."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.of / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        fault = self.fault() if body and "/data/" in self.path else ""
        if fault == "error":
            self.send_error(503)
            return
        ranged = self.headers.get("Range") if fault != "ignore range" else None
        size = path.stat().st_size
        start, end = _asked(ranged, size)
        with path.open("rb") as file:
            file.seek(start)
            part = file.read(end - start) if body else bytes(end - start)
        part = {"flip": bytes([part[0] ^ 1]) + part[1:], "short": part[: len(part) // 2]}.get(fault, part)
        self.send_response(206 if ranged else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        if body:
            self.give(part, cut=fault == "cut")

    def fault(self) -> str:
        """What goes wrong with this request, after a pause."""
        time.sleep(self.told.slow)
        return self.told.always or (self.told.faults.pop(0) if self.told.faults else "")

    def give(self, part: bytes, cut: bool) -> None:
        """Send the body, or half of it."""
        self.told.requests.append(self.path)
        self.told.sent += len(part)
        with suppress(ConnectionError):  # of a reader that was stopped
            self.wfile.write(part[: len(part) // 2] if cut else part)
        if cut:
            self.close_connection = True
            self.connection.close()


def _asked(ranged: str | None, size: int) -> tuple[int, int]:
    """The first byte and the one after the last, of a Range header."""
    if not ranged:
        return 0, size
    first, _, last = ranged.removeprefix("bytes=").partition("-")
    start = int(first) if first else size - int(last)
    return start, min(int(last) + 1, size) if first and last else size


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server("")

    class Handler(_Answers):
        of = folder
        told = server

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
