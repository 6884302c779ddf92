"""Records from JSON of anybody: each value has the type that its field declares."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, lru_cache, partial
from itertools import repeat
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
#: Called with a JSON value and the name of its field.
Reader: TypeAlias = Callable[[Any, str], Any]

LARGEST = 2**63
DEEPEST = 20


def record(cls: type[T], raw: Any, where: str = "") -> T:
    """Make a dataclass from a JSON object; a `ValueError` names the first field of another type."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"{where or 'it'} must be an object, not {_shown(raw)}")
    readers, inside = _readers(cls), f"{where}." if where else ""  # type: ignore[arg-type]
    if unknown := sorted(raw.keys() - readers.keys()):
        raise ValueError(f"{inside}{_shown(unknown[0])} is an unknown field; fields are {', '.join(readers)}")
    if missing := sorted(readers.keys() - raw.keys()):
        raise ValueError(f"{inside}{missing[0]} is missing")
    return cls(**{name: readers[name](value, inside + name) for name, value in raw.items()})


@lru_cache
def _readers(cls: Any) -> dict[str, Reader]:
    return {name: _reader(hint) for name, hint in get_type_hints(cls).items()}


@cache
def _reader(hint: Any) -> Reader:
    """Return the function that reads a value of a type: types are looked at once, values are many."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _plain
    if is_dataclass(hint):
        return partial(record, hint)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        nothing_first = sorted(inner, key=lambda kind: kind is not types.NoneType)
        return partial(_one_of, [*map(_reader, nothing_first)])
    if origin is Mapping:
        return partial(_mapping, _reader(inner[1]))
    if origin in (Sequence, list, tuple):
        fixed = origin is tuple and inner[-1] is not ...
        return partial(_items, origin, [*map(_reader, inner if fixed else inner[:1])], fixed)
    return partial(_scalar, hint, inner if origin is Literal else ())


def _mapping(reader: Reader, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is {_shown(raw)}, not a Mapping")
    return {_text(key, where): reader(value, f"{where}.{key:.60}") for key, value in raw.items()}


def _items(origin: Any, readers: Sequence[Reader], fixed: bool, raw: Any, where: str) -> Any:
    if not isinstance(raw, list):
        raise ValueError(f"{where} is {_shown(raw)}, not a {origin.__name__}")
    if fixed and len(readers) != len(raw):
        raise ValueError(f"{where} is a list of {len(raw)}, not a tuple of {len(readers)}")
    pairs = zip(readers if fixed else repeat(readers[0]), raw, strict=False)
    values = [reader(entry, where) for reader, entry in pairs]
    return tuple(values) if origin is tuple else values


def _one_of(readers: Sequence[Reader], raw: Any, where: str) -> Any:
    for reader in readers[:-1]:
        with suppress(ValueError):
            return reader(raw, where)
    return readers[-1](raw, where)


def _scalar(hint: Any, words: Sequence[Any], raw: Any, where: str) -> Any:
    if type(raw) is str is hint:
        return _text(raw, where)
    fits = type(raw) is hint or (hint is float and type(raw) is int)
    if (isinstance(raw, str) and raw in words) if words else fits:
        return _plain(raw, where)
    wanted = " or ".join(map(repr, words)) or getattr(hint, "__name__", str(hint))
    raise ValueError(f"{where} is {_shown(raw)}, not a {wanted}")


def _plain(raw: Any, where: str, depth: int = 0) -> Any:
    """Return a JSON value whose numbers are finite and whose texts are Unicode."""
    if depth > DEEPEST:
        raise ValueError(f"{where} is nested more than {DEEPEST} deep")
    if isinstance(raw, str):
        return _text(raw, where)
    if isinstance(raw, float) and not math.isfinite(raw):
        raise ValueError(f"{where} is not a finite number")
    if type(raw) is int and abs(raw) >= LARGEST:
        raise ValueError(f"{where} is a number of more than 63 bits")
    for entry in [*raw, *raw.values()] if isinstance(raw, dict) else raw if isinstance(raw, list) else ():
        _plain(entry, where, depth + 1)
    return raw


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} has half a surrogate pair: {text[:60]!a}") from None
    return text


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return ascii(value[:60] if isinstance(value, str) else value)[:60]
