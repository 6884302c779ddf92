"""Who the server answers as: known names alone, and proxies that were named."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftdata.serve.connections import Limits
from tests.serve.serving import Running, request, serving

FOREIGN = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"}
HOSTS = frozenset({"lab.example.org"})


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("open"), hosts=HOSTS) as running:
        yield running


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "8.8.8.8", "127.0.0.1.nip.io"]
)
def test_a_name_of_somebody_else_is_refused(public: Running, host: str):
    """As after DNS rebinding: a page of that name has a browser send this."""
    for path in ("/", "/catalog.json", "/api/datasets", "/api/whoami-v2"):
        answer = request(public.port, "GET", path, headers={"Host": host})
        assert answer.status == 421
        assert "--allowed-host" in answer.json["error"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "lab.example.org"]
)
def test_known_names_are_answered(public: Running, host: str):
    answer = request(public.port, "GET", "/", headers={"Host": host} | FOREIGN)
    assert answer.status == 200
    assert f"HF_ENDPOINT=http://{host}<" in answer.body.decode()
    assert b"evil" not in answer.body


def test_the_name_of_this_machine_is_known(public: Running):
    assert request(public.port, "GET", "/", headers={"Host": socket.gethostname()}).status == 200


def test_a_request_without_a_host_gets_the_address(public: Running):
    with socket.create_connection(("127.0.0.1", public.port)) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert f"HF_ENDPOINT=http://127.0.0.1:{public.port}<".encode() in received


def test_a_proxy_is_believed_if_it_was_named(tmp_path: Path):
    headers = {"Host": "lab.example.org"} | FOREIGN
    with serving(tmp_path, hosts=HOSTS, limits=Limits(proxies=frozenset({"127.0.0.1"}))) as running:
        answer = request(running.port, "GET", "/", headers=headers)
    assert b"HF_ENDPOINT=https://lab.example.org<" in answer.body
    assert b"evil" not in answer.body
