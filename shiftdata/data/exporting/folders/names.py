"""Names of labels, nuisances and sets as names of folders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

#: What some file system refuses, and spaces: lists divide their lines by them.
REFUSED = re.compile(r'[\s<>:"/\\|?*\x00-\x1f\x7f]+')
LONGEST = 200  # bytes of UTF-8; file systems end at 255, and names are joined


def folder_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Name a folder for each name, no two equal even where case does not count; most names stay.

    `taken` are names in use. A name that can stay does, whatever comes before it.

    >>> folder_names(["cat", "cat/dog", "Cat", "..", "cat_dog"])
    ['cat', 'cat_dog-2', 'Cat-2', 'unnamed', 'cat_dog']
    """
    used = {_folded(name) for name in taken}
    plain = [_plain(name) for name in names]
    folders = dict.fromkeys(range(len(names)), "")
    # Names that stay come first: another is changed only where it must be.
    for at in sorted(folders, key=lambda at: plain[at] != names[at]):
        number, folders[at] = 1, plain[at]
        while _folded(folders[at]) in used:
            number += 1
            folders[at] = f"{plain[at]}-{number}"
        used.add(_folded(folders[at]))
    return list(folders.values())


def _plain(name: str) -> str:
    """Replace what is refused, and a first dot or two underscores, which hide a file from `datasets`."""
    text = REFUSED.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    text = re.sub("^[=+@\uff1d\uff0b\uff0d\uff20-]", "_", text)  # a formula, or an option of a command
    text = re.sub("^__+", "_", text)
    cut = text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
    return cut.rstrip(".") or "unnamed"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
