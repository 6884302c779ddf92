"""Versions of the tiny dataset, and runs that are killed."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from builders.describe.renderings import describe
from shiftdata.data.format.addresses import absolute, is_listed
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import CROISSANT
from shiftdata.data.format.records import FileRecord
from shiftdata.errors import IntegrityError

#: A file of the dataset that is small, and whose bytes no reader but a browser looks at.
PICTURE = "preview.jpg"
SHARD = "data/extended/train-00000-of-00001.parquet"


def edited(folder: Path, into: Path, *, write: Mapping[str, bytes] = {}, leave_out: str = "") -> Path:
    """A later version of a dataset, which `check` passes: some files that differ, one that is no more."""
    shutil.copytree(folder, into)
    manifest = Manifest.read(into)
    files = {path: record for path, record in manifest.files.items() if path != leave_out}
    if leave_out:
        (into / leave_out).unlink()
    for path, data in write.items():
        (into / path).write_bytes(data)
        files[path] = FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=None)
    describe(into, replace(manifest, files=files))
    return into


def contents(folder: Path, web: str | None = None) -> dict[str, bytes]:
    """Every file of a folder, by its path in it; for a place on the web with its addresses."""
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_of(folder)}
    if web is not None:
        found[CROISSANT] = absolute(found[CROISSANT], web)
    return found


def rot(path: Path) -> None:
    """Change one byte of a file, as a disk does it: its size and its time stay."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def manifest_is_true(held: Mapping[str, bytes]) -> bool:
    """Whether a place that holds these files has no manifest, or one that says what is there."""
    if FILE_NAME not in held:
        return True
    try:
        listed = Manifest.from_json(held[FILE_NAME].decode()).files
    except IntegrityError:  # nobody believes it
        return True
    return all(path in held and is_listed(path, held[path], record) for path, record in listed.items())


def run_killed(code: str, *arguments: str, cwd: Path, env: Mapping[str, str] = {}) -> None:
    """Run `shiftdata publish` with a change that kills it, and see that it was killed."""
    start = "import os, signal, sys\nfrom builders.__main__ import main\n"
    end = "\nraise SystemExit(main(['publish', *sys.argv[1:], '--quiet']))"
    done = subprocess.run(
        [sys.executable, "-c", start + code + end, *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
