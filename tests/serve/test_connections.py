"""Connections that make no progress end; where all are taken, one of these makes room for a new one."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftdata.serve.connections import MAX_PIECE, MIN_PIECE, Connections, Limits
from shiftdata.serve.logs import Bounded
from tests.serve.hostile import connected, until_closed, wait_for
from tests.serve.serving import Process, Running, request, serving

SIZE = 30 << 20
FILE = "/datasets/shift/folder/resolve/main/a.txt"
BIG = "/datasets/shift/folder/resolve/main/big.bin"
GET_BIG = f"GET {BIG} HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_BODY = (
    "POST /api/datasets/shift/folder/paths-info/main HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Length: 10\r\n\r\n{"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    (root / "folder").mkdir()
    (root / "folder" / "README.md").touch()
    (root / "folder" / "a.txt").write_text("plain")
    with (root / "folder" / "big.bin").open("wb") as stream:
        stream.truncate(SIZE)
    return root


@pytest.fixture
def few(root: Path) -> Iterator[Running]:
    """A server of few connections at once, and of few from one address."""
    with serving(root, limits=Limits(connections=12, per_address=6)) as running:
        request(running.port, "GET", "/api/datasets/shift/folder")
        yield running


def count(running: Running) -> int:
    assert running.mirror is not None
    return len(running.mirror.connections)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", ["", "GET / HTTP/1.1\r\n", GET_BIG, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"]
)
def test_a_new_connection_gets_the_place_of_one_that_has_stalled(few: Running, data: str):
    idle = [connected(few, data, f"127.0.1.{1 + at}") for at in range(12)]
    time.sleep(1.5)
    for _ in range(5):
        assert request(few.port, "GET", FILE).body == b"plain"
    for connection in idle:
        connection.close()


def test_an_address_has_its_share_only(few: Running):
    idle = [connected(few, "", "127.0.2.1") for _ in range(8)]
    wait_for(lambda: count(few) == 6)
    more = [connected(few, "", f"127.0.2.{2 + at}") for at in range(6)]
    wait_for(lambda: count(few) == 12)
    for connection in [*idle, *more]:
        connection.close()
    wait_for(lambda: count(few) == 0)


def test_connections_of_a_trusted_proxy_are_not_its_share(root: Path):
    limits = Limits(connections=12, per_address=2, proxies=frozenset({"127.0.0.1"}))
    with serving(root, limits=limits) as running:
        clients = [connected(running, "") for _ in range(6)]
        wait_for(lambda: count(running) == 6)
        for connection in clients:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("", b""),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b""),
        ("GET /api/datasets HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200 "),
        ("GET /api/datasets HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api", b"HTTP/1.1 200 "),
        (HALF_BODY, b"HTTP/1.1 408 "),
    ],
)
def test_who_sends_nothing_more_is_left(hostile: Running, head: str, answer: bytes):
    received = until_closed(connected(hostile, head))
    assert received[: len(answer)] == answer
    assert answer or not received


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_left(root: Path, capfd: pytest.CaptureFixture[str]):
    with serving(root, limits=Limits(request_timeout=1, read_timeout=1)) as running:
        request(running.port, "GET", "/api/datasets")  # it is hashed
        connection = connected(running, GET_BIG)
        wait_for(lambda: count(running) == 1)
        wait_for(lambda: count(running) == 0)
        assert 0 < len(until_closed(connection)) < SIZE
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_reader_may_pause_or_be_slow(root: Path):
    """As a training that streams a whole file does while it evaluates."""
    with serving(root, limits=Limits(request_timeout=1)) as running:
        reader = connected(running, GET_BIG.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
        time.sleep(4)
        assert len(until_closed(reader)) > SIZE


def test_pieces_are_smaller_where_many_are_connected(monkeypatch: pytest.MonkeyPatch):
    connections = Connections(Limits())
    assert connections.piece() == MAX_PIECE
    monkeypatch.setattr(connections, "_open", dict.fromkeys(range(3000)))
    assert MIN_PIECE <= connections.piece() < 30_000


@pytest.mark.slow
def test_few_descriptors_are_enough(root: Path):
    """Also where the limit cannot be raised; and the log does not grow with what is refused."""
    server = Process(root, limit_files=384)
    try:
        idle = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(400)]
        time.sleep(2)
        for _ in range(3):
            assert request(server.port, "GET", FILE).body == b"plain"
        for connection in idle:
            connection.close()
    finally:
        server.kill()
    assert "Traceback" not in server.said
    assert len(server.said) < 5000


def test_the_log_is_bounded():
    record = logging.LogRecord("name", logging.INFO, "", 0, "a line", None, None)
    bounded = Bounded(per_second=0.001, at_once=5)
    assert sum(bounded.filter(record) for _ in range(1000)) == 5
    bounded._room = 1
    bounded.filter(record)
    assert "995 lines were left out" in record.getMessage()
