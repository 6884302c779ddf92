"""What a repo is, wherever its files lie."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol


class Changed(Exception):
    """A file is no longer what its commit says: ask the repo for its commit anew."""


@dataclass(frozen=True)
class FileRecord:
    """A file of a commit. `git` is its blob id where it was committed as a plain file; else it is in LFS."""

    size: int
    sha256: str
    git: str | None = None

    @property
    def is_lfs(self) -> bool:
        """Whether clients compare it by sha256."""
        return self.git is None

    @property
    def pointer(self) -> bytes:
        """What git would hold instead of a file in LFS."""
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def blob_id(self) -> str:
        """The id that git would give it."""
        return self.git or git_blob_id(self.pointer)


@dataclass(frozen=True)
class Commit:
    """A revision: every file that it has."""

    id: str
    date: str
    title: str
    message: str
    parent: str | None
    files: Mapping[str, FileRecord]


@dataclass(frozen=True)
class Settings:
    """Who may read: a private repo is not seen without the token, a gated one is seen and not read."""

    private: bool = False
    gated: Literal["auto", "manual", False] = False


@dataclass(frozen=True)
class Refs:
    """Names of commits."""

    branches: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)


class Repo(Protocol):
    """A dataset: an existing folder, or what clients have uploaded."""

    @property
    def owner(self) -> str:
        """The part before the slash."""

    @property
    def name(self) -> str:
        """The part after it."""

    def settings(self) -> Settings:
        """Who may read it."""

    def refs(self) -> Refs:
        """Its branches and tags."""

    def commit(self, revision: str) -> Commit:
        """The commit of a branch, a tag or an id; raises a `Refusal` where there is none."""

    def history(self, revision: str) -> Sequence[Commit]:
        """That commit and those before it, newest first."""

    def open(self, commit: Commit, path: str) -> int:
        """A descriptor of a file of a commit, whose bytes are those of its record; the caller closes it."""


def git_blob_id(content: bytes) -> str:
    """The id that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def hub_time(seconds: float) -> str:
    """A time as the Hub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
