"""Download a raw dataset where that may be done, and compare it with its hash; else say what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from builders.albums.folder import ENDINGS
from builders.raw.archives import ARCHIVES, COMPRESSED
from builders.raw.sources import FACTS, RawFile, Source, Way
from shiftdata.data.fetching.staging import check_space
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.http import Http
from shiftdata.data.places.hubs import hub_endpoint
from shiftdata.data.places.store import OnBytes
from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.extras import require
from shiftdata.files import clear_when_full, locked

LOCK = ".get.lock"
SPACE = "free some, or give a folder on another disk: --raw FOLDER"

Say = Callable[[str], object]
#: Begins to show how far something is, of a title and a total; gives what is called with each step.
Progress = Callable[[str, int], Callable[[int], object]]


def no_progress(title: str, total: int) -> Callable[[int], object]:
    """Show nothing."""
    return lambda count: None


def get(
    source: Source,
    folder: Path,
    *,
    how: str | None = None,
    accepted: bool = False,
    progress: Progress = no_progress,
    say: Say = print,
) -> None:
    """Bring a raw dataset into a folder, by a way that is not by hand.

    What is there already is not downloaded again, and what was cut goes on. Without `accepted`, nothing with
    terms is downloaded.
    """
    way = source.way(how)
    if source.terms and not accepted:
        raise InputError(
            f"{source.name} has terms: {source.terms} Licence: {source.license}. If you accept them, run the "
            "same command with --accept"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, f"another get is writing to {folder}: wait for it"):
        if way.how == "http":
            _by_http(source, folder, progress, say)
        elif way.how == "hub":
            _from_hub(way, folder, say)
        else:
            _from_openml(source, folder, say)


def fault(file: RawFile, path: Path, *, hashed: bool) -> str:
    """Say what is wrong with a file by the bytes and, if `hashed`, by the hash that are known of it."""
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        why = "half a download" if size < file.bytes else "another file, or another version"
        return f"has {size:,} bytes, and should have {file.bytes:,}: {why}"
    if hashed and file.hash:
        algorithm = file.hash.partition(":")[0]
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
        if (known := f"{algorithm}:{digest.hexdigest()}") != file.hash:
            return f"has {known}, and should have {file.hash}: another version, or damaged"
    return ""


def _by_http(source: Source, folder: Path, progress: Progress, say: Say) -> None:
    own = {Path(file.name).parts[0] for file in source.files}  # its folder, where a file is in one
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if others and not any(name.removesuffix(".part") in own for name in others):
        raise InputError(  # it may be the same data, unpacked
            f"{folder} has other files ({', '.join(others[:3])}): if they are {source.name}, run `python -m "
            f"builders raw check {source.name}`; if not, give another folder: --raw FOLDER"
        )
    sizes: dict[RawFile, int] = {}
    for file in source.files:
        path = folder / file.name
        if file.url and path.is_file() and not fault(file, path, hashed=True):
            say(f"{file.name} is here already")
        elif file.url:
            sizes[file] = _size(source, file)
    begun = [part for file in sizes if (part := _part(folder / file.name)).is_file()]
    need = sum(sizes.values()) - sum(part.stat().st_size for part in begun)
    unpacked = sum(size for file, size in sizes.items() if file.name.endswith(COMPRESSED))
    check_space(folder, need + unpacked, SPACE)
    on_bytes = progress(f"get {source.name}", need)
    for file, size in sizes.items():
        with clear_when_full(folder / file.name):
            _download(replace(file, bytes=size), folder / file.name, on_bytes)
        say(f"{file.name}: {size:,} bytes" + (", its hash is right" if file.hash else ""))


def _at(file: RawFile) -> tuple[Http, str]:
    """The server of a file, and its name there."""
    folder, _, name = file.url.rpartition("/")
    return Http(folder), name


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _size(source: Source, file: RawFile) -> int:
    """Return the size that the server says, which must be the known one."""
    store, name = _at(file)
    try:
        size = store.info(name).size
    except StorageError as error:
        raise StorageError(
            f"{file.name} cannot be downloaded from {file.url} ({error}). Facts of {FACTS}: "
            f"{source.ways[0].state}. Try again later, or look at {source.page or 'its page'}; what "
            "came is kept"
        ) from error
    if size is None or file.bytes not in (None, size):
        raise IntegrityError(
            f"{file.url} says that it has {size} bytes, and {file.name} should have {file.bytes}: it may be "
            "another file. Nothing was downloaded: do it by hand"
        )
    return size


def _download(file: RawFile, path: Path, on_bytes: OnBytes) -> None:
    """Download a file; one that was cut goes on, and one that came wrong is removed."""
    store, name = _at(file)
    part = _part(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    store.download(name, part, FileRecord(bytes=file.bytes or 0, sha256="", rows=None), on_bytes)
    if wrong := fault(file, part, hashed=True):
        part.unlink()
        raise IntegrityError(
            f"{file.url} gave a file that {wrong}. It was removed: run the same command again; if it "
            "happens again, get it from elsewhere"
        )
    part.replace(path)


def _from_hub(way: Way, folder: Path, say: Say) -> None:
    """Download a copy on the Hub by its own client, which goes on where it was cut and compares hashes."""
    from huggingface_hub import HfApi

    hub = HfApi(endpoint=hub_endpoint())
    try:
        # Of a repo that it cannot reach, the client calls an empty folder a snapshot: ask for it first.
        repo = hub.dataset_info(way.repo)
        say(f"{way.repo} at {repo.sha}")
        hub.snapshot_download(way.repo, repo_type="dataset", revision=repo.sha, local_dir=folder)
    except (OSError, ValueError) as error:
        line = str(error).strip().partition("\n")[0]
        raise StorageError(
            f"{way.repo} cannot be downloaded from the Hub ({type(error).__name__}: {line}): check the "
            "network and run the same command again; what came is kept"
        ) from error


def _from_openml(source: Source, folder: Path, say: Say) -> None:
    """Every set on OpenML, by its own client, into its own cache below the folder."""
    openml = require("openml", f"getting {source.name}")
    openml.config.set_root_cache_directory(str(folder))
    for form, number in source.openml.items():
        title = f"OpenML {number} ({form.replace('_', ' ')}) of {source.name}"
        say(title)
        place = Path(openml.config.get_cache_directory()) / "datasets" / str(number)
        for archive in place.glob("*.zip"):
            archive.unlink()  # cut while it was unpacked: the client would take it for done, and delete all
        try:
            openml.datasets.get_dataset(number, download_data=True, download_all_files=True)
        except Exception as error:  # it has errors of its own, and those of what it uses
            raise StorageError(
                f"{title} cannot be downloaded ({type(error).__name__}: {error}): run the same command "
                "again; sets that came are kept"
            ) from error
        if not any(path.name.lower().endswith((*ENDINGS, *ARCHIVES)) for path in place.rglob("*")):
            raise StorageError(
                f"{title} came without pictures: remove {place} and run the same command again, with "
                "openml 0.15 or newer. If it comes so again, OpenML has its table alone: ask its authors, "
                f"{source.page}"
            )
