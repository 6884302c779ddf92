"""The activities by which a recipe makes its examples, in order, and if a program drew any of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from builders.parts import part_identity, used_by
from builders.recipe import Recipe
from shiftdata.data.format.names import line_fault
from shiftdata.data.format.records import Activity, Provenance
from shiftdata.stable import content_hash

LONGEST = 60


def provenance_of(recipe: Recipe) -> Provenance:
    """Return what a recipe says of the making of its examples.

    A shift changes examples unless its class says `synthetic = False`, as `Domains` does, which passes them
    on; content was recorded or written by people unless its album says `synthetic = True`.
    """
    synthetic = getattr(recipe.album, "synthetic", False) or getattr(recipe.shift, "synthetic", True)
    return Provenance(synthetic=bool(synthetic), activities=list(_activities(recipe)))


def _activities(recipe: Recipe) -> Iterator[Activity]:
    yield _activity("collection", recipe.album)
    for step in recipe.prepare:
        yield _activity("preprocessing", step)
    yield _activity("shift", recipe.shift)
    if recipe.filters is not None:
        yield _activity("filtering", recipe.filters)
    yield _activity("encoding", recipe.encoding)


def _activity(name: str, part: Any) -> Activity:
    return Activity(
        name=name,
        how=_words(part),
        code_version=type(part).code_version,
        parameters=content_hash(json.dumps(part_identity(part), sort_keys=True)),
        used=list(dict.fromkeys(used_by(part))),
    )


def _words(part: Any) -> str:
    """The class of a part and its plain fields; never a path, which differs from machine to machine."""
    known = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    fields = {one.name: getattr(part, one.name) for one in known}
    plain = [f"{name}={value!r}" for name, value in fields.items() if _is_plain(value)]
    return f"{type(part).__name__}({', '.join(plain)})"


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST and not set(value) & set("/\\") and not line_fault(value)
    return isinstance(value, bool | int | float)
