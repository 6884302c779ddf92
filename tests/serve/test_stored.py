"""Lists of files on the disk and in memory against a plain dictionary, with odd names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from shiftdata.serve.blobs import Blobs
from shiftdata.serve.names import Refusal
from shiftdata.serve.repos import Commit, FileRecord, ListedFiles
from shiftdata.serve.stored import read_commit, write_commit

LETTERS = ["a", "b", "-", ".b", '"', '",', "é", "\u2028", "😀", " ", "0", "!", "~", ",null", "]", "z" * 40]


class Names:
    """Random paths of which none is the folder of another."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def part(self, ending: str) -> str:
        return "a" + "".join(self.draw.choices(LETTERS, k=self.draw.randint(1, 3))) + ending

    def path(self) -> str:
        folders = [self.part("d") for _ in range(self.draw.randint(0, 3))]
        return "/".join([*folders, self.part("f")])

    def record(self) -> FileRecord:
        git = f"{self.draw.getrandbits(160):040x}" if self.draw.random() < 0.5 else None
        return FileRecord(self.draw.randint(0, 9), f"{self.draw.getrandbits(256):064x}", git)


def written(
    folder: Path, blobs: Blobs, before: Commit | None, changes: dict[str, FileRecord | None]
) -> Commit:
    made = write_commit(folder, blobs, before, changes, title="x", message="")
    commit = before if made is None else read_commit(folder, made)
    assert commit is not None
    return commit


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    one = Blobs(tmp_path, writable=True)
    one.prepare()
    return one


@pytest.mark.parametrize("seed", range(2))
def test_a_list_on_the_disk_is_the_dictionary_that_went_into_it(tmp_path: Path, blobs: Blobs, seed: int):
    names, now = Names(seed), dict[str, FileRecord]()
    commit = written(tmp_path / "commits", blobs, None, {})
    for _ in range(8):
        changes: dict[str, FileRecord | None] = {
            names.path(): names.record() for _ in range(names.draw.randint(0, 80))
        }
        changes |= dict.fromkeys(names.draw.sample(sorted(now), min(len(now), names.draw.randint(0, 20))))
        now = {path: file for path, file in {**now, **changes}.items() if file is not None}
        number = commit.number
        commit = written(tmp_path / "commits", blobs, commit, changes)
        assert commit.number == number + bool(changes)
        files, listed = commit.files, ListedFiles(now, commit.id)
        assert dict(files.items()) == dict(listed.items()) == now
        assert len(files) == len(listed) == len(now)
        assert commit.bytes == sum(file.size for file in now.values())
        every = [entry[:2] for entry in files.entries()]
        assert every == [entry[:2] for entry in listed.entries()]
        for path in [*names.draw.sample(sorted(now), min(len(now), 20)), *(names.path() for _ in range(20))]:
            assert files.get(path) == listed.get(path) == now.get(path)
        folders = {path[:at] for path in now for at, letter in enumerate(path) if letter == "/"}
        assert {path for path, file in every if file is None} == folders
        for folder in names.draw.sample(sorted(folders), min(len(folders), 10)):
            inside = {path for path in now if path.startswith(f"{folder}/")}
            below = [entry for entry in files.below(folder) if entry.file]
            assert {entry.path for entry in below} == inside
            found = files.entry(folder)
            assert found is not None
            assert found.number == max(entry.number for entry in below)
            children = {f"{folder}/{path[len(folder) + 1 :].partition('/')[0]}" for path in inside}
            assert {entry.path for entry in files.children(folder)} == children
        assert {entry.path for entry in files.children("")} == {path.partition("/")[0] for path in now}


@pytest.mark.parametrize(
    "paths", [["a", "a/b"], ["a/b", "a/b/c/d"], ["a", "a-b", "a.c/x", "a/b"], ["a/b/c", "a/b"], ["a/b", "a"]]
)
def test_a_path_is_not_a_file_and_a_folder(tmp_path: Path, blobs: Blobs, paths: list[str]):
    file = FileRecord(1, "0" * 64)
    first = written(tmp_path / "commits", blobs, None, {})
    with pytest.raises(Refusal, match="cannot be a file and the folder"):
        written(tmp_path / "commits", blobs, first, dict.fromkeys(paths, file))
    before = written(tmp_path / "commits", blobs, first, {paths[0]: file})
    with pytest.raises(Refusal, match="cannot be a file and the folder"):
        written(tmp_path / "commits", blobs, before, dict.fromkeys(paths[1:], file))
    assert list(blobs.tmp.iterdir()) == []
