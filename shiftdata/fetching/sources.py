"""Places that give files: a folder, a Hub, or what fsspec reads. Each knows how to go on with a cut file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from shiftdata.errors import ShiftdataError
from shiftdata.fetching.staging import is_right
from shiftdata.format.manifest import FILE_NAME, FileRecord
from shiftdata.places.hubs import HubRepo
from shiftdata.places.search import filesystem, is_url, persistently

#: Called with how many more bytes came; a negative number takes back what has to come again.
Tell: TypeAlias = Callable[[int], object]

#: The bytes of one request, and of one step of the progress bar.
CHUNK = 8 << 20
#: Kinds of URL that need no network.
HERE = ("file", "local", "memory")


class Source(Protocol):
    """A place that holds a dataset."""

    address: str

    def manifest(self) -> bytes:
        """Its `manifest.json`."""

    def get(self, path: str, file: Path, record: FileRecord | None, tell: Tell) -> None:
        """Bring one file to `file`, going on where an earlier try left off.

        `record` is what it must be, where the manifest says it.
        """


def source_of(address: str) -> Source:
    """The source at an address: a folder, `hf://datasets/...`, `hf+https://...`, or a URL for fsspec."""
    kind = address.partition("://")[0].lower()
    if not is_url(address):
        return Folder(Path(address).expanduser())
    if kind in ("file", "local"):
        return Folder(Path(filesystem(address)[1]))
    if kind == "hf" or kind.startswith("hf+"):
        return Hub(HubRepo.parse(address))
    return Remote(address.rstrip("/").removesuffix(f"/{FILE_NAME}"))


def is_far(address: str) -> bool:
    """Whether the network is needed to reach an address."""
    return is_url(address) and address.partition(":")[0].lower() not in HERE


class Folder:
    """A folder on this machine, or on a disk of the network."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root)

    def manifest(self) -> bytes:
        """Read it."""
        return (self.root / FILE_NAME).read_bytes()

    def get(self, path: str, file: Path, record: FileRecord | None, tell: Tell) -> None:
        """Copy it from the start: a disk is quick."""
        _copy(self.root / path, file, tell)


class Remote:
    """A URL that fsspec reads."""

    def __init__(self, url: str) -> None:
        self.address = url

    def manifest(self) -> bytes:
        """Fetch it."""
        return self._small(FILE_NAME)

    def get(self, path: str, file: Path, record: FileRecord | None, tell: Tell) -> None:
        """Fetch what is not there yet, by ranges; from a server that gives none, the whole."""
        if record is None:
            file.write_bytes(self._small(path))
            return
        system, root = filesystem(self.address)
        where = f"{root}/{path}"
        try:
            self._by_ranges(system, where, file, record.bytes, tell)
        except ValueError as error:
            if isinstance(error, ShiftdataError):
                raise
            tell(-_size_of(file))
            file.unlink(missing_ok=True)
            persistently(lambda: system.get_file(where, str(file)))
            tell(_size_of(file))

    def _small(self, path: str) -> bytes:
        system, root = filesystem(self.address)
        data: bytes = persistently(lambda: system.cat_file(f"{root}/{path}"))
        return data

    def _by_ranges(self, system: Any, where: str, file: Path, size: int, tell: Tell) -> None:
        # Told the size, fsspec asks an http server once less; other systems ask for it anyway.
        known = {"size": size} if self.address.startswith(("http://", "https://")) else {}
        with (
            file.open("ab") as target,
            persistently(partial(system.open, where, "rb", cache_type="none", **known)) as source,
        ):
            if target.tell() > size:  # of another version
                tell(-target.tell())
                target.truncate(0)
            while (start := target.tell()) < size:
                data = persistently(partial(_range, source, start, min(start + CHUNK, size)))
                target.write(data)
                target.flush()
                tell(len(data))


class Hub(Remote):
    """A repo on a Hub, through `huggingface_hub`: with its tokens, and its cache where that has a file.

    Ranges are asked for by its file system, and not by its downloads, which begin anew after a kill.
    """

    def __init__(self, repo: HubRepo) -> None:
        super().__init__(repo.address)
        self.repo = repo

    def get(self, path: str, file: Path, record: FileRecord | None, tell: Tell) -> None:
        """Take it from the cache if it is there and right, else fetch what is not there yet."""
        cached = self._cached(path)
        if record is not None and cached is not None and is_right(cached, record):
            _copy(cached, file, tell)
        else:
            super().get(path, file, record, tell)

    def _small(self, path: str) -> bytes:
        """Fetch it into the cache."""
        return self._download(path).read_bytes()

    def _cached(self, path: str) -> Path | None:
        try:
            return self._download(path, local_files_only=True)
        except Exception:  # not there, or a cache that cannot be read
            return None

    def _download(self, path: str, **options: Any) -> Path:
        from huggingface_hub import hf_hub_download

        file = hf_hub_download(
            self.repo.repo_id,
            path,
            repo_type="dataset",
            revision=self.repo.revision,
            endpoint=self.repo.endpoint,
            **options,
        )
        return Path(file)


def _range(source: IO[bytes], start: int, end: int) -> bytes:
    """A byte range of an open file, whole."""
    source.seek(start)
    data = source.read(end - start)
    if len(data) != end - start:
        raise OSError(f"{len(data)} bytes came for {end - start}: the file is cut or of another version")
    return data


def _copy(source: Path, file: Path, tell: Tell) -> None:
    with source.open("rb") as opened:
        tell(-_size_of(file))
        with file.open("wb") as target:
            while chunk := opened.read(CHUNK):
                target.write(chunk)
                tell(len(chunk))


def _size_of(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0
