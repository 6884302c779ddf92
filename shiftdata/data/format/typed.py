"""Records from JSON of anybody: each value has the type that its field declares."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

LARGEST = 2**63
DEEPEST = 20


def record(cls: type[T], raw: Any, where: str = "") -> T:
    """Make a dataclass from a JSON object; a `ValueError` names the first field of another type."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"{where or 'it'} must be an object, not {_shown(raw)}")
    kind: Any = cls
    hints = _hints(kind)
    inside = f"{where}." if where else ""
    if unknown := sorted(set(raw) - set(hints)):
        raise ValueError(f"{inside}{_shown(unknown[0])} is an unknown field; fields are {', '.join(hints)}")
    if missing := sorted(set(hints) - set(raw)):
        raise ValueError(f"{inside}{missing[0]} is missing")
    return cls(**{name: _value(hints[name], value, inside + name) for name, value in raw.items()})


def _value(hint: Any, raw: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _plain(raw, where)
    if is_dataclass(hint):
        return record(hint, raw, where)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return _one_of(inner, raw, where)
    if origin is Literal and raw in inner and isinstance(raw, str):
        return raw
    if origin is Mapping and isinstance(raw, dict):
        return {_text(key, where): _value(inner[1], raw[key], f"{where}.{key:.60}") for key in raw}
    if origin in (Sequence, list, tuple) and isinstance(raw, list):
        return _items(origin, inner, raw, where)
    if hint is float and type(raw) is int and abs(raw) < LARGEST:
        return raw
    if type(raw) is hint:
        return _plain(raw, where)
    wanted = " or ".join(map(repr, inner)) if origin is Literal else getattr(hint, "__name__", str(hint))
    raise ValueError(f"{where} is {_shown(raw)}, not a {wanted}")


def _items(origin: Any, inner: Sequence[Any], raw: Sequence[Any], where: str) -> Any:
    fixed = origin is tuple and inner[-1] is not ...
    hints = inner if fixed else [inner[0]] * len(raw)
    if len(hints) != len(raw):
        raise ValueError(f"{where} is a list of {len(raw)}, not a tuple of {len(hints)}")
    values = [_value(hint, entry, where) for hint, entry in zip(hints, raw, strict=True)]
    return tuple(values) if origin is tuple else values


def _one_of(hints: Sequence[Any], raw: Any, where: str) -> Any:
    if raw is None and types.NoneType in hints:
        return None
    *others, last = (hint for hint in hints if hint is not types.NoneType)
    for hint in others:
        with suppress(ValueError):
            return _value(hint, raw, where)
    return _value(last, raw, where)


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


@lru_cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)
