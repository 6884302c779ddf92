"""What both kinds of repos consist of: commits, their files, branches and tags, and who may read."""

from __future__ import annotations

import hashlib
import itertools
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from shiftdata.serve.names import Refusal

#: The owner of folders that have none, and the name of everybody who has the token.
OWNER = "shift"


class Changed(Exception):
    """A file is no longer what its commit says: ask the repo for its commit again."""


class FileRecord(NamedTuple):
    """A file of a commit. `git` is its blob id where it was committed as a plain file; else it is in LFS."""

    size: int
    sha256: str
    git: str | None = None

    @property
    def pointer(self) -> bytes:
        """What git would store instead of a file in LFS."""
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def blob_id(self) -> str:
        return self.git or git_blob_id(self.pointer)


class Entry(NamedTuple):
    """A file of a commit, or a folder, and the commit that made it what it is."""

    path: str
    file: FileRecord | None  # None for a folder
    number: int  # of that commit
    by: str

    @property
    def key(self) -> str:
        """Sorts a folder behind all that it contains: no path has a control character."""
        return key(self.path) + ("" if self.file else BEHIND)

    @property
    def behind(self) -> str:
        """The key from which the next entry is searched."""
        return f"{self.key}\0"


BEHIND = "\1"


def key(path: str) -> str:
    """By it, what a folder contains comes together."""
    return path.replace("/", "\0")


class Files(Mapping[str, FileRecord]):
    """The files of a commit, and its folders, in the order of their keys."""

    @abstractmethod
    def entries(self, start: str = "") -> Iterator[Entry]:
        """Files and folders from this key on."""

    def below(self, folder: str) -> Iterator[Entry]:
        """All that a folder contains, and at last the folder; it is empty if there is no such folder."""
        start = f"{key(folder)}\0"
        return itertools.takewhile(
            lambda entry: entry.key.startswith(start) or entry.key == key(folder) + BEHIND,
            self.entries(start),
        )

    def children(self, folder: str, start: str = "") -> Iterator[Entry]:
        """The files and folders of a folder, without what those contain."""
        first = f"{key(folder)}\0" if folder else ""
        start = max(first, start)
        while (entry := next(self.entries(start), None)) is not None and entry.key.startswith(first):
            name, slash, _ = entry.path[len(first) :].partition("/")
            if slash:  # its folder comes behind all that it contains
                entry = self.entry(entry.path[: len(first)] + name) or entry
            yield entry
            start = entry.behind

    def entry(self, path: str) -> Entry | None:
        """A file or a folder; None if there is neither."""
        wanted = key(path)
        found = next(self.entries(wanted), None)
        if found is not None and found.key.startswith(f"{wanted}\0"):  # in it; a folder comes behind
            found = next(self.entries(wanted + BEHIND), None)
        return found if found is not None and found.path == path else None

    def __getitem__(self, path: str) -> FileRecord:
        entry = self.entry(path)
        if entry is None or entry.file is None:
            raise KeyError(path)
        return entry.file

    def __iter__(self) -> Iterator[str]:
        return (entry.path for entry in self.entries() if entry.file)

    def items(self) -> ItemsView[str, FileRecord]:
        return _Items(self)


class _Items(ItemsView[str, FileRecord]):
    """Read in one go, not file by file."""

    _mapping: Files

    def __iter__(self) -> Iterator[tuple[str, FileRecord]]:
        return ((entry.path, entry.file) for entry in self._mapping.entries() if entry.file)


class ListedFiles(Files):
    """Files in memory."""

    def __init__(self, files: Mapping[str, FileRecord], commit: str) -> None:
        found = (Entry(path, files[path], 0, commit) for path in sorted(files, key=key))
        self._entries = list(with_folders(found))
        self._keys = [entry.key for entry in self._entries]
        self._files = dict(files)

    def entries(self, start: str = "") -> Iterator[Entry]:
        return itertools.islice(self._entries, bisect_left(self._keys, start), None)

    def __getitem__(self, path: str) -> FileRecord:
        return self._files[path]

    def __len__(self) -> int:
        return len(self._files)


def with_folders(files: Iterable[Entry]) -> Iterator[Entry]:
    """Files in the order of their keys, and behind what each folder contains the folder, as new as that."""
    inside: list[Entry] = []
    before = "/"
    for file in files:
        if file.path.startswith(f"{before}/"):
            raise Refusal(400, f"{before!a} cannot be a file and the folder of {file.path!a}")
        before = file.path
        while inside and not file.path.startswith(f"{inside[-1].path}/"):
            yield _leave(inside)
        start = len(inside[-1].path) + 1 if inside else 0
        while (start := file.path.find("/", start) + 1) > 0:
            inside.append(Entry(file.path[: start - 1], None, 0, ""))
        _renew(inside, file)
        yield file
    while inside:
        yield _leave(inside)


def _leave(inside: list[Entry]) -> Entry:
    folder = inside.pop()
    _renew(inside, folder)
    return folder


def _renew(inside: list[Entry], entry: Entry) -> None:
    if inside and entry.number >= inside[-1].number:
        inside[-1] = inside[-1]._replace(number=entry.number, by=entry.by)


@dataclass(frozen=True)
class Commit:
    """A revision: every file that it has."""

    id: str
    date: str
    title: str
    message: str
    parent: str | None
    files: Files
    bytes: int
    number: int = 0  # of commits before it


@dataclass(frozen=True)
class Settings:
    """Who may read: a private repo is not seen without the token, a gated one is seen and not read."""

    private: bool = False
    gated: Literal["auto", "manual", False] = False


def git_blob_id(content: bytes) -> str:
    """The id that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def hub_time(seconds: float) -> str:
    """A time as the Hub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
