"""A small server of files and byte ranges for benches, with the latency and the bandwidth of a network.

It answers as nginx does, from the system's page cache by `sendfile`, so that its own cost hides little.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from socket import MSG_MORE

HEAD = re.compile(rb"(GET|HEAD) /([^ ?]*)[^ ]* HTTP/1.[01]\r\n(?:.*\r\n)*?\r\n")
RANGE = re.compile(rb"\r\nrange: bytes=([0-9,-]+)\r\n", re.IGNORECASE)
#: Bytes that are sent between two looks at the bandwidth.
STEP = 64 << 10
BOUNDARY = "between-the-ranges"


class Server:
    """Serves a folder in threads, a thread for each connection; see `serve`."""

    def __init__(
        self, root: Path, pause: float, rate: float, several: bool, counted: list[int] | None
    ) -> None:
        self.root, self.pause, self.rate, self.several = root, pause, rate, several
        self.counted = counted
        self._free = 0.0
        self._lock = threading.Lock()
        self._files: dict[Path, tuple[int, int]] = {}
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def accept(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = b""
        with connection, suppress(OSError):
            while data := connection.recv(STEP):
                asked += data
                if request := HEAD.match(asked):
                    asked = asked[request.end() :]
                    time.sleep(self.pause)
                    self._answer(connection, request[1] == b"HEAD", request[2].decode(), request[0])

    def _answer(self, connection: socket.socket, head_only: bool, name: str, head: bytes) -> None:
        path = self.root / name
        if not path.is_file():
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        file, size = self._opened(path)
        asked = RANGE.search(head)
        ranges = [each.split("-") for each in asked[1].decode().split(",")] if asked else []
        pairs = [(int(first), min(int(last or size - 1) + 1, size)) for first, last in ranges]
        if len(pairs) > 1 and not self.several:
            pairs = []
        heads = [""] * max(len(pairs), 1)
        fields = [f'ETag: "{size}"', "Accept-Ranges: bytes"]
        last = ""
        if len(pairs) > 1:
            heads = [
                f"\r\n--{BOUNDARY}\r\nContent-Range: bytes {start}-{end - 1}/{size}\r\n\r\n"
                for start, end in pairs
            ]
            last = f"\r\n--{BOUNDARY}--\r\n"
            fields.append(f"Content-Type: multipart/byteranges; boundary={BOUNDARY}")
        elif pairs:
            fields.append(f"Content-Range: bytes {pairs[0][0]}-{pairs[0][1] - 1}/{size}")
        status = "206 Partial Content" if pairs else "200 OK"
        pairs = pairs or [(0, size)]
        length = sum(end - start for start, end in pairs) + sum(map(len, heads)) + len(last)
        if self.counted is not None and not head_only:
            self.counted.append(length)
        fields.append(f"Content-Length: {length}")
        begun = "\r\n".join([f"HTTP/1.1 {status}", *fields, "\r\n"])
        if head_only:
            connection.sendall(begun.encode())
            return
        for part, (start, end) in zip(heads, pairs, strict=True):
            connection.sendall((begun + part).encode(), MSG_MORE)
            begun = ""
            self._send(connection, file, start, end)
        connection.sendall(last.encode())

    def _send(self, connection: socket.socket, file: int, start: int, end: int) -> None:
        while start < end:
            step = min(end - start, STEP) if self.rate else end - start
            self._wait(step)
            start += os.sendfile(connection.fileno(), file, start, step)

    def _wait(self, size: int) -> None:
        """Wait until the line of all connections together is free for some bytes."""
        if self.rate:
            with self._lock:
                self._free = max(self._free, time.monotonic()) + size / self.rate
                free = self._free
            time.sleep(max(0.0, free - time.monotonic()))

    def _opened(self, path: Path) -> tuple[int, int]:
        with self._lock:
            if path not in self._files:
                self._files[path] = os.open(path, os.O_RDONLY), path.stat().st_size
            return self._files[path]


def serve(
    root: Path,
    *,
    pause: float = 0.0,
    rate: float = 0.0,
    several: bool = True,
    counted: list[int] | None = None,
) -> str:
    """Serve a folder until the process ends, and return its URL.

    Args:
        root: the folder.
        pause: seconds before each answer.
        rate: bytes a second of all connections together; 0: as fast as the machine.
        several: give several ranges by one answer, as nginx does; False: the whole file, as S3 does.
        counted: takes the bytes of each answer.

    """
    server = Server(root, pause, rate, several, counted)
    threading.Thread(target=server.accept, daemon=True).start()
    return server.url
