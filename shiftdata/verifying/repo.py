"""The files of a dataset, in a folder or at a URL: which there are; each on this machine, with its hash."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shiftdata.errors import StorageError
from shiftdata.format.manifest import FileRecord
from shiftdata.places.store import Store
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.work import Work

CHUNK = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Held:
    """One file of a dataset on this machine: where it lies, if it is there, and what is wrong with it."""

    path: str
    file: Path | None
    fault: Problem | None = None
    temporary: bool = False

    def release(self) -> None:
        """Delete it, if it was fetched for the check."""
        if self.temporary and self.file is not None:
            self.file.unlink(missing_ok=True)


class Repo(Protocol):
    """Where the files of a dataset come from."""

    def names(self) -> set[str] | None:
        """Every file that is there but hidden ones, or None where that cannot be listed."""

    def refused(self, path: str) -> Problem | None:
        """Why a file must not be looked at, if so."""

    def hold(self, path: str, record: FileRecord) -> Held:
        """A file on this machine, compared with what the manifest says of it as a whole."""


@dataclass(frozen=True)
class Folder:
    """A dataset in a folder."""

    root: Path
    work: Work

    def names(self) -> set[str]:
        """Every file and every link that is there; what is below a link to a folder is not listed."""
        found = set()
        for folder, below, files in os.walk(self.root):
            links = [name for name in below if (Path(folder) / name).is_symlink()]
            below[:] = [name for name in below if not name.startswith(".")]
            here = Path(folder).relative_to(self.root)
            found |= {(here / name).as_posix() for name in [*files, *links]}
        return {name for name in found if not _hidden(name)}

    def refused(self, path: str) -> Problem | None:
        """A link must not lead out of the folder."""
        try:
            inside = (self.root / path).resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):  # links in a circle
            inside = False
        what = "points out of the dataset's folder: put the file itself there"
        return None if inside else Problem(path=path, what=what, kind="link")

    def hold(self, path: str, record: FileRecord) -> Held:
        """The file where it lies."""
        refused = self.refused(path)
        file = self.root / path
        if refused:
            return Held(path, None, refused)
        try:
            if not file.is_file():
                return Held(path, None, _missing(path))
            return Held(path, file, _whole_file(path, file, record, self.work.bytes))
        except OSError as error:
            what = f"cannot be read ({error.strerror or error}): look at its rights and the disk"
            return Held(path, None, Problem(path=path, what=what, kind="unreadable"))


@dataclass(frozen=True)
class Remote:
    """A dataset at a URL: each file is fetched once, into `scratch`."""

    store: Store
    scratch: Path
    work: Work

    def names(self) -> set[str] | None:
        """Every file that the place lists; a page without the manifest is no list of them."""
        return self.store.names()

    def refused(self, path: str) -> Problem | None:
        """A path must not lead out of the place."""
        what = "points out of the dataset: edit or build the manifest again"
        out = ".." in path.split("/") or path.startswith("/") or "\\" in path
        return Problem(path=path, what=what, kind="link") if out else None

    def hold(self, path: str, record: FileRecord) -> Held:
        """The file as it was fetched, whatever its length."""
        refused = self.refused(path)
        if refused:
            return Held(path, None, refused)
        number, name = tempfile.mkstemp(dir=self.scratch)
        os.close(number)
        held = Held(path, Path(name), temporary=True)
        try:
            self._fetch(path, Path(name))
        except FileNotFoundError:
            fault = _missing(path)
        except Exception as error:  # each backend has its own kinds
            if isinstance(error, OSError) and error.errno in FULL:
                raise StorageError(
                    f"no space left in {self.scratch.parent}: a few files are fetched at a time, this one "
                    f"of {record.bytes:,} bytes; free some, or set TMPDIR to a larger disk"
                ) from error
            said = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
            what = f"could not be fetched ({said}): look at the network and your access, then verify again"
            fault = Problem(path=path, what=what, kind="unreachable")
        else:
            return Held(
                path, Path(name), _whole_file(path, Path(name), record, lambda _: None), temporary=True
            )
        held.release()
        return Held(path, None, fault)

    def _fetch(self, path: str, file: Path) -> None:
        """Fetch a file; the bytes of a try that fails are taken back."""
        came = 0

        def count(more: int) -> None:
            nonlocal came
            came += more
            self.work.bytes(more)

        try:
            self.store.download(path, file, None, count)
        except BaseException:
            self.work.bytes(-came)
            raise


def _whole_file(path: str, file: Path, record: FileRecord, tell: Callable[[int], None]) -> Problem | None:
    size = file.stat().st_size
    if size != record.bytes:
        what = f"has {size} bytes, the manifest says {record.bytes}: fetch or build it again"
        return Problem(path=path, what=what, kind="size")
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
        tell(len(chunk))
    if digest.hexdigest() != record.sha256:
        what = f"has sha256 {digest.hexdigest()}, the manifest says {record.sha256}: fetch or build it again"
        return Problem(path=path, what=what, kind="hash")
    return None


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _missing(path: str) -> Problem:
    return Problem(path=path, what="is missing: fetch or build the dataset again", kind="missing")


def _hidden(name: str) -> bool:
    """Whether it is of a tool's keeping, such as `.git/` or `.cache/` of a download from the Hub."""
    return any(part.startswith(".") for part in name.split("/"))
