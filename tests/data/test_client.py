"""The client reads answers as servers of all kinds write them, and keeps the connections that it may keep."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from shiftdata.data.places.client import Client

KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
Serve = Callable[[bytes], tuple[str, list[int]]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that gives each request the same answer, and notes the connection on which it came."""
    servers = []

    def start(answer: bytes) -> tuple[str, list[int]]:
        asked: list[int] = []
        goes_on = b"length: 3" in answer.lower() or b"chunked" in answer

        def converse(connection: socket.socket, number: int) -> None:
            with connection:
                while connection.recv(65536):
                    asked.append(number)
                    connection.sendall(answer)
                    if not goes_on:
                        return

        def accept() -> None:
            for number in range(9):
                try:
                    connection, _ = server.accept()
                except OSError:  # the test has ended
                    return
                threading.Thread(target=converse, args=(connection, number), daemon=True).start()

        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}", asked

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (KEPT, True),
        (KEPT.replace(b"Content-Length", b"X: Content-Length\r\ncONTENT-lENGTH"), True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" + KEPT, True),
        (KEPT.replace(b" OK\r\n", b"\n"), True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\n\r\n", True),
        (KEPT.replace(b"1.1", b"1.0"), False),
        (KEPT.replace(b"1.1 200 OK", b"1.0 200 OK\r\nConnection: keep-alive"), True),
        (KEPT.replace(b"OK", b"OK\r\nConnection: Close"), False),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", False),
    ],
)
def test_answers_of_all_kinds_are_read_and_connections_used_again(serve, answer, is_kept):
    url, asked = serve(answer)
    client = Client(url)
    assert [client.get(f"{url}/file", 3).body for _ in range(3)] == [b"abc"] * 3
    assert asked == ([0, 0, 0] if is_kept else [0, 1, 2])
    client.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n", http.client.BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nX: ", http.client.RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", http.client.IncompleteRead),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /a b\r\n\r\n", http.client.InvalidURL),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /a\x7fb\r\n\r\n", http.client.InvalidURL),
    ],
)
def test_what_is_no_answer_and_what_cannot_be_asked_for_are_errors(serve, answer, error):
    url, _ = serve(answer)
    with pytest.raises(error):
        Client(url).get(f"{url}/file", 9)


def test_a_token_with_a_line_end_is_not_sent(serve):
    url, asked = serve(KEPT)
    with pytest.raises(http.client.InvalidURL) as error:
        Client(url, "secret\r\nX-More: y").get(url, 3)
    assert asked == []
    assert "secret" not in str(error.value)
