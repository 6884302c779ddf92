"""Names that a dataset gives, and what they may contain: one must not mislead a page, path or terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from shiftdata.errors import InputError

#: What may stand in a path: the names of datasets, bases and canonical splits, and versions.
PATH_PART = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
#: What Windows takes for a device, whatever follows the first dot.
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
#: Cc and Cs: control characters, half surrogates. Zl and Zp end a line. The others turn the order of a line.
REFUSED = ("Cc", "Cs", "Zl", "Zp")
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def line_fault(text: str) -> str | None:
    r"""Why a text cannot stand in one line everywhere, or None.

    >>> line_fault("Great Tit (♂)")
    >>> line_fault("cat\ndog"), line_fault("")
    ('has a line break or control character (U+000A)', 'is empty')
    """
    if not text.strip():
        return "is empty"
    return text_fault(text, allowed="")


def text_fault(text: str, allowed: str = "\n\t") -> str | None:
    """Why a text would mislead a page or a terminal, or None: a control character that is not `allowed`."""
    for one in "" if text.isprintable() else text:
        if one not in allowed and (unicodedata.category(one) in REFUSED or one in TURNING):
            return f"has a line break or control character (U+{ord(one):04X})"
    return None


def shown(text: str) -> str:
    r"""A text from anywhere as it may stand in a line of a terminal or a log.

    >>> print(shown("a b"), shown("a\x1b[2J"))
    a b 'a\x1b[2J'
    """
    return ascii(text) if line_fault(text) else text


def check_names(what: str, names: Iterable[str], where: str) -> None:
    """Refuse names that cannot stand in one line, and those that come twice."""
    if isinstance(names, str):
        raise InputError(
            f"{where} has the {what} names {names!r:.100}: give a tuple of names, each with a comma"
        )
    names = list(names)
    if len(set(names)) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise InputError(f"{where} has the {what} {twice!r:.100} twice: give each name once")
    for name in names:
        if fault := line_fault(name):
            raise InputError(f"the {what} {name!r:.100} of {where} {fault}: rename it")


def is_path_part(text: str) -> bool:
    """Whether a name may be a part of a path on every system: letters, digits, `_`, `.`, `+`, `-`, no `..`.

    >>> is_path_part("mini-2.0"), is_path_part("aux"), is_path_part("mini.")
    (True, False, False)
    """
    return bool(PATH_PART.fullmatch(text)) and not DEVICE.fullmatch(text) and not text.endswith(".")


def is_relative_path(path: str) -> bool:
    """Whether a path stays below the folder it is relative to, and is the same in a URL and a shell.

    >>> [is_relative_path(path) for path in ("data/a.parquet", "../a", "/a", "a//b", ".git/x", "-x", "c:a")]
    [True, False, False, False, False, False, False]
    """
    return all(map(is_path_part, path.split("/")))
