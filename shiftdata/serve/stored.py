"""Commits on the disk: a small file says what it is, a list beside it which files it has.

    <id>.json     date, title, message, parent, and of the list: entries, bytes, sha256; its sha1 is the id
    <id>.files    a line for each file and each folder, in the order of their keys: path, size, sha256, git's
                  id, and the commit that last changed it

A history reads no list, and a list is never in memory: what is asked for is searched in it.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from shiftdata.files import open_regular
from shiftdata.serve.blobs import TOO_MANY, Blobs, make_folder, read_small
from shiftdata.serve.names import Refusal, damaged, is_sha256, no_entry, no_revision
from shiftdata.serve.repos import BEHIND, Commit, Entry, FileRecord, Files, hub_time, key, with_folders

#: Files and folders of a repo at most: every commit lists them all.
MOST_ENTRIES = 200_000

#: Letters of a title at most: a listing may repeat it for each file.
LONGEST_TITLE = 1000

LONGEST_COMMIT = 4 << 20
LONGEST_LINE = 4096

#: Within so many bytes a list is read line by line.
SEARCHED = 512

#: Looks for a list before it is missing: its dataset may be deleted and made again, with the same commit.
LOOKS = 3

#: The path in a line, and whether it is that of a folder.
START = re.compile(rb'\["((?:[^"\\]|\\")*)",(null)?')

ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class StoredFiles(Files):
    """The files of a commit, as its list has them."""

    folder: Path
    commit: str
    count: int
    length: int
    sha256: str

    def __len__(self) -> int:
        return self.count

    def entries(self, start: str = "") -> Iterator[Entry]:
        with self._open() as stream:
            if os.fstat(stream.fileno()).st_size != self.length:
                raise self._damaged("its list of files is cut")
            stream.seek(self._search(stream.fileno(), start))
            while line := stream.readline(LONGEST_LINE):
                if (entry := self.parse(line)).key >= start:
                    yield entry

    def _open(self) -> BinaryIO:
        for _ in range(LOOKS):
            try:
                return open_regular(self.folder / f"{self.commit}.files")
            except OSError as error:
                if error.errno in TOO_MANY:
                    raise
        raise self._damaged("its list of files is missing") from None

    def entry(self, path: str) -> Entry | None:
        return _find(self, path)

    def find(self, path: str) -> Entry | None:
        """Search in the list; `entry` does so once for what is asked for again and again."""
        return super().entry(path)

    def _search(self, descriptor: int, start: str) -> int:
        """Where a line begins that is not behind the key, and not far before it."""
        low, high = 0, self.length if start else 0
        while high - low > SEARCHED:
            middle = (low + high) // 2
            piece = os.pread(descriptor, 2 * LONGEST_LINE, middle)
            first = piece.find(b"\n") + 1
            if first == 0 or middle + first >= high:  # no line begins between
                high = middle
                continue
            line = piece[first : piece.find(b"\n", first) + 1]
            if self._key(line) < start:
                low = middle + first + len(line)
            else:
                high = middle + first
        return low

    def _key(self, line: bytes) -> str:
        """The key of a line, sooner than by parsing it: a path has no backslash, only its quotes get one."""
        found = START.match(line)
        try:
            path = found[1].decode().replace('\\"', '"') if found else ""
        except UnicodeDecodeError:
            found = None
        if found is None:
            raise self._damaged("its list of files cannot be read")
        return key(path) + BEHIND * bool(found[2])

    def parse(self, line: bytes) -> Entry:
        """The entry of a line."""
        try:
            path, size, sha256, git, number, by = json.loads(line.decode())
            file = None if size is None else FileRecord(size + 0, sha256, git)
            if not is_sha256(sha256) and file:
                raise ValueError
            return Entry(path + "", file, number + 0, self.commit if by is None else by + "")
        except (ValueError, TypeError, RecursionError):
            raise self._damaged("its list of files cannot be read") from None

    def _damaged(self, what: str) -> Refusal:
        if not (self.folder / f"{self.commit}.json").exists():  # the dataset was deleted meanwhile
            return no_revision(self.commit)
        return damaged(f"the commit {self.commit}", what)


@lru_cache(maxsize=4096)
def _find(files: StoredFiles, path: str) -> Entry | None:
    return files.find(path)


def read_commit(folder: Path, commit_id: str) -> Commit | None:
    """A commit, without its files; None if there is none of this id."""
    try:
        return parse_commit(folder, commit_id, read_small(folder / f"{commit_id}.json", LONGEST_COMMIT))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in TOO_MANY:
            raise
        raise damaged(f"the commit {commit_id}", "it cannot be read") from None


def parse_commit(folder: Path, commit_id: str, content: bytes) -> Commit:
    """The commit that a file with this content is, which must have the id."""
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != commit_id:
        raise ValueError("its bytes are not those that were written")
    made: dict[str, Any] = json.loads(content)
    files = StoredFiles(folder, commit_id, made["count"], made["length"], made["sha256"])
    texts = {name: made[name] for name in ("date", "title", "message", "parent")}
    return Commit(commit_id, files=files, bytes=made["bytes"], number=made["number"], **texts)


def write_commit(
    folder: Path, blobs: Blobs, before: Commit | None, changes: Mapping[str, FileRecord | None], **texts: str
) -> str | None:
    """Write the commit after another one, which nothing names yet; return its id, or None if nothing changes.

    A change is a file, or None where one is to be deleted.
    """
    number = before.number + 1 if before else 0
    totals = _Totals()
    files = totals.counted(_changed(before.files if before else None, changes, number), number)
    listed = blobs.receive()
    try:
        for at, entry in enumerate(with_folders(files)):
            if at == MOST_ENTRIES:
                raise Refusal(413, f"a repo may have {MOST_ENTRIES:,} files and folders at most")
            listed.write(_line(entry, number))
        if before and not totals.changed and totals.count == len(before.files):
            return None
        parent = before.id if before else None
        commit = {"number": number, "date": hub_time(time.time()), "parent": parent, **texts}
        commit |= {"count": totals.count, "bytes": totals.bytes}
        commit |= {"length": listed.size, "sha256": listed.sha256}
        content = json.dumps(commit, separators=(",", ":")).encode()
        commit_id = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        make_folder(folder)
        listed.settle()
        listed.path.replace(folder / f"{commit_id}.files")  # its name is synced with the next one
        blobs.write(folder / f"{commit_id}.json", content)
        return commit_id
    finally:
        listed.drop()


class _Totals:
    """How many files went into a list, and whether some are new."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.changed = False

    def counted(self, files: Iterator[Entry], number: int) -> Iterator[Entry]:
        for entry in files:
            self.count += 1
            self.bytes += entry.file.size if entry.file else 0
            self.changed = self.changed or entry.number == number
            yield entry


def _changed(before: Files | None, changes: Mapping[str, FileRecord | None], number: int) -> Iterator[Entry]:
    """The files of a commit after some changes, in the order of their keys."""
    old = (entry for entry in before.entries() if entry.file) if before else iter(())
    order = sorted(changes, key=key)
    new = (Entry(path, changes[path] or DELETED, number, "") for path in order)
    merged = heapq.merge(old, new, key=attrgetter("key"))
    for path, found in itertools.groupby(merged, attrgetter("path")):
        first, *rest = found  # the old one before the new one
        last = rest[0] if rest else first
        if last.file is not DELETED:
            yield first if first.file == last.file else last
        elif not rest:
            raise no_entry(path)


DELETED = FileRecord(-1, "")


def _line(entry: Entry, number: int) -> bytes:
    by = None if entry.number == number else entry.by
    values = [entry.path, *(entry.file or (None, None, None)), entry.number, by]
    return f"{ENCODER.encode(values)}\n".encode()
