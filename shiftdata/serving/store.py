"""Repos that clients upload: commits as JSON, branches and tags as small files, under `.mirror`.

    repos/datasets/<owner>/<name>/settings.json
                                  commits/<id>.json      every file of the commit: size, sha256, git's id
                                  heads/<branch>         the id of a commit; a slash is written %2F
                                  tags/<tag>

A commit is there when its branch's file has been replaced, which is one rename; all that it names was synced
before.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

from shiftdata.serving.blobs import Blobs, sync_folder, write_whole
from shiftdata.serving.paths import check_tree, is_commit_id, is_ref, is_repo_part
from shiftdata.serving.refusals import Refusal, no_entry, no_repo, no_revision
from shiftdata.serving.repos import Commit, FileRecord, Refs, Settings, hub_time

#: Files of a repo at most: every commit lists them all.
MOST_FILES = 200_000


@dataclass(frozen=True)
class StoredRepo:
    """A repo under `.mirror`."""

    owner: str
    name: str
    folder: Path
    blobs: Blobs
    lock: threading.Lock = field(repr=False, compare=False)

    def settings(self) -> Settings:
        """Who may read it; where that cannot be read, nobody without the token."""
        try:
            return Settings(**json.loads((self.folder / "settings.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return Settings(private=True)

    def set(self, settings: Settings) -> None:
        """Change who may read it."""
        with self.lock:
            if not self.folder.is_dir():  # deleted by another request
                raise no_repo(self.owner, self.name)
            write_whole(self.folder / "settings.json", json.dumps(asdict(settings)).encode(), self.blobs.tmp)

    def refs(self) -> Refs:
        """Its branches and tags."""
        return Refs(dict(self._named("heads")), dict(self._named("tags")))

    def commit(self, revision: str) -> Commit:
        """The commit of a branch, a tag or an id."""
        commit_id = revision if is_commit_id(revision) else self._ref(revision)
        if commit_id is None or not (path := self.folder / "commits" / f"{commit_id}.json").is_file():
            raise no_revision(revision)
        return _read_commit(path)

    def history(self, revision: str) -> list[Commit]:
        """That commit and those before it."""
        found = [self.commit(revision)]
        while (parent := found[-1].parent) is not None:
            found.append(self.commit(parent))
        return found

    def open(self, commit: Commit, path: str) -> int:
        """A descriptor of the blob of a file."""
        if path not in commit.files:
            raise no_entry(path)
        return os.open(self.blobs.path(commit.files[path].sha256), os.O_RDONLY)

    def add_commit(
        self,
        branch: str,
        change: Callable[[Commit], Mapping[str, FileRecord]],
        *,
        title: str,
        message: str,
        parent: str | None,
    ) -> Commit:
        """Add one commit to a branch: `change` makes its files from the commit before it.

        A change that changes nothing gives the commit that is there, so that a commit that is sent once more,
        because its answer was lost, does no harm.
        """
        with self.lock:
            if branch not in self.refs().branches:
                raise no_revision(branch)
            before = self.commit(branch)
            if parent is not None and parent != before.id:
                raise Refusal(
                    412, f"{branch} has moved on to {before.id}: this commit was made for another parent"
                )
            files = change(before)
            if files == before.files:
                return before
            if len(files) > MOST_FILES:
                raise Refusal(413, f"a repo holds {MOST_FILES:,} files at most")
            check_tree(files.keys())
            made = _write_commit(self.folder, self.blobs.tmp, title, message, before.id, files)
            self._set_ref("heads", branch, made)
            return self.commit(made)

    def add_ref(self, kind: str, name: str, revision: str) -> None:
        """Make a branch (`heads`) or a tag (`tags`)."""
        if not is_ref(name):
            raise Refusal(
                400, f"{name[:100]!a} is no name for a branch or tag: letters, digits, . _ - + and / between"
            )
        with self.lock:
            target = self.commit(revision).id
            if self._path(kind, name).exists():
                raise Refusal(409, f"{self.owner}/{self.name} has {name} already")
            self._set_ref(kind, name, target)

    def delete_ref(self, kind: str, name: str) -> None:
        """Delete a branch or a tag; its commits stay."""
        if (kind, name) == ("heads", "main"):
            raise Refusal(403, "the branch main cannot be deleted")
        with self.lock:
            if not is_ref(name) or not (path := self._path(kind, name)).exists():
                raise no_revision(name)
            path.unlink()
            sync_folder(path.parent)

    def _ref(self, name: str) -> str | None:
        for kind in ("heads", "tags"):
            if is_ref(name) and (path := self._path(kind, name)).is_file():
                return path.read_text().strip()
        return None

    def _named(self, kind: str) -> Iterator[tuple[str, str]]:
        folder = self.folder / kind
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            yield unquote(path.name), path.read_text().strip()

    def _path(self, kind: str, name: str) -> Path:
        return self.folder / kind / quote(name, safe="")

    def _set_ref(self, kind: str, name: str, commit_id: str) -> None:
        write_whole(self._path(kind, name), commit_id.encode(), self.blobs.tmp)


class Store:
    """All uploaded repos and their blobs, below one folder; read-only as long as `prepare` is not called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = Blobs(folder)
        self._repos = folder / "repos" / "datasets"
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._making = threading.Lock()

    def prepare(self) -> None:
        """Make the folders, and clear what an earlier server had in work."""
        for folder in (self._repos, self.folder / "blobs"):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.blobs.tmp, ignore_errors=True)
        self.blobs.tmp.mkdir()

    def repos(self) -> Iterator[StoredRepo]:
        """Every repo."""
        for path in sorted(self._repos.glob("*/*")):
            if (repo := self.get(path.parent.name, path.name)) is not None:
                yield repo

    def get(self, owner: str, name: str) -> StoredRepo | None:
        """The repo of that name."""
        if not is_repo_part(owner) or not is_repo_part(name):
            return None
        folder = self._repos / owner / name
        if not (folder / "heads" / "main").is_file():
            return None
        with self._making:
            lock = self._locks.setdefault((owner, name), threading.Lock())
        return StoredRepo(owner, name, folder, self.blobs, lock)

    def create(self, owner: str, name: str, settings: Settings) -> None:
        """Make a repo with an empty first commit; it is there with one rename."""
        tmp = self.blobs.tmp / uuid.uuid4().hex
        tmp.mkdir()
        commit_id = _write_commit(tmp, self.blobs.tmp, "initial commit", "", None, {})
        write_whole(tmp / "settings.json", json.dumps(asdict(settings)).encode(), self.blobs.tmp)
        write_whole(tmp / "heads" / "main", commit_id.encode(), self.blobs.tmp)
        parent = self._repos / owner
        with self._making:
            parent.mkdir(exist_ok=True)
            if (parent / name).exists():
                shutil.rmtree(tmp)
                raise Refusal(409, f"the dataset {owner}/{name} is here already")
            tmp.rename(parent / name)
            sync_folder(parent)

    def delete(self, owner: str, name: str) -> None:
        """Delete a repo; blobs stay, since others may hold the same."""
        repo = self.get(owner, name)
        if repo is None:
            raise no_repo(owner, name)
        with repo.lock:
            away = self.blobs.tmp / uuid.uuid4().hex
            repo.folder.rename(away)
            sync_folder(repo.folder.parent)
        shutil.rmtree(away)


def _write_commit(
    folder: Path, tmp: Path, title: str, message: str, parent: str | None, files: Mapping[str, FileRecord]
) -> str:
    """Write a commit, which nothing names yet; give its id, which is a hash of all that it says."""
    said = {
        "date": hub_time(time.time()),
        "title": title,
        "message": message,
        "parent": parent,
        "files": {path: [file.size, file.sha256, file.git] for path, file in sorted(files.items())},
    }
    content = json.dumps(said, separators=(",", ":")).encode()
    commit_id = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    write_whole(folder / "commits" / f"{commit_id}.json", content, tmp)
    return commit_id


@lru_cache(maxsize=32)
def _read_commit(path: Path) -> Commit:
    """A commit, which never changes once it is written."""
    said = json.loads(path.read_bytes())
    files = {name: FileRecord(*record) for name, record in said.pop("files").items()}
    return Commit(id=path.stem, files=files, **said)
