"""One file in several places: a hard link, else a symbolic one, else a copy."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

Link: TypeAlias = Literal["hard links", "symbolic links", "copies"]

#: Errors of a hard link that is not possible here: another device, no links, too many of one file.
IMPOSSIBLE = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)


def link(source: Path, target: Path, *, within: Path) -> Link:
    """Make `source` appear at `target` too; a symbolic link inside `within` survives its move."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in IMPOSSIBLE:
            raise
    else:
        return "hard links"
    inside = source.is_relative_to(within)
    with suppress(OSError):
        target.symlink_to(os.path.relpath(source, target.parent) if inside else source.resolve())
        return "symbolic links"
    shutil.copyfile(source, target)
    return "copies"


class Pool:
    """A folder that keeps each image once, under the hash of its bytes; exports link to it.

    Its files are read-only: an edit of one would change every export that has it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: bytes) -> Path:
        """Where an image is kept."""
        name = sha256.hex()
        return self.folder / name[:2] / name

    def put(self, sha256: bytes, data: bytes) -> None:
        """Keep an image; several processes may keep the same one at once."""
        path = self.path(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(data)
            temporary.chmod(0o444)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
