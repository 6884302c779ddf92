"""The server is killed, its disk is full, its commits fail: nothing is lost, nothing is half there."""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import json
import os
import random
import socket
import threading
import time
import warnings
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile

from shiftdata.serve import blobs, uploaded
from shiftdata.serve.checking import Check
from shiftdata.serve.library import Library
from shiftdata.serve.repos import git_blob_id
from tests.serve.hostile import wait_for
from tests.serve.serving import TOKEN, Process, Running, request

ENV = {"SHIFTDATA_MIRROR_TOKEN": TOKEN}
MINE = {"repo_id": "lab/mine", "repo_type": "dataset"}


def start(root: Path, port: int = 0) -> Process:
    return Process(root, "--writable", "--quiet", port=port, env=ENV)


def half_sent(port: int, head: str, body: bytes) -> socket.socket:
    """A request of which half of the body has been sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(
        f"{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
    )
    connection.sendall(body[: len(body) // 2])
    return connection


def batch(port: int, *contents: bytes) -> list[str | None]:
    """For each content the path to put it to, or None where it is stored."""
    objects = [{"oid": hashlib.sha256(data).hexdigest(), "size": len(data)} for data in contents]
    wanted = json.dumps({"operation": "upload", "objects": objects}).encode()
    answer = request(
        port,
        "POST",
        "/datasets/lab/mine.git/info/lfs/objects/batch",
        wanted,
        token=TOKEN,
    )
    hrefs = [one.get("actions", {}).get("upload", {}).get("href") for one in answer.json["objects"]]
    return [href and "/" + href.split("/", 3)[3] for href in hrefs]


def test_killed_in_the_middle_of_an_upload_it_goes_on_with_what_is_missing(tmp_path):
    first, second = os.urandom(3 << 20), os.urandom(3 << 20)
    server = start(tmp_path)
    try:
        HfApi(endpoint=server.endpoint, token=TOKEN).create_repo(**MINE)
        places = batch(server.port, first, second)
        assert None not in places
        assert request(server.port, "PUT", str(places[0]), first).status == 200
        tmp = tmp_path / ".mirror" / "tmp"
        connection = half_sent(server.port, f"PUT {places[1]}", second)
        wait_for(lambda: any(path.stat().st_size > 1 << 20 for path in tmp.iterdir()))
        server.kill()
        connection.close()
        assert list(tmp.iterdir())
        server = start(tmp_path, server.port)
        assert list(tmp.iterdir()) == []
        assert batch(server.port, first)[0] is None  # it is here: not asked for again
        assert request(server.port, "PUT", str(places[1]), second).status == 200  # the URL is still good
        assert batch(server.port, second)[0] is None
        lines = [{"key": "header", "value": {"summary": "both"}}]
        for name, data in (("first.bin", first), ("second.bin", second)):
            lines.append(
                {
                    "key": "lfsFile",
                    "value": {
                        "path": name,
                        "algo": "sha256",
                        "oid": hashlib.sha256(data).hexdigest(),
                        "size": len(data),
                    },
                }
            )
        body = b"\n".join(json.dumps(line).encode() for line in lines)
        assert (
            request(server.port, "POST", "/api/datasets/lab/mine/commit/main", body, token=TOKEN).status
            == 200
        )
        assert request(server.port, "GET", "/datasets/lab/mine/resolve/main/second.bin").body == second
    finally:
        server.kill()


def test_killed_in_the_middle_of_a_commit_nothing_of_it_is_there(tmp_path):
    server = start(tmp_path)
    try:
        api = HfApi(endpoint=server.endpoint, token=TOKEN)
        api.create_repo(**MINE)
        api.upload_file(path_or_fileobj=b"old", path_in_repo="a.txt", **MINE)
        before = api.dataset_info("lab/mine").sha
        content = base64.b64encode(os.urandom(4 << 20)).decode()
        lines = [{"key": "header", "value": {"summary": "new"}}]
        lines += [
            {"key": "file", "value": {"content": content, "path": name, "encoding": "base64"}}
            for name in ("a.txt", "b.bin")
        ]
        body = b"\n".join(json.dumps(line).encode() for line in lines)
        connection = half_sent(server.port, "POST /api/datasets/lab/mine/commit/main", body)
        wait_for(
            lambda: any(path.stat().st_size > 1 << 20 for path in (tmp_path / ".mirror" / "tmp").iterdir())
        )
        server.kill()
        connection.close()
        server = start(tmp_path, server.port)
        assert api.dataset_info("lab/mine").sha == before
        assert api.list_repo_files(**MINE) == ["a.txt"]
        assert request(server.port, "GET", "/datasets/lab/mine/resolve/main/a.txt").body == b"old"
        assert (
            request(server.port, "POST", "/api/datasets/lab/mine/commit/main", body, token=TOKEN).status
            == 200
        )
        assert api.list_repo_files(**MINE) == ["a.txt", "b.bin"]
    finally:
        server.kill()


def test_killed_at_any_time_every_commit_that_was_confirmed_is_there(tmp_path):
    """Clients commit as fast as they can; the server is killed again and again."""
    draw = random.Random(5)
    server = start(tmp_path)
    confirmed: dict[str, bytes] = {}
    try:
        HfApi(endpoint=server.endpoint, token=TOKEN).create_repo(**MINE)
        for turn in range(3):
            stop = threading.Event()

            def commits(turn: int = turn, stop: threading.Event = stop, port: int = server.port) -> None:
                for at in range(10_000):
                    name, data = f"{turn}/{at}.bin", os.urandom(2000)
                    value = {"content": base64.b64encode(data).decode(), "path": name, "encoding": "base64"}
                    body = (
                        b'{"key": "header", "value": {"summary": "s"}}\n'
                        + json.dumps({"key": "file", "value": value}).encode()
                    )
                    try:
                        answer = request(
                            port, "POST", "/api/datasets/lab/mine/commit/main", body, token=TOKEN
                        )
                    except (OSError, http.client.HTTPException):  # an answer may be cut anywhere
                        return
                    if answer.status == 200:
                        confirmed[name] = data
                    if stop.is_set():
                        return

            thread = threading.Thread(target=commits)
            thread.start()
            time.sleep(0.2 + draw.random() / 3)
            server.kill()
            stop.set()
            thread.join()
            server = start(tmp_path, server.port)
            api = HfApi(endpoint=server.endpoint)
            files = {
                file.path: file
                for file in api.list_repo_tree(recursive=True, **MINE)
                if isinstance(file, RepoFile)
            }
            assert set(confirmed) <= set(files)
            assert len(api.list_repo_commits(**MINE)) == len(files) + 1
            for path, file in files.items():  # also of a commit whose answer was cut
                data = request(server.port, "GET", f"/datasets/lab/mine/resolve/main/{path}").body
                assert git_blob_id(data) == file.blob_id
                assert data == confirmed.get(path, data)
    finally:
        server.kill()
    library = Library(tmp_path, writable=True)
    assert Check(library).run().problems == []
    library.close()
    assert len(confirmed) > 5


@pytest.mark.parametrize("failing", ["blob", "commit", "ref"])
def test_where_the_disk_is_full_nothing_changes(writer: Running, monkeypatch, failing: str):
    api = HfApi(endpoint=writer.endpoint, token=TOKEN)
    api.create_repo(**MINE)
    api.upload_file(path_or_fileobj=b"old", path_in_repo="a.txt", **MINE)
    before = api.dataset_info("lab/mine").sha

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if failing == "blob":
            patch.setattr(blobs.Incoming, "write", full)
        elif failing == "commit":
            patch.setattr(uploaded, "write_commit", full)
        else:
            patch.setattr(uploaded.UploadedRepo, "_set_ref", full)
        with pytest.raises(HfHubHTTPError, match="disk is full"):
            api.upload_file(path_or_fileobj=b"new", path_in_repo="a.txt", **MINE)
    assert api.dataset_info("lab/mine").sha == before
    assert request(writer.port, "GET", "/datasets/lab/mine/resolve/main/a.txt").body == b"old"
    assert list(writer.library.blobs.tmp.iterdir()) == []
    assert api.upload_file(path_or_fileobj=b"new", path_in_repo="a.txt", **MINE).oid != before


def test_a_commit_that_is_sent_once_more_is_the_same_one(writer: Running):
    """A client that has not heard the answer sends it again."""
    api = HfApi(endpoint=writer.endpoint, token=TOKEN)
    api.create_repo(**MINE)
    value = {"content": base64.b64encode(b"text").decode(), "path": "a.txt", "encoding": "base64"}
    body = (
        b'{"key": "header", "value": {"summary": "s"}}\n'
        + json.dumps({"key": "file", "value": value}).encode()
    )
    ids = [
        request(writer.port, "POST", "/api/datasets/lab/mine/commit/main", body, token=TOKEN).json[
            "commitOid"
        ]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert len(api.list_repo_commits(**MINE)) == 2


def test_an_error_of_the_server_says_nothing_of_the_machine(writer: Running, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError(f"{writer.library.root} is broken")

    monkeypatch.setattr(type(writer.library), "repos", broken)
    answer = request(writer.port, "GET", "/api/datasets")
    assert (answer.status, answer.json) == (500, {"error": "the mirror failed; its log says why"})


@pytest.mark.slow
def test_a_large_commit_takes_little_memory(tmp_path):
    """Ten files of 8 MB in one body: the server never has one of them in memory."""
    server = Process(tmp_path, "--writable", "--quiet", env=ENV)
    try:
        HfApi(endpoint=server.endpoint, token=TOKEN).create_repo(**MINE)

        def peak() -> int:
            status = Path(f"/proc/{server.popen.pid}/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024

        before = peak()
        lines = [json.dumps({"key": "header", "value": {"summary": "large"}}).encode()]
        for at in range(10):
            value = {
                "content": base64.b64encode(os.urandom(8 << 20)).decode(),
                "path": f"{at}.bin",
                "encoding": "base64",
            }
            lines.append(json.dumps({"key": "file", "value": value}).encode())
        assert (
            request(
                server.port, "POST", "/api/datasets/lab/mine/commit/main", b"\n".join(lines), token=TOKEN
            ).status
            == 200
        )
        assert peak() - before < 8 << 20
    finally:
        server.kill()


def test_a_client_goes_on_when_the_server_is_back(tmp_path, monkeypatch):
    """The hub's own client, with files that come by LFS: those that are there are not sent again."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    warnings.filterwarnings("ignore", "Use 'content=<...>'", DeprecationWarning)
    folder = tmp_path / "folder"
    folder.mkdir()
    for at in range(3):
        (folder / f"{at}.bin").write_bytes(os.urandom(2_000_000))
    (tmp_path / "served").mkdir()
    server = start(tmp_path / "served")
    try:
        api = HfApi(endpoint=server.endpoint, token=TOKEN, headers={"X-Shiftdata-Upload": "lfs"})
        api.create_repo(**MINE)
        place = batch(server.port, (folder / "1.bin").read_bytes())[0]
        assert request(server.port, "PUT", str(place), (folder / "1.bin").read_bytes()).status == 200
        server.kill()
        server = Process(tmp_path / "served", "--writable", port=server.port, env=ENV)
        api.upload_folder(folder_path=folder, **MINE)
        assert api.list_repo_files(**MINE) == ["0.bin", "1.bin", "2.bin"]
    finally:
        server.kill()
    assert server.said.count('"PUT ') == 2
    assert "signature" not in server.said
    assert TOKEN not in server.said
