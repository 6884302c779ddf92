"""`shiftdata label` in a process of its own, and a client that asks it as a browser does."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    process: subprocess.Popen[str]
    address: str

    @property
    def token(self) -> str:
        return self.address.partition("?token=")[2]

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].partition("/")[0])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cookie(self) -> str:
        return f"shiftdata_label_{self.port}={self.token}"

    def ask(
        self, method: str, path: str, body: Any = None, drop: tuple[str, ...] = (), **headers: str
    ) -> Answer:
        """A request of a browser that has signed in; `drop` names headers that it lacks."""
        sent = {"Cookie": self.cookie, "Origin": self.origin, "Content-Type": "application/json"} | headers
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, {name: one for name, one in sent.items() if name not in drop})
        answer = connection.getresponse()
        made = Answer(answer.status, {name.lower(): one for name, one in answer.getheaders()}, answer.read())
        connection.close()
        return made

    def label(self, number: int, label: str, who: str = "anna") -> Answer:
        key = self.ask("GET", f"/items/{number}").json["key"]
        return self.ask("POST", "/labels", {"key": key, "label": label, "who": who})


@contextmanager
def labelling(*arguments: str | Path) -> Iterator[Running]:
    command = [sys.executable, "-m", "shiftdata", "label", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = next((line for line in process.stdout if line.startswith("http")), None)
        assert address, process.stderr.read()
        yield Running(process, address.strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
