"""Bytes rot on the disk: no reader gets wrong ones, a check finds them, and an upload heals them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from shiftdata.cli.app import main
from shiftdata.serve import blobs
from shiftdata.serve.checking import Background, Check, Findings
from shiftdata.serve.library import Library
from tests.serve.hostile import announce, commit, file_line, wait_for
from tests.serve.serving import TOKEN, Running, request
from tests.serve.test_damage import create, head, repo

LARGE = os.urandom(150_000)  # above what the fixture takes inside a commit


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def lfs_line(path: str, data: bytes) -> bytes:
    value = {"path": path, "algo": "sha256", "oid": sha256(data), "size": len(data)}
    return json.dumps({"key": "lfsFile", "value": value}).encode()


@pytest.fixture
def mine(writer: Running) -> Running:
    """A writable mirror with the repo `lab/mine`, which has a small file and one that came by LFS."""
    assert create(writer, "mine").status == 200
    assert request(writer.port, "PUT", announce(writer, LARGE), LARGE).status == 200
    assert commit(writer, file_line("a.txt", b"plain"), lfs_line("large.bin", LARGE)).status == 200
    return writer


def rot(running: Running, data: bytes, *, quietly: bool = False) -> Path:
    """Change one byte of a stored file; `quietly` as a disk does it, which changes no time."""
    path = running.library.blobs.path(sha256(data))
    path.chmod(0o644)
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    path.write_bytes(changed)
    if quietly:
        running.library.blobs._whole[sha256(data)] = blobs.Identity.of(path.stat())
    return path


def read(running: Running, path: str) -> tuple[int, bytes]:
    answer = request(running.port, "GET", f"/datasets/lab/mine/resolve/main/{path}")
    return answer.status, answer.body


def batch(running: Running, data: bytes) -> bool:
    """Whether the server asks for these bytes."""
    wanted = {"operation": "upload", "objects": [{"oid": sha256(data), "size": len(data)}]}
    path = "/datasets/lab/mine.git/info/lfs/objects/batch"
    return (
        "actions"
        in request(running.port, "POST", path, json.dumps(wanted).encode(), token=TOKEN).json["objects"][0]
    )


def known(running: Running, path: str, data: bytes) -> str | None:
    """The id that `preupload` gives of a file that is there."""
    body = {"files": [{"path": path, "size": len(data), "sample": ""}]}
    url = "/api/datasets/lab/mine/preupload/main"
    found: str | None = (
        request(running.port, "POST", url, json.dumps(body).encode(), token=TOKEN).json["files"][0].get("oid")
    )
    return found


@pytest.mark.parametrize(("path", "data"), [("a.txt", b"plain"), ("large.bin", LARGE)])
def test_a_rotten_file_is_an_error_until_it_is_uploaded_again(mine: Running, path: str, data: bytes):
    assert read(mine, path) == (200, data)
    rot(mine, data)
    status, body = read(mine, path)
    assert (status, b"upload" in body or b"send it again" in body) == (410, True)
    assert read(mine, path)[0] == 410
    other = "large.bin" if path == "a.txt" else "a.txt"
    assert read(mine, other)[0] == 200
    assert known(mine, path, data) is None
    assert batch(mine, data)
    assert commit(mine, lfs_line("again", data)).status == 400  # it is not there
    assert request(mine.port, "PUT", announce(mine, data), data).status == 200
    assert read(mine, path) == (200, data)
    assert known(mine, path, data) is not None
    assert not batch(mine, data)


def test_a_file_that_comes_again_inside_a_commit_is_healed(mine: Running):
    rot(mine, b"plain", quietly=True)
    assert commit(mine, file_line("a.txt", b"plain")).status == 200
    assert read(mine, "a.txt") == (200, b"plain")


@pytest.mark.parametrize("how", ["cut", "gone", "a pipe", "a folder", "a link"])
def test_a_file_that_is_not_what_it_was_is_an_error(mine: Running, how: str, tmp_path: Path):
    path = mine.library.blobs.path(sha256(LARGE))
    path.chmod(0o644)
    if how == "cut":
        os.truncate(path, 100)
    else:
        path.unlink()
        (tmp_path / "secret").write_bytes(LARGE[::-1])
        {"gone": lambda: None, "a pipe": lambda: os.mkfifo(path), "a folder": path.mkdir}.get(
            how, lambda: path.symlink_to(tmp_path / "secret")
        )()
    assert read(mine, "large.bin")[0] == 410
    assert batch(mine, LARGE)


def test_a_check_finds_what_rotted_without_a_trace(mine: Running):
    path = rot(mine, LARGE, quietly=True)
    assert read(mine, "large.bin")[0] == 200  # nobody can see it, until the bytes are hashed
    found = Check(mine.library).run()
    assert len(found.problems) == 2
    assert "lab/mine: large.bin" in found.problems[1]
    assert not path.exists()
    assert len(list(mine.library.blobs.aside.iterdir())) == 1
    assert read(mine, "large.bin")[0] == 410
    assert request(mine.port, "PUT", announce(mine, LARGE), LARGE).status == 200
    assert Check(mine.library).run().problems == []
    assert read(mine, "large.bin") == (200, LARGE)


@pytest.mark.parametrize("what", ["json", "files"])
def test_a_check_moves_a_damaged_commit_aside_and_then_removes_nothing(mine: Running, what: str):
    orphan(mine, b"nobody names it")
    path = head(repo(mine), what)
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    found = Check(mine.library).run()
    assert any("lab/mine" in problem for problem in found.problems)
    assert found.removed == 0  # what a damaged commit names is not known
    assert not path.exists()
    assert request(mine.port, "GET", "/api/datasets/lab/mine").status == 410


@pytest.mark.parametrize("kind", ["heads/main", "heads/x", "tags/x"])
@pytest.mark.parametrize("content", ["garbage", "0" * 40])
def test_a_check_names_branches_and_tags_without_a_commit(mine: Running, kind: str, content: str):
    path = repo(mine) / kind
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    (problem,) = Check(mine.library).run().problems
    assert path.name in problem


def orphan(running: Running, data: bytes, *, age: float = 2 * blobs.KEPT) -> Path:
    """A stored file that no commit names, as old as that."""
    assert request(running.port, "PUT", announce(running, data), data).status == 200
    path = running.library.blobs.path(sha256(data))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_no_commit_names_is_removed_after_a_day(mine: Running):
    old, young, asked = (orphan(mine, data) for data in (b"old", b"young", b"asked for"))
    os.utime(young, (time.time() - blobs.KEPT / 2,) * 2)
    for data in (b"plain", LARGE):  # old, and named
        os.utime(mine.library.blobs.path(sha256(data)), (0, 0))
    assert not batch(mine, b"asked for")  # a client will leave it out, and name it in its commit
    found = Check(mine.library).run()
    assert (found.removed, found.problems) == (1, [])
    assert (old.exists(), young.exists(), asked.exists()) == (False, True, True)
    assert commit(mine, lfs_line("asked", b"asked for")).status == 200
    assert [read(mine, path)[0] for path in ("asked", "a.txt", "large.bin")] == [200] * 3


def test_files_of_older_commits_and_other_branches_are_kept(mine: Running):
    body = b'{"startingPoint": "main"}'
    assert request(mine.port, "POST", "/api/datasets/lab/mine/branch/side", body, token=TOKEN).status == 200
    line = json.dumps({"key": "deletedFile", "value": {"path": "large.bin"}}).encode()
    assert commit(mine, line).status == 200
    for path in mine.library.blobs.folder.glob("*/*"):
        os.utime(path, (0, 0))
    assert Check(mine.library).run().removed == 0
    assert request(mine.port, "GET", "/datasets/lab/mine/resolve/side/large.bin").body == LARGE
    body = json.dumps({"name": "mine", "organization": "lab", "type": "dataset"}).encode()
    assert request(mine.port, "DELETE", "/api/repos/delete", body, token=TOKEN).status == 200
    assert Check(mine.library).run().removed == 2


def test_a_list_whose_commit_was_never_written_goes(mine: Running):
    stray = repo(mine) / "commits" / f"{'0' * 40}.files"
    stray.write_text("[]")
    assert Check(mine.library).run() == Findings(blobs=2, commits=2)
    assert stray.exists()
    os.utime(stray, (0, 0))
    Check(mine.library).run()
    assert not stray.exists()


def test_a_file_that_is_not_what_its_manifest_says_is_served_as_it_is(copy: Path):
    """The manifest's hash is taken at first; the check finds that the bytes have another."""
    shard = next((copy / "data").rglob("*.parquet"))
    damaged = bytearray(shard.read_bytes())
    damaged[100] ^= 1
    shard.write_bytes(damaged)
    os.utime(copy / "manifest.json")  # as if nothing had changed after it
    library = Library(copy.parent)
    (found,) = library.repos()
    path = str(shard.relative_to(copy))
    assert found.commit("main").files[path].sha256 != sha256(damaged)
    Check(library).run()
    assert found.commit("main").files[path].sha256 == sha256(damaged)
    os.close(found.open(found.commit("main"), path))
    library.close()


