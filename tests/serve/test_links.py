"""Links and swapped files in a served folder: no byte from elsewhere, and none under the hash of others."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.hostile import SECRET
from tests.serve.serving import Running, request, serving

URL = "/datasets/shift/folder/resolve/main/"


def checked_body(running: Running, path: str) -> bytes | None:
    """The body of an answer, which has the hash that its headers say; None where there is none."""
    answer = request(running.port, "GET", URL + path)
    assert answer.status in (200, 404, 503), answer.body
    if answer.status != 200:
        return None
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.body).hexdigest()}"'
    assert SECRET not in answer.body
    return answer.body


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """`served/folder` with files, and a secret of the same size as one of them next to `served`."""
    folder = tmp_path / "served" / "folder"
    (folder / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    for path in ("a.txt", "README.md", "sub/b.txt", "sub/deep/c.txt"):
        (folder / path).write_bytes(SECRET[::-1])
    for path in ("b.txt", "deep/c.txt"):
        (tmp_path / "elsewhere" / path).write_bytes(SECRET)
    return tmp_path


def same_times(path: Path, like: os.stat_result) -> None:
    os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))


def replace_file(top: Path, path: str) -> bytes:
    """Another file of the same size and times, that replaces it."""
    file = top / "served" / "folder" / path
    new = os.urandom(len(SECRET))
    (top / "new").write_bytes(new)
    same_times(top / "new", file.stat())
    (top / "new").rename(file)
    return new


def overwrite_file(top: Path, path: str) -> bytes:
    file = top / "served" / "folder" / path
    before, new = file.stat(), os.urandom(len(SECRET))
    with file.open("rb+") as stream:
        stream.write(new)
    same_times(file, before)
    return new


def swap_folder(top: Path, path: str) -> bytes:
    """Another folder that replaces the one that the file is in."""
    file = top / "served" / "folder" / path
    shutil.copytree(file.parent, top / "copy")
    new = os.urandom(len(SECRET))
    (top / "copy" / file.name).write_bytes(new)
    same_times(top / "copy" / file.name, file.stat())
    file.parent.rename(top / "old")
    (top / "copy").rename(file.parent)
    shutil.rmtree(top / "old")
    return new


@pytest.mark.parametrize("change", [replace_file, overwrite_file, swap_folder])
def test_another_file_of_the_same_size_and_time_has_its_own_hash(
    top: Path, change: Callable[[Path, str], bytes]
):
    with serving(top / "served") as running:
        assert checked_body(running, "sub/b.txt") == SECRET[::-1]
        for _ in range(3):
            new = change(top, "sub/b.txt")
            assert checked_body(running, "sub/b.txt") == new


def test_in_a_dataset_the_manifest_does_not_vouch_for_a_later_file(copy: Path):
    """Of the same size and time, whether it was swapped before the server started or while it runs."""
    folder = copy.rename(copy.with_name("folder"))
    shard = next((folder / "data").rglob("*.parquet"))
    path = str(shard.relative_to(folder))
    for _ in range(2):
        with serving(folder.parent) as running:
            for _ in range(3):
                before, new = shard.stat(), os.urandom(shard.stat().st_size)
                shard.write_bytes(new)
                same_times(shard, before)
                assert checked_body(running, path) == new


@pytest.mark.parametrize("at", ["sub", "sub/deep", "sub/b.txt", "sub/deep/c.txt"])
def test_what_becomes_a_link_is_not_followed(top: Path, at: str):
    place = top / "served" / "folder" / at
    with serving(top / "served") as running:
        path = at if at.endswith(".txt") else {"sub": "sub/b.txt"}.get(at, "sub/deep/c.txt")
        for _ in range(3):
            assert checked_body(running, path) == SECRET[::-1]
            place.rename(top / "away")
            place.symlink_to(top / "elsewhere" / Path(at).relative_to("sub"))
            assert checked_body(running, path) is None
            place.unlink()
            (top / "away").rename(place)
            repo = running.library.get("shift", "folder")
            assert repo is not None
            repo._listed_at = 0.0  # a second later


@pytest.mark.slow
@pytest.mark.parametrize("at", ["sub", "sub/deep", "sub/b.txt", "README.md"])
def test_nothing_from_elsewhere_comes_in_any_race(top: Path, at: str):
    """The place is now itself, now a link that leads out: readers get the one, or an error."""
    place, end = top / "served" / "folder" / at, threading.Event()
    (top / "elsewhere" / "README.md").write_bytes(SECRET)
    target = top / "elsewhere" / (Path(at).relative_to("sub") if at.startswith("sub") else at)
    (top / "link").symlink_to(target)

    def swap() -> None:
        while not end.is_set():
            place.rename(top / "away")
            (top / "link").rename(place)
            place.rename(top / "link")
            (top / "away").rename(place)

    with serving(top / "served") as running:
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            for _ in range(40):
                running.library._listed_at = 0.0
                for path in ("README.md", "sub/b.txt", "sub/deep/c.txt"):
                    checked_body(running, path)
                assert SECRET not in request(running.port, "GET", "/datasets/shift/folder").body
        finally:
            end.set()
            thread.join()


def test_a_file_that_is_overwritten_while_it_is_sent_ends_the_answer(top: Path):
    """Its bytes would be of two files, under the hash of one."""
    file = top / "served" / "folder" / "large.bin"
    file.write_bytes(bytes(64 << 20))
    with serving(top / "served") as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        connection.request("GET", URL + "large.bin")
        answer = connection.getresponse()
        received = answer.read(1 << 20)
        before = file.stat()
        with file.open("rb+") as stream:
            stream.write(b"\1" * (64 << 20))
        same_times(file, before)
        with pytest.raises(http.client.IncompleteRead):
            received += answer.read()
        connection.close()
