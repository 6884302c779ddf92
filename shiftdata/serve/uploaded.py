"""What clients upload: files by their sha256; repos of commits (JSON), branches and tags, under `.mirror`.

    blobs/<two digits>/<sha256>           an uploaded file, whole and on the disk
    damaged/                              what was found to be wrong, and moved away
    repos/datasets/<owner>/<name>/settings.json
                                  commits/<id>.json      what a commit is; see `stored.py`
                                  commits/<id>.files     every file of the commit: size, sha256, git's id
                                  heads/<branch>         the id of a commit; a slash is written %2F
                                  tags/<tag>

A commit exists when its branch's file has been replaced, which is one rename; all that it names was synced
before.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote

from shiftdata.serve.blobs import TOO_MANY, Blobs, names_in, read_small, sync_folder
from shiftdata.serve.names import (
    COMMIT_ID,
    Refusal,
    damaged,
    is_ref,
    no_entry,
    no_repo,
    no_revision,
    report,
)
from shiftdata.serve.repos import Commit, FileRecord, Settings
from shiftdata.serve.stored import LONGEST_TITLE, read_commit, write_commit

#: Makes, from the commit before, the files that change: what they become, or None where they are deleted.
Change: TypeAlias = Callable[[Commit], Mapping[str, FileRecord | None]]

RefKind: TypeAlias = Literal["heads", "tags"]
REF_KINDS: dict[RefKind, str] = {"heads": "branch", "tags": "tag"}

LONGEST_SETTINGS = 4096
LONGEST_REF = 100


@dataclass(frozen=True)
class UploadedRepo:
    """A repo under `.mirror`."""

    owner: str
    name: str
    folder: Path
    blobs: Blobs
    lock: threading.Lock = field(repr=False, compare=False)

    @property
    def commits(self) -> Path:
        return self.folder / "commits"

    def make(self, settings: Settings) -> None:
        self._write_settings(settings)
        first = write_commit(self.commits, self.blobs, None, {}, title="initial commit", message="")
        self._set_ref("heads", "main", str(first))

    def settings(self) -> Settings:
        """Who may read it; where that cannot be read, nobody without the token."""
        try:
            return self.read_settings()
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, OSError) and error.errno in TOO_MANY:
                raise
            if self.folder.is_dir():
                report(
                    f"{self.owner}/{self.name}",
                    "its settings cannot be read: it is private until they are set",
                )
            return Settings(private=True)

    def read_settings(self) -> Settings:
        read = json.loads(read_small(self.folder / "settings.json", LONGEST_SETTINGS))
        private, gated = read["private"], read["gated"]
        if type(private) is bool and (gated is False or gated in ("auto", "manual")):
            return Settings(private, gated)
        raise ValueError("these are not settings")

    def change_settings(self, change: Callable[[Settings], Settings]) -> Settings:
        """Change what the settings are now, which no other request does meanwhile."""
        with self.lock:
            if not self.folder.is_dir():  # deleted by another request
                raise no_repo(self.owner, self.name)
            settings = change(self.settings())
            self._write_settings(settings)
            return settings

    def refs(self, kind: RefKind) -> dict[str, str]:
        """Branches or tags, with their commits; a damaged one is reported and left out."""
        found = {}
        for name in sorted(map(unquote, names_in(self.folder / kind))):
            try:
                target = self._target(kind, name) if is_ref(name) else None
            except Refusal:  # it was reported
                continue
            if target is not None:
                found[name] = target
            elif not is_ref(name):
                report(f"{self.owner}/{self.name}", f"{kind}/{name} is not a name: it is left out")
        return found

    def commit(self, revision: str) -> Commit:
        for _ in range(3):  # deleted and made anew between two looks, it is another one
            commit_id = revision if COMMIT_ID.fullmatch(revision) else self._find(revision)
            found = read_commit(self.commits, commit_id) if commit_id else None
            if found is not None:
                return found
            if commit_id == revision or self._find(revision) == commit_id:
                break
        if not self.folder.is_dir():
            raise no_repo(self.owner, self.name)
        if commit_id not in (None, revision):
            raise self._damaged(f"{revision} names a commit that is missing")
        raise self._damaged("its branch main is missing") if revision == "main" else no_revision(revision)

    def _find(self, revision: str) -> str | None:
        kinds = (kind for kind in REF_KINDS if is_ref(revision))
        return next((found for kind in kinds if (found := self._target(kind, revision))), None)

    def _target(self, kind: RefKind, name: str) -> str | None:
        """The commit that a branch or a tag names; None if there is no such one."""
        try:
            text = read_small(self._path(kind, name), LONGEST_REF).decode("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in TOO_MANY:
                raise
            text = ""
        if not COMMIT_ID.fullmatch(text):
            raise self._damaged(f"its {REF_KINDS[kind]} {name} names no commit")
        return text

    def _damaged(self, what: str) -> Refusal:
        return damaged(f"the dataset {self.owner}/{self.name}", what)

    def history(self, revision: str) -> Iterator[Commit]:
        """A commit, and those before it; no list of files is read."""
        found: Commit | None = self.commit(revision)
        while found is not None:
            yield found
            parent = found.parent
            found = read_commit(self.commits, parent) if parent else None
            if parent and found is None:
                self.commit(revision)  # unless it was deleted meanwhile
                raise self._damaged(f"the commit {parent} is missing from its history")

    def open(self, commit: Commit, path: str) -> int:
        file = commit.files.get(path)
        if file is None:
            raise no_entry(path)
        return self.blobs.open(file.sha256, file.size)

    def add_commit(
        self, branch: str, change: Change, *, title: str, message: str, parent: str | None
    ) -> Commit:
        """Add one commit to a branch.

        A change that changes nothing returns the commit before it: one that is sent twice does no harm.
        """
        if len(title) > LONGEST_TITLE:
            text = f"the summary of a commit has {LONGEST_TITLE:,} letters at most"
            raise Refusal(400, f"{text}: put the rest into the description")
        with self.lock:
            before = self.commit(branch)
            if not is_ref(branch) or self._target("heads", branch) is None:
                raise no_revision(branch)
            if parent is not None and parent != before.id:
                text = f"{branch} has moved on to {before.id}: this commit was made for another parent"
                raise Refusal(412, text)
            made = write_commit(
                self.commits, self.blobs, before, change(before), title=title, message=message
            )
            if made is None:
                return before
            self._set_ref("heads", branch, made)
            return self.commit(made)

    def add_ref(self, kind: RefKind, name: str, revision: str) -> None:
        if not is_ref(name):
            allowed = "letters, digits, . _ - + and / between"
            raise Refusal(400, f"{name[:100]!a} cannot name a branch or tag: use {allowed}")
        with self.lock:
            target = self.commit(revision).id
            for other, word in REF_KINDS.items():  # a name means one thing
                if self._path(other, name).exists():
                    raise Refusal(409, f"{self.owner}/{self.name} has a {word} {name} already")
            self._set_ref(kind, name, target)

    def delete_ref(self, kind: RefKind, name: str) -> None:
        """Delete a branch or a tag; its commits stay."""
        if (kind, name) == ("heads", "main"):
            raise Refusal(403, "the branch main cannot be deleted")
        with self.lock:
            if not is_ref(name) or not (path := self._path(kind, name)).exists():
                raise no_revision(name)
            path.unlink()
            sync_folder(path.parent)

    def _path(self, kind: RefKind, name: str) -> Path:
        return self.folder / kind / quote(name, safe="")

    def _set_ref(self, kind: RefKind, name: str, commit_id: str) -> None:
        self.blobs.write(self._path(kind, name), commit_id.encode())

    def _write_settings(self, settings: Settings) -> None:
        self.blobs.write(self.folder / "settings.json", json.dumps(asdict(settings)).encode())
