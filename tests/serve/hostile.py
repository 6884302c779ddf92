"""What the tests of hostile clients share: requests of no manners, and what may never come back."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import time
from collections.abc import Callable

from tests.serve.serving import TOKEN, Answer, Running, request

SECRET = b"the secret outside of the root"


def outside(running: Running) -> dict[str, bytes]:
    """Everything beside the served folder."""
    top = running.library.root.parent
    return {
        str(path): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and "served" not in path.parts
    }


def file_line(path: object, content: bytes) -> bytes:
    value = {"content": base64.b64encode(content).decode(), "path": path, "encoding": "base64"}
    return json.dumps({"key": "file", "value": value}).encode()


def commit(running: Running, *lines: bytes, header: bytes | None = None, token: str | None = TOKEN) -> Answer:
    first = b'{"key": "header", "value": {"summary": "test"}}' if header is None else header
    return request(
        running.port, "POST", "/api/datasets/lab/mine/commit/main", b"\n".join([first, *lines]), token=token
    )


def check(answer: Answer) -> None:
    """A refusal that says nothing of the machine, or an answer without a secret."""
    assert answer.status < 500, answer.body
    assert SECRET not in answer.body
    assert b"Traceback" not in answer.body
    assert "x-injected" not in answer.headers
    if answer.status >= 400 and answer.headers.get("content-type") == "application/json":
        assert "error" in answer.json
        assert "/tmp" not in answer.json["error"]
        if answer.status == 404:
            assert answer.headers["x-error-code"] in ("RepoNotFound", "RevisionNotFound", "EntryNotFound")


def announce(running: Running, data: bytes) -> str:
    """Where to put these bytes."""
    wanted = {
        "operation": "upload",
        "objects": [{"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}],
    }
    answer = request(
        running.port,
        "POST",
        "/datasets/lab/mine.git/info/lfs/objects/batch",
        json.dumps(wanted).encode(),
        token=TOKEN,
    )
    href: str = answer.json["objects"][0]["actions"]["upload"]["href"]
    return href.removeprefix(running.endpoint).removeprefix(f"http://127.0.0.1:{running.port}")


def is_stored(running: Running, data: bytes) -> bool:
    return running.library.blobs.path(hashlib.sha256(data).hexdigest()).exists()


def connected(running: Running, head: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    connection.sendall(head.encode())
    return connection


def until_closed(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return received


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")
