"""How the Hub's client is used: which files go together, how, and what a listing tells of one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import CommitOperationAdd, constants
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from builders.publish.source import Source
from shiftdata.format.manifest import FileRecord

SHA1_DIGITS, SHA256_DIGITS = 40, 64
#: About how much is sent before progress is told again.
BYTES_AT_ONCE = 256 << 20
FILES_AT_ONCE = 100


def tells(entry: RepoFile, source: Source, path: str, record: FileRecord) -> bool | None:
    """Whether the server's hash is that of the file; None where it tells none that is known here."""
    if entry.size != record.bytes:
        return False
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == record.sha256)
    if len(entry.blob_id) == SHA256_DIGITS:
        return bool(entry.blob_id == record.sha256)
    return (
        bool(entry.blob_id == _git_hash(source.folder / path)) if len(entry.blob_id) == SHA1_DIGITS else None
    )


def _git_hash(path: Path) -> str:
    """What git calls a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def groups(source: Source, additions: Sequence[CommitOperationAdd]) -> Iterator[Sequence[CommitOperationAdd]]:
    """Files that are sent together: small ones by the hundred, a large one alone."""
    group: list[CommitOperationAdd] = []
    size = 0
    for addition in additions:
        group.append(addition)
        size += source.files[addition.path_in_repo].bytes
        if size >= BYTES_AT_ONCE or len(group) == FILES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep the client's progress bars from the screen, where ours is."""
    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


@contextmanager
def plain_http() -> Iterator[None]:
    """Send files by plain HTTP: Xet is for the Hub alone, and the client would try it everywhere."""
    before = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = True  # read anew at each upload
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before
