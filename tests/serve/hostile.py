"""Requests without manners, and what may never come back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from tests.serve.serving import Answer, Running

SECRET = b"the secret outside of the root"


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


def connected(running: Running, head: str, address: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port), 20, (address, 0))
    connection.sendall(head.encode())
    return connection


def until_closed(connection: socket.socket) -> bytes:
    received = bytearray()
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return bytes(received)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")
