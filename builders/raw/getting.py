"""Download a raw dataset where that may be done, and compare it with its hash; else say what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from builders.albums.folder import ENDINGS
from builders.raw.archives import ARCHIVES, COMPRESSED
from builders.raw.sources import FACTS, RawFile, Source, Way, size_text
from shiftdata.data.fetching.staging import check_space
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.http import Http
from shiftdata.data.places.hubs import hub_endpoint
from shiftdata.data.places.store import OnBytes
from shiftdata.errors import InputError, IntegrityError, MissingExtraError, StorageError
from shiftdata.extras import require
from shiftdata.files import clear_when_full, locked

#: The oldest openml client that works with NumPy 2; those before 0.14.2 get no pictures.
OPENML = (0, 15)
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
) -> bool:
    """Bring a raw dataset into a folder; give whether it is there now.

    What is there already is not downloaded again, and what was cut goes on. Without `accepted`, nothing with
    terms is downloaded.
    """
    way = source.way(how)
    if way.how == "hand":
        for line in by_hand(source, way, folder):
            say(line)
        return False
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
            _from_hub(source, way, folder)
        else:
            _from_openml(source, folder, say)
    return True


def by_hand(source: Source, way: Way, folder: Path) -> Iterator[str]:
    """What to do for data that no program may or can download."""
    yield f"{source.name} has to be downloaded by hand: {source.title}."
    yield f"Licence: {source.license}. {source.terms}".rstrip()
    yield f"Facts of {FACTS}: {way.state}."
    last = f"Run `python -m builders raw check {source.name}`"
    if folder != source.place:
        last += f" --raw {folder}"
    for number, step in enumerate([*way.steps, last], 1):
        yield f"  {number}. {step.replace('{place}', str(folder))}"
    for other in source.ways:
        if other is not way:
            yield (
                f"Or `python -m builders raw get {source.name} --way {other.how} --accept`: {other.state} "
                f"({other.repo or other.how}, {size_text(other.bytes)})"
            )


def is_whole(file: RawFile, path: Path) -> bool:
    """Whether a file has the bytes and the hash that are known of it."""
    if not path.is_file() or (file.bytes is not None and path.stat().st_size != file.bytes):
        return False
    return not file.hash or file_hash(path, file.hash) == file.hash


def file_hash(path: Path, like: str) -> str:
    """The hash of a file, by the algorithm of another one such as `md5:..`."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{found.hexdigest()}"


def _by_http(source: Source, folder: Path, progress: Progress, say: Say) -> None:
    _refuse_other_files(source, folder)
    todo = [file for file in source.files if file.url and not is_whole(file, folder / file.name)]
    for file in source.files:
        if file.url and file not in todo:
            say(f"{file.name} is here already")
    sizes = {file.name: _size(source, file) for file in todo}
    need = sum(sizes.values()) - sum(_begun(folder / file.name, sizes[file.name]) for file in todo)
    unpacked = sum(
        size for name, size in sizes.items() if Path(name).suffix in COMPRESSED
    )  # what a compressed tar holds is kept beside it
    check_space(folder, need + unpacked, SPACE)
    on_bytes = progress(f"get {source.name}", need)
    for file in todo:
        _download(source, file, folder / file.name, sizes[file.name], on_bytes)
        say(f"{file.name}: {sizes[file.name]:,} bytes" + (", its hash is right" if file.hash else ""))


def _refuse_other_files(source: Source, folder: Path) -> None:
    """Do not download beside what may be the same data, unpacked."""
    names = [Path(file.name).parts[0] for file in source.files]  # its folder, where a file is in one
    own = {*names, *(f"{name}.part" for name in names)}
    others = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
    if others and not own & set(others):
        raise InputError(
            f"{folder} has other files ({', '.join(others[:3])}): if they are {source.name}, run `python -m "
            f"builders raw check {source.name}`; if not, give another folder: --raw FOLDER"
        )


def _size(source: Source, file: RawFile) -> int:
    """The size that the server says, which must be the known one."""
    try:
        size = _store(file).info(_name(file)).size
    except StorageError as error:
        raise StorageError(
            f"{file.name} cannot be downloaded from {file.url} ({error}). Facts of {FACTS}: "
            f"{source.ways[0].state}. Try again later, or look at {source.page or 'its page'}; what "
            "came is kept"
        ) from error
    if size is None:
        raise StorageError(f"{file.url} does not say how long it is: download it by hand")
    if file.bytes not in (None, size):
        raise IntegrityError(
            f"{file.url} has {size:,} bytes, and {file.name} should have {file.bytes:,}: it is another file; "
            "nothing was downloaded"
        )
    return size


