"""The disk is full, or nearly: uploads are refused, deleting works, and nothing is left half done."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftdata.serve import blobs
from shiftdata.serve.checking import Check
from tests.serve.hostile import announce, commit, file_line
from tests.serve.serving import TOKEN, Answer, Running, request, serving
from tests.serve.test_damage import create

API = "/api/datasets/lab/mine"
READ = "/datasets/lab/mine/resolve/main/"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Running]:
    """A mirror on a disk of 80 MB, of which 64 are to stay free."""
    root = tmp_path / "small"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", root], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    try:
        with serving(root, writable=True, token=TOKEN, regular_bytes=4 << 20) as running:
            assert create(running, "mine").status == 200
            assert commit(running, file_line("a.txt", b"old")).status == 200
            yield running
    finally:
        subprocess.run(["umount", root], check=True)


def send(running: Running, method: str, path: str, **body: Any) -> Answer:
    return request(running.port, method, path, json.dumps(body).encode(), token=TOKEN)


def delete(running: Running, name: str) -> int:
    body = {"name": name, "organization": "lab", "type": "dataset"}
    return send(running, "DELETE", "/api/repos/delete", **body).status


def test_the_reserve_binds_everything_that_grows(small: Running):
    other = create(small, "other")
    statuses = [commit(small, file_line(f"{at}.bin", os.urandom(2 << 20))).status for at in range(10)]
    assert sorted(set(statuses)) == [200, 507]
    assert statuses == sorted(statuses)
    free = blobs.shutil.disk_usage(small.library.root).free
    assert free > 60 << 20
    before = request(small.port, "GET", API).json["sha"]
    large = b"".join(file_line(f"s{at}.txt", os.urandom(300_000)) + b"\n" for at in range(20))
    assert commit(small, large).status == 507
    for _ in range(20):
        commit(small, file_line("grows.txt", os.urandom(300_000)))
    assert blobs.shutil.disk_usage(small.library.root).free > 60 << 20
    assert other.status == 200
    assert delete(small, "other") == 200
    assert send(small, "PUT", f"{API}/settings", private=True).status == 200
    assert request(small.port, "GET", f"{API}/revision/{before}", token=TOKEN).status == 200
    assert list(small.library.blobs.tmp.iterdir()) == []


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        while stream.write(bytes(4096)):
            pass


def test_on_a_full_disk_what_deletes_works_and_the_rest_changes_nothing(small: Running):
    assert create(small, "other").status == 200
    for kind, name in (("branch", "side"), ("tag", "main")):
        assert send(small, "POST", f"{API}/{kind}/{name}", tag="v1").status == 200
    place = announce(small, b"bytes by LFS")
    for data in (b"an orphan", b"another"):
        assert request(small.port, "PUT", announce(small, data), data).status == 200
    for path in small.library.blobs.folder.glob("*/*"):
        os.utime(path, (0, 0))
    ballast = small.library.root / ".ballast"
    with pytest.raises(OSError, match="No space"):
        fill(ballast)
    before = request(small.port, "GET", API).json["sha"]
    assert commit(small, file_line("a.txt", b"new")).status == 507
    assert request(small.port, "PUT", place, b"bytes by LFS").status == 507
    assert create(small, "third").status == 507
    assert send(small, "PUT", f"{API}/settings", private=True).status == 507
    assert send(small, "POST", f"{API}/tag/main", tag="v2").status == 507
    info = request(small.port, "GET", API).json
    assert (info["sha"], info["private"]) == (before, False)
    assert request(small.port, "GET", READ + "a.txt").body == b"old"
    assert [tag["name"] for tag in request(small.port, "GET", f"{API}/refs").json["tags"]] == ["v1"]
    assert list(small.library.blobs.tmp.iterdir()) == []
    assert send(small, "DELETE", f"{API}/tag/v1").status == 200
    assert send(small, "DELETE", f"{API}/branch/side").status == 200
    found = Check(small.library).run()
    assert (found.problems, found.removed) == ([], 2)
    assert delete(small, "other") == 200
    assert delete(small, "mine") == 200
    ballast.unlink()
    assert create(small, "mine").status == 200
    assert commit(small, file_line("a.txt", b"new")).status == 200


class Full:
    """Raises as a full disk does at the n-th call of what writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left = at
        for where, name in (
            (tempfile, "mkstemp"),
            (os, "fsync"),
            (Path, "replace"),
            (Path, "mkdir"),
            (Path, "rename"),
            (blobs.Incoming, "write"),
        ):
            monkeypatch.setattr(where, name, self.counted(getattr(where, name)))

    def counted(self, call: Any) -> Any:
        def counting(*given: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(*given, **more)

        return counting


def state(running: Running) -> list[Any]:
    """All that clients see of the repos."""
    found = []
    for one in request(running.port, "GET", "/api/datasets", token=TOKEN).json:
        path = f"/api/datasets/{one['id']}"
        more = [
            request(running.port, "GET", path + end, token=TOKEN).json
            for end in ("", "/refs", "/commits/main")
        ]
        files = request(running.port, "GET", f"{path}/tree/main?recursive=1&expand=1", token=TOKEN).json
        for file in files:
            read = f"/datasets/{one['id']}/resolve/main/{file['path']}"
            if file["type"] == "file":
                assert request(running.port, "GET", read, token=TOKEN).status == 200
        found.append([one, more, files])
    return found


def do(running: Running, what: str) -> int:
    return {
        "commit": lambda: (
            commit(running, file_line("deep/er/b.txt", b"new"), file_line("a.txt", b"x")).status
        ),
        "settings": lambda: send(running, "PUT", f"{API}/settings", gated="auto").status,
        "create": lambda: create(running, "new").status,
        "tag": lambda: send(running, "POST", f"{API}/tag/main", tag="v1").status,
        "branch": lambda: send(running, "POST", f"{API}/branch/side").status,
        "upload": lambda: (
            409
            if running.library.blobs.has(hashlib.sha256(b"data").hexdigest())
            else request(running.port, "PUT", announce(running, b"data"), b"data").status
        ),
    }[what]()


@pytest.mark.parametrize("what", ["commit", "settings", "create", "tag", "branch", "upload"])
def test_where_anything_finds_the_disk_full_the_answer_is_507(writer: Running, what: str, monkeypatch):
    assert create(writer, "mine").status == 200
    assert commit(writer, file_line("a.txt", b"old")).status == 200
    before, refused = state(writer), 0
    for at in range(1, 100):
        with monkeypatch.context() as patch:
            full = Full(patch, at)
            status = do(writer, what)
        if full.left > 0:  # it ended before
            break
        if status == 409:  # renamed, but its folder could not be synced: all of it is there
            break
        assert status == 507
        assert list(writer.library.blobs.tmp.iterdir()) == []
        refused += 1
        now = state(writer)
        if now != before:  # the rename was done, and its folder could not be synced: all of it is there
            break
    assert refused > 2
    assert do(writer, what) in (200, 409)
    assert Check(writer.library).run().problems == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_a_free_descriptor_nothing_is_taken_for_missing(writer: Running, number: int, monkeypatch):
    """A folder that cannot be opened for a moment is not empty, and no blob is damaged."""
    assert create(writer, "mine").status == 200
    assert commit(writer, file_line("a.txt", b"old")).status == 200
    folder = writer.library.root / "lab" / "folder"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("text")
    writer.library._looked = 0.0
    before = state(writer)
    assert len(before) == 2
    opened = os.open

    def none_left(path: Any, flags: int, *given: Any, **more: Any) -> int:
        if str(path).startswith("/proc") or (more.get("dir_fd") is None and "served" not in str(path)):
            return opened(path, flags, *given, **more)
        raise OSError(number, "Too many open files")

    for path in ("/", "/api/datasets", "/api/datasets/lab/folder", API, READ + "a.txt", f"{API}/refs"):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", none_left)
            writer.library._looked = 0.0
            answer = request(writer.port, "GET", path)
        assert answer.status == 503, path
    writer.library._looked = 0.0
    assert state(writer) == before
