"""Names of labels, domains and sets as names of folders, on any file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

#: What some file system refuses, and spaces: lists divide their lines by them.
REFUSED = re.compile(r'[\s<>:"/\\|?*\x00-\x1f\x7f]+')
LONGEST = 200  # bytes of UTF-8; file systems end at 255, and names are joined


def folder_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """A folder's name for each name, no two alike even where case does not count; most stay as they are.

    `taken` are names in use. A name that can stay does, whatever the others are.

    >>> folder_names(["cat", "cat/dog", "Cat", "..", "cat_dog"])
    ['cat', 'cat_dog-2', 'Cat-2', 'unnamed', 'cat_dog']
    """
    used = {_alike(name) for name in taken}
    found: dict[int, str] = {}
    plain = [_plain(name) for name in names]
    # Those that stay come first; a name is changed only where it must be.
    for number in sorted(range(len(names)), key=lambda one: plain[one] != names[one]):
        found[number] = _free(plain[number], used)
        used.add(_alike(found[number]))
    return [found[number] for number in range(len(names))]


def _plain(name: str) -> str:
    """A name without what is refused; what begins with a dot or two underscores is hidden from `datasets`."""
    text = REFUSED.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    text = re.sub("^__+", "_", text)
    cut = text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
    return cut.rstrip(".") or "unnamed"


def _free(name: str, used: set[str]) -> str:
    number, free = 1, name
    while _alike(free) in used:
        number += 1
        free = f"{name}-{number}"
    return free


def _alike(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
