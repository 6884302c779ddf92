"""Requests that nobody should send: no crash, no leak, no way out of the served folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.hostile import check, connected, until_closed
from tests.serve.serving import TOKEN, Running, request, serving

FILE = "/datasets/shift/folder/resolve/main/a.txt"

#: As they are in a URL; each is decoded once, by the server.
TRAVERSALS = [
    "..",
    "../secret.txt",
    "../../secret.txt",
    "%2e%2e/secret.txt",
    "..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e%252fsecret.txt",
    "..%5csecret.txt",
    "a/../../secret.txt",
    "a%00/../secret.txt",
    "%00",
    "secret.txt%00.md",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "....//secret.txt",
    "..;/secret.txt",
    ".env",
    "%2eenv",
    "%c0%ae%c0%ae/secret.txt",
    "%ff%fe",
    "link.txt",
    "link/secret.txt",
    "pipe",
    "heads%2fmain",
    "-rf",
    "a" * 3000,
    "%1b[31m",
    "%20a%20",
    "%0d%0aX-Injected:%20yes",
    "%3Cscript%3Ealert(1)%3C/script%3E",
]

ROUTES = [
    ("GET", "/datasets/{}/folder/resolve/main/a.txt"),
    ("GET", "/datasets/shift/{}/resolve/main/a.txt"),
    ("GET", "/datasets/shift/folder/resolve/{}/a.txt"),
    ("GET", "/datasets/shift/folder/resolve/main/{}"),
    ("GET", "/datasets/shift/{}"),
    ("GET", "/api/datasets/{}/folder"),
    ("GET", "/api/datasets/shift/folder/revision/{}"),
    ("GET", "/api/datasets/shift/folder/tree/{}"),
    ("GET", "/api/datasets/shift/folder/tree/main/{}"),
    ("GET", "/api/datasets/shift/folder/tree/main?cursor={}&limit={}&recursive={}"),
    ("GET", "/api/datasets/shift/folder/commits/{}"),
    ("GET", "/api/datasets/shift/{}/refs"),
    ("GET", "/api/datasets?author={}&search={}&limit={}"),
    ("POST", "/api/datasets/shift/folder/paths-info/{}"),
]


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_no_parameter_leads_out_of_the_root(hostile: Running, method: str, route: str):
    for traversal in TRAVERSALS:
        check(
            request(hostile.port, method, route.replace("{}", traversal), None if method == "GET" else b"{}")
        )


def test_links_and_hidden_files_are_not_listed(hostile: Running):
    listed = request(hostile.port, "GET", "/api/datasets/shift/folder/tree/main?recursive=true").json
    assert [entry["path"] for entry in listed] == ["README.md", "a.txt"]
    for path in ("/datasets/shift/folder/resolve/main/inside.txt", "/api/datasets/shift/out"):
        assert request(hostile.port, "GET", path).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\xff\xfe", 400),
        (b"paths", 200),
        (b"paths=" + b"a" * (64 << 10), 413),
        (b"paths=%ED%A0%80", 400),
        (b"paths=..%2Fsecret.txt&paths=a.txt", 200),
    ],
)
def test_bodies_of_paths_info(hostile: Running, body: bytes, status: int):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = request(hostile.port, "POST", "/api/datasets/shift/folder/paths-info/main", body, headers)
    check(answer)
    assert answer.status == status
    if status == 200:
        assert [entry["path"] for entry in answer.json] == ["a.txt"] * body.endswith(b"a.txt")


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 200_000 + "\r\n\r\n",
        "\x00\x01\x02\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: <script>\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n",
        f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_heads_without_sense(hostile: Running, head: str, capfd: pytest.CaptureFixture[str]):
    answer = until_closed(connected(hostile, head))
    assert answer[:10] in (b"HTTP/1.1 4", b"")
    assert b"<script>" not in answer
    assert request(hostile.port, "GET", "/api/datasets").status == 200
    assert "Traceback" not in capfd.readouterr().err


LENGTH, CHUNKED = "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"POST {FILE} HTTP/1.1\r\nHost: localhost\r\n{CHUNKED}\r\n1\r\n \r\n", 400),
        (f"POST {FILE} HTTP/1.1\r\nHost: localhost\r\n{LENGTH}{CHUNKED}\r\n0\r\n\r\n", 400),
        (f"POST {FILE} HTTP/1.1\r\nHost: localhost\r\n{CHUNKED}{LENGTH}\r\n0\r\n\r\n", 400),
        (f"POST {FILE} HTTP/1.1\r\nHost: localhost\r\n{LENGTH}Content-Length: 6\r\n\r\nhello!", 400),
        (f"GET {FILE} HTTP/1.1\nHost: localhost\n\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nX: \x01\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n", 400),
        (f"GET {FILE} HTTP/1.1\r\n\r\n", 400),
        (f"GET {FILE}\r\n\r\n", 400),
        (f"GET {FILE} HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (f"GET {FILE} HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 40_000 + "\r\n\r\n", 431),
        (f"POST {FILE} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n", 413),
    ],
)
def test_what_servers_read_in_two_ways_is_refused_and_ends_the_connection(
    hostile: Running, head: str, status: int
):
    """Else a request could hide in another one from a proxy that reads it in the other way."""
    answer = until_closed(connected(hostile, head + f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_both_versions_of_http_are_answered_as_often_as_they_ask(hostile: Running, version: str):
    asked = f"GET {FILE} HTTP/{version}\r\nHost: localhost\r\n\r\n" * 2
    last = f"GET {FILE} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = until_closed(connected(hostile, asked + last))
    assert answer.count(b"plain") == (3 if version == "1.1" else 1)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/repos/create"),
        ("DELETE", "/api/repos/delete"),
        ("POST", "/api/datasets/shift/folder/commit/main"),
        ("POST", "/api/datasets/shift/folder/preupload/main"),
        ("PUT", "/api/datasets/shift/folder/settings"),
        ("PUT", FILE),
        ("DELETE", FILE),
        ("POST", "/"),
        ("PATCH", "/api/datasets"),
        ("GET", "/nothing"),
        ("GET", "/api/models/shift/folder"),
    ],
)
def test_nothing_is_written(hostile: Running, method: str, path: str):
    answer = request(hostile.port, method, path, b'{"name": "x", "type": "dataset"}', token=TOKEN)
    check(answer)
    assert answer.status in (404, 405)
    assert request(hostile.port, "GET", FILE).body == b"plain"


def test_no_cache_keeps_an_answer_of_a_private_server(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").touch()
    (tmp_path / "folder" / "a.txt").write_text("plain")
    with serving(tmp_path, token=TOKEN) as running:
        commit = request(running.port, "GET", "/api/datasets/shift/folder", token=TOKEN).json["sha"]
        for path in ("/", "/catalog.json", "/nothing", FILE, FILE.replace("main", commit)):
            for headers in ({}, {"Range": "bytes=1-2"}, {"If-None-Match": "*"}, {"Host": "evil.example"}):
                for token in (None, TOKEN):
                    answer = request(running.port, "GET", path, None, headers, token=token)
                    assert answer.headers["cache-control"] == "private, no-store"


def test_an_error_of_the_server_says_nothing_of_the_machine(hostile: Running, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError(f"{hostile.library.root} is broken")

    monkeypatch.setattr(type(hostile.library), "heads", broken)
    answer = request(hostile.port, "GET", "/api/datasets")
    assert (answer.status, answer.json) == (500, {"error": "the mirror failed; its log says why"})
