"""Commits and uploads that are wrong, cut or never end: nothing of them stays."""

from __future__ import annotations

import json
import os

import pytest

from tests.serve.hostile import (
    announce,
    check,
    commit,
    connected,
    file_line,
    is_stored,
    until_closed,
    wait_for,
)
from tests.serve.serving import TOKEN, Running, request


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"key": "file", "value": {"path": "x"}}'],
        [b'{"key": "file", "value": {"path": "x", "content": "eA==", "encoding": "utf-8"}}'],
        [b'{"key": "lfsFile", "value": {"path": "x", "oid": "' + b"0" * 64 + b'", "size": 1}}'],
        [b'{"key": "lfsFile", "value": {"path": "x", "oid": "../../key", "size": 1}}'],
        [b'{"key": "launchRockets", "value": {"path": "x"}}'],
        [b'{"key": "deletedFile", "value": {"path": "nothing"}}'],
        [b'{"key": "deletedFolder", "value": {"path": "nothing/"}}'],
        [b'{"key": "copyFile", "value": {"path": "x", "srcPath": "../../key"}}'],
        [file_line("a.txt/b", b"x")],
        [file_line("x", b"x"), b'{"key": "file", "value": {"content": "eA'],
    ],
)
def test_a_commit_that_is_wrong_changes_nothing(hostile: Running, lines: list[bytes]):
    before = request(hostile.port, "GET", "/api/datasets/lab/mine").json["sha"]
    answer = commit(hostile, *lines)
    check(answer)
    assert answer.status in (400, 404)
    assert request(hostile.port, "GET", "/api/datasets/lab/mine").json["sha"] == before
    assert list(hostile.library.blobs.tmp.iterdir()) == []


def test_a_commit_without_a_header_or_with_a_giant_one(hostile: Running):
    assert commit(hostile, header=b"").status == 400
    assert commit(hostile, header=b'{"key": "header", "value": {"summary": 5}}').status == 400
    giant = json.dumps({"key": "header", "value": {"summary": "x" * (2 << 20)}}).encode()
    assert commit(hostile, header=giant).status == 413
    assert commit(hostile, file_line("x", bytes(100_001))).status == 413


@pytest.mark.parametrize("sent", [b"other bytes of a file", b"short", b"the bytes of a file and more"])
def test_bytes_with_another_hash_or_size_are_not_kept(hostile: Running, sent: bytes):
    data = b"the bytes of a file!!"
    answer = request(hostile.port, "PUT", announce(hostile, data), sent)
    assert (answer.status, "announced" in answer.json["error"]) == (400, True)
    assert not is_stored(hostile, data)
    assert not is_stored(hostile, sent)
    assert list(hostile.library.blobs.tmp.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size=5", "size=6"),
        ("signature=", "signature=0"),
        ("until=", "until=9"),
        ("size=5", "size=-5"),
        ("lab", "bal"),
        ("?", "?x=1&token="),
    ],
)
def test_an_upload_needs_a_url_of_the_server(hostile: Running, old: str, new: str):
    url = announce(hostile, b"12345")
    changed = url.replace(old, new, 1) if old != "?" else url.split("?")[0]
    assert request(hostile.port, "PUT", changed, b"12345").status == 403
    assert not is_stored(hostile, b"12345")


def test_a_file_that_no_disk_holds_is_refused_before_it_comes(hostile: Running):
    wanted = {"operation": "upload", "objects": [{"oid": "a" * 64, "size": 1 << 49}]}
    answer = request(
        hostile.port,
        "POST",
        "/datasets/lab/mine.git/info/lfs/objects/batch",
        json.dumps(wanted).encode(),
        token=TOKEN,
    )
    error = answer.json["objects"][0]["error"]
    assert error["code"] == 507
    assert "has room for" in error["message"]


def test_an_upload_that_is_cut_leaves_nothing(hostile: Running):
    data = os.urandom(1 << 20)
    tmp = hostile.library.blobs.tmp
    connection = connected(
        hostile,
        f"PUT {announce(hostile, data)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n",
    )
    connection.sendall(data[:500_000])
    wait_for(lambda: any(tmp.iterdir()))
    connection.close()
    wait_for(lambda: not any(tmp.iterdir()))
    assert not is_stored(hostile, data)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["upload", "commit", "json"])
def test_a_client_that_falls_silent_is_left(hostile: Running, of: str):
    path = {
        "upload": f"PUT {announce(hostile, b'x' * 100)}",
        "commit": "POST /api/datasets/lab/mine/commit/main",
        "json": "POST /api/repos/create",
    }[of]
    connection = connected(
        hostile,
        f"{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 100\r\n\r\nabc",
    )
    assert b" 408 " in until_closed(connection)
    wait_for(lambda: not any(hostile.library.blobs.tmp.iterdir()))
