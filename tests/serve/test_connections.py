"""Connections that make no progress end; one that deserves its place less than a new one gives way."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shiftdata.serve.connections import MANY_PIECES, Limits
from shiftdata.serve.logs import Bounded, Plain
from tests.serve.hostile import announce, connected, is_stored, until_closed, wait_for
from tests.serve.serving import Process, Running, request, serving

SIZE = 30 << 20
BIG = "/datasets/shift/folder/resolve/main/big.bin"
GET_BIG = f"GET {BIG} HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = "POST /api/datasets/shift/folder/paths-info/main HTTP/1.1\r\nHost: localhost\r\n"


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


def from_address(running: Running, address: str, data: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port), 20, (address, 0))
    connection.sendall(data.encode())
    return connection


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        "",
        "GET / HTTP/1.1\r\n",
        GET_BIG,
        POST + "Content-Length: 10\r\n\r\n",
        "GET /x HTTP/1.0\r\n\r\n",
        "\0\r\n\r\n",
    ],
    ids=["nothing", "half a head", "an answer not taken", "half a body", "a lost answer", "garbage"],
)
def test_a_new_connection_gets_the_place_of_one_that_made_no_progress(few: Running, data: str):
    idle = [from_address(few, f"127.0.1.{1 + at}", data) for at in range(14)]
    for _ in range(5):
        assert request(few.port, "GET", "/datasets/shift/folder/resolve/main/a.txt").body == b"plain"
    for one in idle:
        one.close()


def test_one_address_has_its_share_only(few: Running):
    idle = [from_address(few, "127.0.2.1", "") for _ in range(8)]
    wait_for(lambda: len(few.server.server_state.connections) == 6)
    others = [from_address(few, f"127.0.2.{2 + at}", "") for at in range(6)]
    wait_for(lambda: len(few.server.server_state.connections) == 12)
    for one in [*idle, *others]:
        one.close()


def test_connections_of_a_trusted_proxy_are_not_its_share(root: Path):
    limits = Limits(connections=12, per_address=2, proxies=frozenset({"127.0.0.1"}))
    with serving(root, limits=limits) as running:
        clients = [connected(running, "") for _ in range(6)]
        wait_for(lambda: len(running.server.server_state.connections) == 6)
        for one in clients:
            one.close()


@pytest.mark.slow
def test_a_slow_client_is_served_and_one_that_stops_is_not(root: Path):
    """At 30 kB/s where 10 kB/s is the least."""
    with serving(root, limits=Limits(patience=4, bytes_per_second=10_000, pause=0)) as running:
        stuck, reader = connected(running, GET_BIG), socket.socket()
        # In the usual buffer of megabytes the server would see no progress for a while.
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        reader.connect(("127.0.0.1", running.port))
        reader.sendall(GET_BIG.encode())
        began, got = time.monotonic(), 0
        while time.monotonic() < began + 9:
            got += len(reader.recv(1000))
            time.sleep(max(0, began + got / 30_000 - time.monotonic()))
        assert got > 200_000
        assert len(running.server.server_state.connections) == 1
        reader.close()
        assert len(until_closed(stuck)) < SIZE
        wait_for(lambda: not running.server.server_state.tasks)


@pytest.mark.slow
def test_a_reader_may_pause_where_there_is_room(root: Path):
    """As a training that streams a whole file does while it evaluates."""
    with serving(root, limits=Limits(patience=1)) as running:
        reader = connected(running, GET_BIG.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
        time.sleep(4)
        assert len(until_closed(reader)) > SIZE


@pytest.mark.slow
def test_a_body_in_crumbs_is_refused(few: Running):
    head = f"{POST}Transfer-Encoding: chunked\r\n\r\n"
    answer = until_closed(connected(few, head + "1\r\n \r\n" * 100_000))
    assert answer.startswith(b"HTTP/1.1 400 ")
    whole = b'{"paths": ["a.txt"]}' + b" " * MANY_PIECES * 10
    chunks = b"".join(b"a\r\n%s\r\n" % whole[at : at + 10] for at in range(0, 20, 10)) + b"0\r\n\r\n"
    connection = connected(few, f"{head[:-2]}Content-Type: application/json\r\nConnection: close\r\n\r\n")
    connection.sendall(chunks)
    assert b"a.txt" in until_closed(connection)


@pytest.mark.slow
def test_garbage_after_an_answer_has_begun_is_quiet(few: Running, capfd: pytest.CaptureFixture[str]):
    """The parser's own answer would be a second one."""
    body = "\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    clients = [connected(few, head.replace("\r\n\r\n", body)) for head in (GET_BIG, f"{POST}\r\n")]
    for one in clients:
        until_closed(one)
    assert request(few.port, "GET", "/api/datasets").status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_slow_uploads_do_not_block_others(hostile: Running):
    """There were turns for 16 uploads at once, and each kept its own to the end."""
    slow, stop = [], threading.Event()
    for at in range(20):
        url = announce(hostile, b"%d" % at + bytes(50_000))
        slow.append(
            connected(hostile, f"PUT {url} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50001\r\n\r\n0")
        )

    def drip() -> None:
        while not stop.wait(0.1):
            for one in slow:
                with suppress(OSError):
                    one.send(bytes(300))

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        began, data = time.monotonic(), os.urandom(2 << 20)
        assert request(hostile.port, "PUT", announce(hostile, data), data).status == 200
        assert is_stored(hostile, data)
        assert time.monotonic() - began < 20
    finally:
        stop.set()
        thread.join()
        for one in slow:
            one.close()


@pytest.mark.slow
def test_few_descriptors_are_enough(root: Path):
    """Also where the limit cannot be raised; and the log does not grow with what is refused."""
    server = Process(root, limit_files=256)
    try:
        idle = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(400)]
        for _ in range(3):
            assert request(server.port, "GET", "/datasets/shift/folder/resolve/main/a.txt").body == b"plain"
        for one in idle:
            one.close()
    finally:
        server.kill()
    assert "Traceback" not in server.said
    assert len(server.said) < 5000


def test_the_log_is_bounded_and_plain():
    record = logging.LogRecord(
        "name", logging.INFO, "", 0, '%s - "%s %s"', ("\x1b[31m", "GET", "/a?b\x07"), None
    )
    assert Plain().format(record) == '\\x1b[31m - "GET /a"'
    bounded = Bounded(per_second=0.001, at_once=5)
    assert sum(bounded.filter(record) for _ in range(1000)) == 5
    bounded._room = 1
    bounded.filter(record)
    assert "995 lines were left out" in record.getMessage()
