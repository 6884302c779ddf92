"""Publishing to URLs: places without commits, where a manifest must never lie."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pytest
from filelock import FileLock
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.publish import objects
from builders.publish.publishing import WORK
from builders.publish.target import Source
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.catalog import Catalog
from tests.builders.publish.versions import PICTURE, SHARD, contents, manifest_is_true, run_killed
from tests.properties import share

NEW = {PICTURE, "README.md", FILE_NAME}


@pytest.fixture(scope="module")
def versions(tiny: Path, later: Path) -> tuple[Path, Path]:
    """The tiny dataset and its later version."""
    return tiny, later


@dataclass
class Watched:
    """What is done to the places in memory; their manifests are looked at after each step.

    The last byte of a file whose path ends in `flip` arrives changed.
    """

    done: list[tuple[str, str]] = field(default_factory=list)
    flip: str | None = None

    def note(self, what: str, path: str) -> None:
        place = "/".join(path.split("/")[:3])
        self.done.append((what, path.removeprefix(f"{place}/")))
        assert manifest_is_true(held(f"memory:/{place}"))

    def sent(self) -> list[str]:
        return [path for what, path in self.done if what == "put"]


class Cutting(LocalFileSystem):
    """A server of files, where one can look at a file before all of it is there."""

    protocol = "cutting"

    def put_file(self, lpath, rpath, *arguments, **options):
        assert rpath.endswith(".part")
        super().put_file(lpath, rpath, *arguments, **options)


fsspec.register_implementation("cutting", Cutting, clobber=True)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """The places in memory, watched."""
    seen = Watched()
    put, remove = MemoryFileSystem.put_file, MemoryFileSystem.rm_file

    def put_file(self, lpath, rpath, *arguments, **options):
        put(self, lpath, rpath, *arguments, **options)
        path = self._strip_protocol(rpath)
        if seen.flip and path.endswith(seen.flip):
            data = self.cat_file(path)
            self.pipe_file(path, data[:-1] + bytes([data[-1] ^ 1]))
        seen.note("put", path)

    def rm_file(self, path):
        remove(self, path)
        seen.note("remove", self._strip_protocol(path))

    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)
    monkeypatch.setattr(MemoryFileSystem, "rm_file", rm_file)
    yield seen
    MemoryFileSystem.store.clear()


@pytest.fixture
def url(watched: Watched) -> str:
    """A place that no other test knows."""
    return f"memory://{uuid.uuid4().hex}"


def held(url: str) -> dict[str, bytes]:
    """Every file below a URL, by its path there."""
    system, root = fsspec.core.url_to_fs(url)
    system.invalidate_cache()
    return {path.removeprefix(f"{root}/"): system.cat_file(path) for path in system.find(root)}


def test_data_goes_first_and_the_manifest_last(publish, tiny, url, watched):
    said = publish(tiny, "--to", url)
    assert f"{url}/tiny: 28 files published" in said
    assert held(f"{url}/tiny") == contents(tiny)
    assert watched.sent()[-4:] == ["croissant.json", "eval.yaml", "names.json", FILE_NAME]
    watched.done.clear()
    assert "nothing to send" in publish(tiny, "--to", f"{url}/tiny")
    assert watched.done == []


def test_only_what_changed_is_sent_while_no_manifest_lies_there(publish, tiny, later, url, watched):
    publish(tiny, "--to", url)
    fsspec.filesystem("memory").pipe_file(f"{url}/tiny/mine.txt", b"mine")
    watched.done.clear()
    assert "left alone: mine.txt" in publish(later, "--to", url)
    assert held(f"{url}/tiny") == {**contents(later), "mine.txt": b"mine"}
    assert watched.done[0] == ("remove", FILE_NAME)
    assert set(watched.sent()) == NEW
    assert ("remove", "groups.png") in watched.done
    assert watched.done[-1] == ("put", FILE_NAME)


def test_without_notes_the_manifest_there_tells_what_is_the_same(publish, tiny, later, url, watched, home):
    publish(tiny, "--to", url)
    for notes in (home / WORK).glob("*.json"):
        notes.unlink()
    watched.done.clear()
    publish(later, "--to", url)
    assert set(watched.sent()) == NEW


@pytest.mark.parametrize("data", [b"cut", None])
def test_a_file_that_was_cut_or_overwritten_there_is_sent_again(publish, tiny, url, watched, data):
    publish(tiny, "--to", url)
    fsspec.filesystem("memory").pipe_file(f"{url}/tiny/{SHARD}", data or (tiny / SHARD).read_bytes()[::-1])
    watched.done.clear()
    publish(tiny, "--to", url)
    assert watched.sent() == [SHARD, FILE_NAME]
    assert held(f"{url}/tiny") == contents(tiny)


@pytest.mark.parametrize("path", [SHARD, FILE_NAME])
def test_a_file_that_arrives_damaged_is_named_and_the_place_has_no_manifest(
    publish, tiny, url, watched, path
):
    watched.flip = path
    said = publish(tiny, "--to", url, fails=True)
    assert f"{path} did not arrive at {url}/tiny as it was sent" in said
    assert FILE_NAME not in held(f"{url}/tiny")
    watched.flip = ""
    publish(tiny, "--to", url)
    assert held(f"{url}/tiny") == contents(tiny)


@pytest.mark.parametrize("number", [pytest.param(12, marks=pytest.mark.slow), 28])
def test_killed_in_the_middle_of_a_file_only_the_rest_is_sent(publish, tiny, home, number):
    code = f"""
