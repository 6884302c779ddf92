"""Rules for the names in a dataset, so that none misleads a page, a path or a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from shiftdata.errors import InputError

#: A part of a path: the names of datasets, bases and canonical splits, and versions.
PATH_PART = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
#: The names of devices on Windows, whatever follows the first dot.
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
#: Cc and Cs: control characters, half surrogates. Zl and Zp end a line. The others turn the order of a line.
REFUSED = ("Cc", "Cs", "Zl", "Zp")
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def line_fault(text: str) -> str | None:
    r"""Return the reason that a text is no line of its own, or None.

    >>> line_fault("Great Tit (♂)")
    >>> line_fault("cat\ndog"), line_fault("")
    ('has a line break or control character (U+000A)', 'is empty')
    """
    if not text.strip():
        return "is empty"
    return text_fault(text, allowed="")


def text_fault(text: str, allowed: str = "\n\t") -> str | None:
    """Return the reason that a text would mislead a page or a terminal, or None."""
    for char in "" if text.isprintable() else text:
        if char not in allowed and (unicodedata.category(char) in REFUSED or char in TURNING):
            return f"has a line break or control character (U+{ord(char):04X})"
    return None


def template_fault(text: str) -> str | None:
    """Return the reason that a text is no prompt template with a place for a class name, or None."""
    if text.count("{}") != 1 or set("{}") & set(text.replace("{}", "")):
        return "does not have exactly one {}, the place of the class name, and no other brace"
    return line_fault(text)


def shown(text: str) -> str:
    r"""Return any text in a form that is safe in a line of a terminal or a log.

    >>> print(shown("a b"), shown("a\x1b[2J"))
    a b 'a\x1b[2J'
    """
    return ascii(text) if line_fault(text) else text


def check_names(kind: str, names: Iterable[str], where: str) -> None:
    """Refuse names that are no line of their own, and those that occur twice."""
    if isinstance(names, str):
        raise InputError(
            f"{where} has the {kind} names {names!r:.100}: give a tuple of names, each with a comma"
        )
    names = list(names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{where} has the {kind} {twice!r:.100} twice: give each name once")
    for name in names:
        if fault := line_fault(name):
            raise InputError(f"the {kind} {name!r:.100} of {where} {fault}: rename it")


def is_path_part(text: str) -> bool:
    """Return True if a name may be a part of a path on every system: letters, digits, `_.+-`, no `..`.

    >>> is_path_part("mini-2.0"), is_path_part("aux"), is_path_part("mini.")
    (True, False, False)
    """
    return bool(PATH_PART.fullmatch(text)) and not DEVICE.fullmatch(text) and not text.endswith(".")


def is_relative_path(path: str) -> bool:
    """Return True if a path stays below its folder, and is the same in a URL and a shell.

    >>> [is_relative_path(path) for path in ("data/a.parquet", "../a", "/a", "a//b", ".git/x", "-x", "c:a")]
    [True, False, False, False, False, False, False]
    """
    return all(map(is_path_part, path.split("/")))