def test_the_command_checks_and_mends(tmp_path: Path, capsys):
    data = os.urandom(1000)
    library = Library(tmp_path, writable=True)
    incoming = library.blobs.receive()
    incoming.write(data)
    path = library.blobs.path(library.blobs.keep(incoming))
    library.close()
    assert main(["serve", str(tmp_path), "--fsck"]) == 0
    assert "1 stored files and 0 commits checked" in capsys.readouterr().out
    path.chmod(0o644)
    path.write_bytes(data[::-1])
    assert main(["serve", str(tmp_path), "--fsck"]) == 1
    assert "its bytes have another hash" in capsys.readouterr().out
    assert main(["serve", str(tmp_path), "--fsck"]) == 0
    other = tmp_path / "plain"
    other.mkdir()
    assert main(["serve", str(other), "--fsck"]) == 0
    assert list(other.iterdir()) == []
    library = Library(tmp_path, writable=True)
    assert main(["serve", str(tmp_path), "--fsck"]) == 1
    assert "another writable server" in capsys.readouterr().err
    library.close()


def test_a_running_server_checks_in_the_background(mine: Running, monkeypatch):
    rot(mine, LARGE, quietly=True)
    with Background(mine.library):
        wait_for(lambda: read(mine, "large.bin")[0] == 410)
    assert read(mine, "a.txt")[0] == 200