import fsspec
from fsspec.implementations.local import LocalFileSystem
class Cutting(LocalFileSystem):
    protocol = "cutting"
    calls = 0
    def put_file(self, lpath, rpath, *arguments, **options):
        Cutting.calls += 1
        if Cutting.calls == {number}:
            self.pipe_file(rpath, open(lpath, "rb").read()[:100])
            os.kill(os.getpid(), signal.SIGKILL)
        super().put_file(lpath, rpath, *arguments, **options)
fsspec.register_implementation("cutting", Cutting)"""
    place = home / "files/tiny"
    run_killed(code, str(tiny), "--to", f"cutting://{home}/files", cwd=home)
    assert manifest_is_true(contents(place))
    assert len([path for path in contents(place) if not path.endswith(".part")]) == number - 1
    said = publish(tiny, "--to", f"cutting://{home}/files")
    assert f"{29 - number} files published" in said
    found = contents(place)
    assert {path: data for path, data in found.items() if not path.endswith(".part")} == contents(tiny)
    assert sd.verify(place) == []


@pytest.mark.slow
def test_s3(publish, tiny, later, bucket, home):
    server = os.environ["AWS_ENDPOINT_URL"]
    publish(tiny, "--to", f"s3://{bucket}/shift", "--catalog", "catalog.json")
    assert held(f"s3://{bucket}/shift/tiny") == contents(tiny, f"{server}/{bucket}/shift/tiny")
    assert "nothing to send" in publish(tiny, "--to", f"s3://{bucket}/shift")
    assert "3 files published" in publish(later, "--to", f"s3://{bucket}/shift", "--catalog", "catalog.json")
    assert held(f"s3://{bucket}/shift/tiny") == contents(later, f"{server}/{bucket}/shift/tiny")
    entry = Catalog.read(home / "catalog.json").entries["tiny"]
    assert entry.places == (f"s3://{bucket}/shift/tiny",)
    assert sd.verify(f"s3://{bucket}/shift/tiny") == []
    notes = "".join(path.read_text() for path in (home / WORK).glob("*.json"))
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in notes
    assert json.loads(notes)["url"] == f"s3://{bucket}/shift/tiny"


def test_one_run_at_a_time(publish, tiny, url, watched, home):
    publish(tiny, "--to", url)
    (lock,) = (home / WORK).glob("*.lock")
    with FileLock(lock):
        assert "another process is publishing" in publish(tiny, "--to", url, fails=True)


class StoppedError(BaseException):
    """A run ends here, as by a kill: nothing is caught, nothing is tidied up."""


@given(
    runs=st.lists(st.tuples(st.booleans(), st.integers(0, 35)), min_size=1, max_size=5),
    one_machine=st.booleans(),
)
@share(0.4)
def test_whatever_was_stopped_wherever_the_manifest_is_true_and_the_last_run_ends_well(
    versions, runs, one_machine
):
    sources = [Source.read(folder) for folder in versions]
    url = f"memory://{uuid.uuid4().hex}/tiny"
    with tempfile.TemporaryDirectory() as notes, pytest.MonkeyPatch.context() as patch:
        put, remove = MemoryFileSystem.put_file, MemoryFileSystem.rm_file
        left = [0]

        def step() -> None:
            assert manifest_is_true(held(url))
            left[0] -= 1
            if left[0] < 0:
                raise StoppedError

        def put_file(self, lpath, rpath, *arguments, **options):
            step()
            put(self, lpath, rpath, *arguments, **options)

        def rm_file(self, path):
            step()
            remove(self, path)

        patch.setattr(MemoryFileSystem, "put_file", put_file)
        patch.setattr(MemoryFileSystem, "rm_file", rm_file)
        for later, steps in [*runs, (True, 1000)]:
            left[0] = steps
            # Two machines have notes of their own, which the other's runs make old.
            target = objects.ObjectTarget(url, Path(notes) if one_machine else Path(notes) / str(later))
            source = sources[later]
            with suppress(StoppedError):
                target.apply(source, target.compare(source), lambda count: None)
        found = held(url)
    expected = contents(versions[1])
    assert {path: found.get(path) for path in expected} == expected
    assert set(found) - set(expected) <= (set() if one_machine else {"groups.png"})
    MemoryFileSystem.store.clear()
