"""Who the server answers as: known names alone, and proxies that were named."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftdata.serve.connections import Limits
from tests.serve.serving import TOKEN, Running, request, serving

FOREIGN = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"}
HOSTS = frozenset({"lab.example.org"})


@pytest.fixture(scope="module")
def open_writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A writable server without a token, which accepts any."""
    with serving(tmp_path_factory.mktemp("open"), writable=True, hosts=HOSTS) as running:
        yield running


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "8.8.8.8", "127.0.0.1.nip.io"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/catalog.json"), ("POST", "/api/repos/create"), ("GET", "/api/whoami-v2")],
)
def test_a_name_of_somebody_else_is_refused(open_writer: Running, host: str, method: str, path: str):
    """As after DNS rebinding: a page of that name has a browser send this, with any token."""
    answer = request(
        open_writer.port, method, path, b'{"name": "x", "type": "dataset"}', {"Host": host}, token="x"
    )
    assert answer.status == 421
    assert "--allowed-host" in answer.json["error"]
    assert request(open_writer.port, "GET", "/api/datasets").json == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "lab.example.org"]
)
def test_known_names_are_answered(open_writer: Running, host: str):
    answer = request(open_writer.port, "GET", "/", headers={"Host": host} | FOREIGN)
    assert answer.status == 200
    assert f"HF_ENDPOINT=http://{host}<" in answer.body.decode()
    assert b"evil" not in answer.body


def test_the_name_of_this_machine_is_known(open_writer: Running):
    assert request(open_writer.port, "GET", "/", headers={"Host": socket.gethostname()}).status == 200


def test_a_request_without_a_host_gets_the_address(open_writer: Running):
    with socket.create_connection(("127.0.0.1", open_writer.port)) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert f"HF_ENDPOINT=http://127.0.0.1:{open_writer.port}<".encode() in received


def test_a_proxy_is_believed_if_it_was_named(tmp_path: Path):
    headers = {"Host": "lab.example.org"} | FOREIGN
    with serving(tmp_path, hosts=HOSTS, limits=Limits(proxies=frozenset({"127.0.0.1"}))) as running:
        answer = request(running.port, "GET", "/", headers=headers)
    assert b"HF_ENDPOINT=https://lab.example.org<" in answer.body
    assert b"evil" not in answer.body


def test_no_cache_keeps_an_answer_of_a_private_server(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").touch()
    (tmp_path / "folder" / "a.txt").write_text("plain")
    with serving(tmp_path, token=TOKEN, private=True) as running:
        commit = request(running.port, "GET", "/api/datasets/shift/folder", token=TOKEN).json["sha"]
        for path in (
            "/",
            "/catalog.json",
            "/api/datasets",
            "/nothing",
            "/datasets/shift/folder/resolve/main/a.txt",
            f"/datasets/shift/folder/resolve/{commit}/a.txt",
            "/datasets/shift/folder/resolve/main/nothing",
        ):
            for method in ("GET", "HEAD", "POST"):
                for headers in ({}, {"Range": "bytes=1-2"}, {"If-None-Match": "*"}, {"Host": "evil.example"}):
                    for token in (None, TOKEN):
                        answer = request(running.port, method, path, None, headers, token=token)
                        assert answer.headers["cache-control"] == "private, no-store"
