"""Requests that nobody should send: no crash, no leak, and nothing without the token."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from shiftdata.serve.connections import Limits
from tests.serve.hostile import (
    check,
    commit,
    connected,
    file_line,
    until_closed,
)
from tests.serve.serving import TOKEN, Running, request, serving


@pytest.mark.parametrize(
    "header",
    [
        "bytes=999999999999999999999999-",
        "bytes=5-",
        "bytes=-0",
        "bytes=" + "9" * 5000 + "-",
        "bytes=5-99999999999999999999",
    ],
)
def test_a_range_that_is_not_there(hostile: Running, header: str):
    answer = request(hostile.port, "GET", "/datasets/lab/mine/resolve/main/a.txt", headers={"Range": header})
    check(answer)
    assert (answer.status, answer.headers["content-range"]) == (416, "bytes */5")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-99999999999999999999", (206, b"plain")),
        ("bytes=-999999999999999999999", (206, b"plain")),
        ("bytes=--5", (200, b"plain")),
        ("bytes=3-1", (200, b"plain")),
        ("bytes=a-b", (200, b"plain")),
        ("bytes=0-0,-1", (200, b"plain")),
        ("rows=1-2", (200, b"plain")),
    ],
)
def test_a_range_beyond_the_end_or_of_no_sense(hostile: Running, header: str, expected: tuple[int, bytes]):
    answer = request(hostile.port, "GET", "/datasets/lab/mine/resolve/main/a.txt", headers={"Range": header})
    assert (answer.status, answer.body) == expected


JSON_ROUTES = [
    ("POST", "/api/repos/create"),
    ("DELETE", "/api/repos/delete"),
    ("POST", "/api/validate-yaml"),
    ("PUT", "/api/datasets/lab/mine/settings"),
    ("POST", "/api/datasets/lab/mine/preupload/main"),
    ("POST", "/api/datasets/lab/mine/tag/main"),
    ("POST", "/api/datasets/lab/mine/commit/main"),
    ("POST", "/datasets/lab/mine.git/info/lfs/objects/batch"),
]


@pytest.mark.parametrize(("method", "route"), JSON_ROUTES)
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"[" * 100_000, b'{"a": NaN', b"7"]
)
def test_a_body_that_is_no_json_object(hostile: Running, method: str, route: str, body: bytes):
    answer = request(hostile.port, method, route, body, token=TOKEN)
    check(answer)
    assert answer.status == 400


@pytest.mark.parametrize(
    ("route", "body"),
    [
        (
            "/datasets/lab/mine.git/info/lfs/objects/batch",
            {"operation": "upload", "objects": [{"oid": "../x", "size": 1}]},
        ),
        (
            "/datasets/lab/mine.git/info/lfs/objects/batch",
            {"operation": "upload", "objects": [{"oid": "a" * 64, "size": -1}]},
        ),
        ("/datasets/lab/mine.git/info/lfs/objects/batch", {"operation": "upload", "objects": [None]}),
        ("/datasets/lab/mine.git/info/lfs/objects/batch", {"operation": "download", "objects": []}),
        ("/api/datasets/lab/mine/preupload/main", {"files": [{"path": "a", "size": "1"}]}),
        ("/api/datasets/lab/mine/preupload/main", {"files": {}}),
        ("/api/datasets/lab/mine/preupload/main", {"files": [1]}),
        ("/api/datasets/lab/mine/tag/main", {"tag": "../../x"}),
        ("/api/datasets/lab/mine/tag/main", {"tag": 5}),
        ("/api/datasets/lab/mine/branch/new", {"startingPoint": ["main"]}),
        ("/api/repos/create", {"name": "x", "type": "dataset", "visibility": "secret"}),
        ("/api/repos/create", {"name": "x", "type": "model"}),
    ],
)
def test_json_of_another_shape(hostile: Running, route: str, body: object):
    answer = request(hostile.port, "POST", route, json.dumps(body).encode(), token=TOKEN)
    check(answer)
    assert answer.status == 400


@pytest.mark.slow
def test_a_head_that_never_ends_is_left(hostile: Running):
    for head in ("", "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        connection = connected(hostile, head)
        assert b"HTTP/1.1 2" not in until_closed(connection)
    whole = "GET /api/datasets HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection = connected(hostile, whole)
    time.sleep(0.2)
    connection.sendall(b"GET /api")  # the next request on the same connection, never ended
    assert until_closed(connection).startswith(b"HTTP/1.1 200")


def test_slow_clients_do_not_hinder_readers(hostile: Running):
    slow = [
        connected(hostile, "GET /api/datasets HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") for _ in range(50)
    ]
    try:
        assert request(hostile.port, "GET", "/datasets/lab/mine/resolve/main/a.txt").body == b"plain"
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 200_000 + "\r\n\r\n",
        "\x00\x01\x02\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_heads_of_no_sense(hostile: Running, head: str):
    answer = until_closed(connected(hostile, head))
    assert b" 400 " in answer.split(b"\r\n")[0] or answer == b""
    assert request(hostile.port, "GET", "/api/datasets").status == 200


@pytest.mark.parametrize("host", ["<script>", "a b", "x" * 300, ""])
def test_a_host_that_is_none_comes_back_nowhere(hostile: Running, host: str):
    answer = until_closed(connected(hostile, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"<script>" not in answer


WRITES = [
    *JSON_ROUTES[:2],
    *JSON_ROUTES[3:],
    ("POST", "/api/datasets/lab/mine/branch/x"),
    ("DELETE", "/api/datasets/lab/mine/branch/x"),
    ("DELETE", "/api/datasets/lab/mine/tag/x"),
]


@pytest.mark.parametrize(("method", "route"), WRITES)
@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"],
)
def test_writing_needs_the_token(hostile: Running, method: str, route: str, header: str | None):
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = request(hostile.port, method, route, b'{"type": "dataset", "name": "stolen"}', headers)  # type: ignore[arg-type]
    check(answer)
    assert answer.status == 401
    assert TOKEN not in answer.body.decode() + str(answer.headers)


def test_a_private_server_shows_nothing_without_the_token(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").touch()
    (tmp_path / "folder" / "a.txt").write_text("plain")
    with serving(tmp_path, token=TOKEN, private=True) as running:
        for path in (
            "/",
            "/catalog.json",
            "/api/datasets",
            "/api/datasets/shift/folder",
            "/datasets/shift/folder/resolve/main/a.txt",
            "/datasets/shift/folder",
            "/api/whoami-v2",
        ):
            for token in (None, "wrong"):
                answer = request(running.port, "GET", path, token=token)
                assert answer.status == 401
                assert b"plain" not in answer.body
            assert request(running.port, "GET", path, token=TOKEN).status == 200


def test_other_methods_and_places(hostile: Running):
    for method, path, status in (
        ("POST", "/", 405),
        ("PATCH", "/api/datasets", 405),
        ("GET", "/nothing", 404),
        ("GET", "/info?dataset=x", 404),
        ("GET", "/api/agent-harnesses", 404),
    ):
        answer = request(hostile.port, method, path, None if method == "GET" else b"")
        check(answer)
        assert answer.status == status


def test_what_it_keeps_is_for_its_owner_alone(hostile: Running):
    key: Path = hostile.library.folder / "key"
    assert key.stat().st_mode & 0o077 == 0
    assert request(hostile.port, "GET", "/api/datasets").json[0]["id"] == "lab/mine"


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    size = 64 << 20  # more than the buffers of two sockets
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").touch()
    with (tmp_path / "folder" / "zeros.bin").open("wb") as stream:
        stream.truncate(size)
    with serving(tmp_path, limits=Limits(patience=0.5, pause=0)) as running:
        request(running.port, "GET", "/api/datasets")  # it is hashed
        head = "GET /datasets/shift/folder/resolve/main/zeros.bin HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection = connected(running, head)
        time.sleep(4)
        assert 0 < len(until_closed(connection)) < size
        assert request(running.port, "GET", "/api/datasets").status == 200
    assert "Traceback" not in capfd.readouterr().err


REVISIONS = ["a" + "+" * 99, "é" * 90, "a/" * 49 + "a", "+", "a" * 300, "..", "%00", "\x1b[31m", "a" * 5000]


@pytest.mark.parametrize("revision", [quote(revision, safe="") for revision in REVISIONS])
def test_a_revision_that_no_disk_can_name(hostile: Running, revision: str):
    for method, path in (
        ("GET", f"/api/datasets/lab/mine/revision/{revision}"),
        ("GET", f"/datasets/lab/mine/resolve/{revision}/a.txt"),
        ("POST", f"/api/datasets/lab/mine/branch/{revision}"),
        ("DELETE", f"/api/datasets/lab/mine/tag/{revision}"),
        ("POST", f"/api/datasets/lab/mine/commit/{revision}"),
    ):
        answer = request(hostile.port, method, path, b"{}", token=TOKEN)
        check(answer)


@pytest.mark.parametrize("path", ["", "%20", "%20a%20", "%0A", "%C2%85", "a" * 3000])
def test_an_odd_path_is_said_in_a_header_that_is_valid(hostile: Running, path: str):
    answer = request(hostile.port, "GET", f"/datasets/lab/mine/resolve/main/{path}")
    check(answer)
    assert answer.status == 404


@pytest.mark.parametrize(
    "body", [{"private": 1}, {"private": "no"}, {"gated": 0}, {"gated": True}, {"gated": []}]
)
def test_settings_are_said_plainly(hostile: Running, body: object):
    answer = request(
        hostile.port, "PUT", "/api/datasets/lab/mine/settings", json.dumps(body).encode(), token=TOKEN
    )
    assert answer.status == 400


def test_titles_of_commits_have_no_escape_codes(hostile: Running):
    header = json.dumps({"key": "header", "value": {"summary": "\x1b[31mred\x07", "description": "a\nb\x9b"}})
    assert commit(hostile, file_line("esc.txt", os.urandom(9)), header=header.encode()).status == 200
    newest = request(hostile.port, "GET", "/api/datasets/lab/mine/commits/main").json[0]
    assert (newest["title"], newest["message"]) == ("\ufffd[31mred\ufffd", "a\nb\ufffd")


def test_many_deletions_and_deep_paths_take_no_time(hostile: Running):
    deep = [f"{at}/" + "d/" * 60 + "x" for at in range(300)]
    lines = [
        json.dumps({"key": "file", "value": {"path": path, "content": "", "encoding": "base64"}})
        for path in deep
    ]
    began = time.process_time()
    assert commit(hostile, *(line.encode() for line in lines)).status == 200
    lines = [json.dumps({"key": "deletedFolder", "value": {"path": f"{at}/d"}}) for at in range(300)]
    assert commit(hostile, *(line.encode() for line in lines)).status == 200
    assert time.process_time() - began < 5
    assert not any(
        "/d/" in one["rfilename"]
        for one in request(hostile.port, "GET", "/api/datasets/lab/mine").json["siblings"]
    )
