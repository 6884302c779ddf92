"""Read npm packages for the scripts that rebuild what ships: fetched, checked, and never unpacked."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)


def opened(package: str, version: str, integrity: str, folder: Path | None = None) -> tarfile.TarFile:
    """A package in memory, from the tarball in `folder` or by `npm pack`; it must have its pinned sha512."""
    name = f"{package.lstrip('@').replace('/', '-')}-{version}.tgz"
    data = (folder / name).read_bytes() if folder else _fetched(f"{package}@{version}")
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        sys.exit(f"{name}: integrity is {found}, pinned is {integrity}.")
    return tarfile.open(fileobj=io.BytesIO(data))


def _fetched(package: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (tarball,) = Path(folder).iterdir()
        return tarball.read_bytes()


def member(tar: tarfile.TarFile, name: str) -> bytes:
    """The bytes of one regular file of a package."""
    handle = tar.extractfile(name) if name in tar.getnames() else None
    if handle is None:
        sys.exit(f"{name} is not a file in the package.")
    return handle.read()


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip that depends on its members only: sorted, one date, one mode; WebP stored, others deflated."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, 0o100644 << 16
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".webp") else zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name], compresslevel=9)
    return buffer.getvalue()


def differences(path: Path, files: Mapping[str, bytes]) -> list[str]:
    """The members that a shipped zip lacks, has too much, or has with other bytes."""
    if not path.exists():
        return [f"{path.name} is missing"]
    with zipfile.ZipFile(path) as archive:
        shipped = {name: archive.read(name) for name in archive.namelist()}
    names = sorted(set(shipped) | set(files))
    return [f"{path.name}: {name}" for name in names if shipped.get(name) != files.get(name)]
