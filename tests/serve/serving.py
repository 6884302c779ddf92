"""A mirror that really runs, in this process or in one of its own, and clients that really ask it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftdata.serve.app import make_app
from shiftdata.serve.folders import Library
from shiftdata.serve.logs import start_log
from shiftdata.serve.request import Mirror, listen

TOKEN = "the-token-of-the-tests"


@dataclass
class Running:
    """A mirror in a thread of this process; it counts the bytes of bodies that it sent."""

    port: int
    library: Library
    sent: int = 0
    asked: list[str] = field(default_factory=list)
    mirror: Mirror | None = None
    cut_next: bool = False  # end the connection in the middle of the next file

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counted(self, app: Any) -> Any:
        async def counting(scope: Any, receive: Any, send: Any) -> None:
            async def tally(message: Any) -> None:
                body = message.get("body", b"")
                if self.cut_next and len(body) > 1000:
                    self.cut_next = False
                    self.sent += len(body) // 2
                    await send({**message, "body": body[: len(body) // 2], "more_body": True})
                    raise ConnectionAbortedError("as the test wants it")
                self.sent += len(body)
                await send(message)

            self.asked.append(f"{scope['method']} {scope['path']}")
            await app(scope, receive, tally)

        return counting


@contextmanager
def serving(root: Path, **mirror: Any) -> Iterator[Running]:
    """Serve a folder on a free port of this machine; options as for `Mirror`."""
    library = Library(root)
    bound = listen("127.0.0.1", 0)
    running = Running(bound.getsockname()[1], library)
    running.mirror = Mirror(library, **mirror)
    start_log(quiet=True)
    loop = asyncio.new_event_loop()
    serve = running.mirror.connections.serve(running.counted(make_app(running.mirror)), bound)
    task = loop.create_task(serve)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        bound.close()
        if running.mirror.pages is not None:
            running.mirror.pages.close()
        assert not thread.is_alive(), "the server did not stop"


class Process:
    """`shiftdata serve` in a process of its own."""

    def __init__(
        self,
        root: Path,
        *options: str,
        port: int = 0,
        env: Mapping[str, str] | None = None,
        limit_files: int | None = None,
    ) -> None:
        arguments = ["serve", str(root), "--port", str(port), *options]
        # A shell may have told its children to ignore Ctrl-C.
        code = (
            "import resource, signal, sys\n"
            f"if {limit_files}: resource.setrlimit(resource.RLIMIT_NOFILE, ({limit_files}, {limit_files}))\n"
            "from shiftdata.cli.app import main\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"sys.exit(main({arguments!r}))"
        )
        self.popen = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | (env or {}),
        )
        self.said = ""
        self.port = 0
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.said += line
            if found := re.search(r"HF_ENDPOINT=http://\S+:(\d+)", line):
                self.port = int(found[1])
                break
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if self.port:
            self._wait()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.said += line

    def _wait(self) -> None:
        for _ in range(200):
            try:
                request(self.port, "GET", "/api/datasets")
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        self.popen.kill()
        self.finish()

    def finish(self) -> int:
        """Its status, when it has ended."""
        assert self.popen.stdout is not None
        self._reading.join(20)
        self.popen.stdout.close()
        return self.popen.wait(20)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    token: str | None = None,
) -> Answer:
    """Ask exactly this: nothing is quoted, normalised or retried."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
        for name, value in {
            **(headers or {}),
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
    finally:
        connection.close()


def client(endpoint: str, home: Path, code: str, **env: str) -> Any:
    """Run code in a process that has this endpoint as its Hub, and read its last line as JSON."""
    home.mkdir(exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=client_env(endpoint, home, **env),
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def client_env(endpoint: str, home: Path, **env: str) -> dict[str, str]:
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN}
    # The counter of downloads is asked at a fixed host, which is not this server.
    return os.environ | own | {"HF_UPDATE_DOWNLOAD_COUNTS": "0", "HF_HUB_DISABLE_TELEMETRY": "1"} | env