def _begun(path: Path, size: int) -> int:
    part = _part(path)
    return min(part.stat().st_size, size) if part.is_file() else 0


def _download(source: Source, file: RawFile, path: Path, size: int, on_bytes: OnBytes) -> None:
    """Download one file; what a cut one has goes on, and starts again only where its hash is wrong."""
    part, record = _part(path), FileRecord(bytes=size, sha256="", rows=None)
    begun = _begun(path, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path):
        for fresh in (not begun, True):
            _store(file).download(_name(file), part, record, on_bytes)
            if is_whole(RawFile(name=file.name, bytes=size, hash=file.hash), part):
                part.replace(path)
                return
            found = file_hash(part, file.hash) if file.hash else f"{part.stat().st_size:,} bytes"
            on_bytes(-part.stat().st_size)
            part.unlink()
            if fresh:
                break
    raise IntegrityError(
        f"{file.url} gave a file with {found}, and {file.name} should have {file.hash or f'{size:,} bytes'}: "
        "it was removed. Somebody has changed it, or the network damaged it: try again; if it "
        "happens again, get it from elsewhere"
    )


def _store(file: RawFile) -> Http:
    return Http(file.url.rpartition("/")[0])


def _name(file: RawFile) -> str:
    return file.url.rpartition("/")[2]


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _from_hub(source: Source, way: Way, folder: Path) -> None:
    """A copy on the Hub, by its own client, which goes on where it was cut and compares hashes."""
    from huggingface_hub import HfApi

    hub = HfApi(endpoint=hub_endpoint())
    try:
        # Of a repo that it cannot reach, the client calls an empty folder a snapshot.
        repo = hub.dataset_info(way.repo, files_metadata=True)
        sizes = {one.rfilename: one.size or 0 for one in repo.siblings or ()}
        here = sum(one.stat().st_size for one in map(folder.joinpath, sizes) if one.is_file())
        check_space(folder, max(0, sum(sizes.values()) - here), SPACE)
        hub.snapshot_download(way.repo, repo_type="dataset", revision=repo.sha, local_dir=folder)
    except StorageError:
        raise
    except (OSError, ValueError) as error:
        line = str(error).strip().partition("\n")[0]
        raise StorageError(
            f"{way.repo} cannot be downloaded from the Hub ({type(error).__name__}: {line}): check the "
            "network and run the same command again; what came is kept"
        ) from error
    missing = sorted(name for name in sizes if not (folder / name).is_file())
    if missing:
        raise StorageError(f"{way.repo} came without {', '.join(missing[:3])}: run the same command again")


def _from_openml(source: Source, folder: Path, say: Say) -> None:
    """Every set on OpenML, by its own client, into its own cache below the folder."""
    old = "is too old to download pictures: pip install --upgrade 'shiftdata[raw]'"
    try:
        openml = require("openml", f"getting {source.name}")
    except AttributeError as error:  # it asks NumPy 2 for what NumPy 1 had
        raise MissingExtraError(f"the openml that is installed {old}") from error
    if tuple(int(part) for part in openml.__version__.split(".")[:2]) < OPENML:
        raise MissingExtraError(f"openml {openml.__version__} {old}")
    openml.config.set_root_cache_directory(str(folder))
    for form, number in source.openml.items():
        say(f"{form.replace('_', ' ')}: OpenML {number}")
        place = Path(openml.config.get_cache_directory()) / "datasets" / str(number)
        for archive in place.glob("*.zip"):
            archive.unlink()  # cut while it was unpacked: the client would take it for done, and delete all
        try:
            openml.datasets.get_dataset(number, download_data=True, download_all_files=True)
        except Exception as error:  # it has errors of its own, and those of what it uses
            raise StorageError(
                f"OpenML {number} ({form.replace('_', ' ')}) of {source.name} cannot be downloaded "
                f"({type(error).__name__}: {error}): run the same command again; sets that came are kept"
            ) from error
        if not any(path.name.lower().endswith((*ENDINGS, *ARCHIVES)) for path in place.rglob("*")):
            raise StorageError(
                f"OpenML {number} ({form.replace('_', ' ')}) of {source.name} came without pictures: remove "
                f"{place} and run the same command again. If it comes so again, OpenML has its table alone: "
                f"ask its authors, {source.page}"
            )
