"""Draft of a new recipe: decided by looking at the data, written as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WIDTH = 88  # of a line, as most formatters have it
INDENT = "    "
MOST_SHOWN = 12  # names in a line for people


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A canonical split that the data may carry. `{}` in its code is replaced by each of `names` in turn.

    `among` is what the recipe calls those names, if it names all of them. `gaps`: whether it is still worth
    having where some groups have no row.
    """

    code: str
    names: Sequence[str] = ()
    among: str = ""
    gaps: bool = True


@dataclass(frozen=True, kw_only=True)
class Shift:
    """The fields of a recipe that depend on what shifts; `per_item`: the shifted examples of one item."""

    family: str
    nuisance: str
    about: str
    code: str
    imports: Sequence[str] = ()
    constants: Sequence[str] = ()
    candidates: Sequence[Candidate] = ()
    per_item: int = 1
    made: bool = True


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The result of looking at the data: code for the recipe, and lines to print.

    `album` is the class, `arguments` what it gets before licence and attribution.
    """

    shift: Shift
    about: str
    album: str
    arguments: Sequence[str]
    encoding: str
    items: int
    labels: int
    imports: Sequence[str] = ()
    constants: Sequence[str] = ()
    prepare: Sequence[str] = ()
    seen: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Missing:
    """The questions for the owner: columns, each with its meaning and an example, or the shift."""

    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    seen: Sequence[str] = ()


def quoted(text: str) -> str:
    """A text as Python code, in the quotes that formatters prefer.

    >>> print(quoted("a"), quoted("Ann's"), quoted('a "b"'))
    "a" "Ann's" 'a "b"'
    """
    code = repr(text)
    return f'"{code[1:-1]}"' if code.startswith("'") and '"' not in code else code


def wrapped(before: str, names: Sequence[str], after: str = "", indent: str = "") -> str:
    """The code of a tuple of names behind `before`: in one line if it fits, else a name a line."""
    line = f"{indent}{before}{tuple_of(names)}{after}"
    if len(line) <= WIDTH:
        return line
    inside = "".join(f"{indent}{INDENT}{quoted(name)},\n" for name in names)
    return f"{indent}{before}(\n{inside}{indent}){after}"


def tuple_of(names: Sequence[str]) -> str:
    """The code of a tuple of names, in one line."""
    return f"({quoted(names[0])},)" if len(names) == 1 else f"({', '.join(map(quoted, names))})"


def few(names: Sequence[str]) -> str:
    """Names for people, not more than can be read."""
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more
