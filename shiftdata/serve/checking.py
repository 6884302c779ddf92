"""Check all that a mirror stores against its hashes; move aside what is wrong, remove what nothing names."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shiftdata.files import open_regular
from shiftdata.serve.blobs import KEPT, names_in, read_small
from shiftdata.serve.folders import FolderRepo
from shiftdata.serve.library import Library
from shiftdata.serve.names import COMMIT_ID, Refusal, report
from shiftdata.serve.repos import Commit, Entry
from shiftdata.serve.stored import LONGEST_COMMIT, LONGEST_LINE, StoredFiles, parse_commit
from shiftdata.serve.uploaded import REF_KINDS, UploadedRepo

#: In the background a check works for a tenth of the time, once when the server starts and then each week.
REST = 9.0
AGAIN = 7 * 24 * 3600

#: Lines of a list that are read without a rest.
LINES = 1000


@dataclass
class Findings:
    """What a check found; a problem stays until somebody mends it, most often by uploading again."""

    problems: list[str] = field(default_factory=list)
    blobs: int = 0
    commits: int = 0
    removed: int = 0
    freed: int = 0

    def __str__(self) -> str:
        removed = f"{self.removed:,} files that no dataset names removed ({self.freed / 1e6:,.1f} MB)"
        return f"{self.blobs:,} stored files and {self.commits:,} commits checked, {removed}"


class Check:
    """One check; `rest` is called with the seconds that were worked, and may raise to end it."""

    def __init__(self, library: Library, rest: Callable[[float], None] = lambda seconds: None) -> None:
        self.library, self.blobs, self.rest = library, library.blobs, rest
        self.found = Findings()
        self._named: set[bytes] = set()
        self._missing: set[str] = set()
        self._all_read = True

    def run(self) -> Findings:
        for sha256 in self.blobs:
            self.found.blobs += 1
            if not self.blobs.check(sha256, self.rest) and self.blobs.path(sha256).parent.is_dir():
                self._report(f"blob {sha256}", "its bytes have another hash: it was moved to .mirror/damaged")
        for repo in self.library.uploaded():
            with suppress(FileNotFoundError):  # deleted meanwhile
                self._check(repo)
        if self.library.writable and self._all_read:
            self._remove_unnamed()
        for folder in self.library.repos():
            if isinstance(folder, FolderRepo):
                with suppress(Refusal, OSError):
                    folder.check(self.rest)
        return self.found

    def _report(self, where: str, what: str) -> None:
        report(where, what)
        self.found.problems.append(ascii(f"{where}: {what}")[1:-1])

    def _check(self, repo: UploadedRepo) -> None:
        name = f"{repo.owner}/{repo.name}"
        try:
            repo.read_settings()
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            if not repo.folder.is_dir():  # deleted meanwhile
                return
            self._report(name, "its settings cannot be read: it is private until they are set")
        for kind, word in REF_KINDS.items():
            for ref in names_in(repo.folder / kind):
                self._check_ref(repo, repo.folder / kind / ref, f"its {word} {ref}")
        if not (repo.folder / "heads" / "main").exists() and repo.folder.is_dir():
            self._report(name, "its branch main is missing")
        for file in names_in(repo.commits):
            commit_id, _, ending = file.partition(".")
            if not COMMIT_ID.fullmatch(commit_id) or ending not in ("json", "files"):
                self._report(name, f"commits/{file} is not a file of this server")
            elif ending == "json":
                self._check_commit(repo, commit_id)
            elif not (repo.commits / f"{commit_id}.json").exists():
                self._remove_list(repo.commits / file)

    def _check_ref(self, repo: UploadedRepo, path: Path, what: str) -> None:
        try:
            target = read_small(path, LONGEST_LINE).decode("ascii").strip()
        except (OSError, ValueError):
            target = ""
        missing = not COMMIT_ID.fullmatch(target) or not (repo.commits / f"{target}.json").is_file()
        if missing and repo.folder.is_dir():
            self._report(f"{repo.owner}/{repo.name}", f"{what} names no commit")
            self._all_read = False

    def _check_commit(self, repo: UploadedRepo, commit_id: str) -> None:
        self.found.commits += 1
        name, path = f"{repo.owner}/{repo.name}", repo.commits / f"{commit_id}.json"
        try:
            commit = parse_commit(repo.commits, commit_id, read_small(path, LONGEST_COMMIT))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            self._damaged(path, name, f"the commit {commit_id} cannot be read ({error})")
            return
        if commit.parent and not (repo.commits / f"{commit.parent}.json").is_file():
            self._report(name, f"the commit {commit.parent} is missing from its history")
            self._all_read = False
        assert isinstance(commit.files, StoredFiles)
        listed = repo.commits / f"{commit_id}.files"
        try:
            well = self._read_list(repo, commit, listed) == commit.files.sha256
        except (OSError, ValueError, TypeError, Refusal):
            well = False
        if not well and repo.folder.is_dir():
            self._damaged(listed, name, f"the list of files of the commit {commit_id} is damaged or missing")

    def _read_list(self, repo: UploadedRepo, commit: Commit, path: Path) -> str:
        """The hash of a list. Of its files those are looked at that came with this commit, not before."""
        assert isinstance(commit.files, StoredFiles)
        digest, began = hashlib.sha256(), time.monotonic()
        with open_regular(path) as stream:
            for at, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
                digest.update(line)
                if line.endswith(b",null]\n"):
                    self._check_file(repo, commit.files.parse(line))
                if at % LINES == 0:
                    self.rest(time.monotonic() - began)
                    began = time.monotonic()
        self.rest(time.monotonic() - began)
        return digest.hexdigest()

    def _check_file(self, repo: UploadedRepo, entry: Entry) -> None:
        if entry.file is None:
            return
        self._named.add(bytes.fromhex(entry.file.sha256))
        there = self.blobs.path(entry.file.sha256)
        if entry.file.sha256 not in self._missing and not there.is_file():
            self._missing.add(entry.file.sha256)
            where = f"{repo.owner}/{repo.name}: {entry.path} (commit {entry.by})"
            self._report(where, "its bytes are missing: upload the file again")

    def _damaged(self, path: Path, where: str, what: str) -> None:
        self._all_read = False
        moved = ""
        if self.library.writable and path.exists():
            self.blobs.set_aside(path)
            moved = ": it was moved to .mirror/damaged"
        self._report(where, what + moved)

    def _remove_list(self, path: Path) -> None:
        """Remove a list whose commit was never written; a young one may still get it."""
        with suppress(FileNotFoundError):
            if self.library.writable and time.time() - path.stat().st_mtime > KEPT:
                path.unlink()

    def _remove_unnamed(self) -> None:
        for sha256 in self.blobs:
            if bytes.fromhex(sha256) not in self._named:
                with suppress(OSError):
                    size = self.blobs.remove_unnamed(sha256)
                    if size is not None:
                        self.found.removed, self.found.freed = self.found.removed + 1, self.found.freed + size


class _Stopped(Exception):
    """The server ends."""


class Background:
    """Checks in a thread, with little load, as long as a server runs."""

    def __init__(self, library: Library) -> None:
        self._library, self._end = library, threading.Event()
        self._thread = threading.Thread(target=self._run, name="check", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _run(self) -> None:
        with suppress(_Stopped):
            while True:
                try:
                    Check(self._library, self._rest).run()
                except OSError as error:  # no more files can be opened, or the disk fails
                    report("the check in the background", f"it was ended by {error.strerror}")
                self._rest(AGAIN / REST)

    def _rest(self, seconds: float) -> None:
        if self._end.wait(seconds * REST):
            raise _Stopped
