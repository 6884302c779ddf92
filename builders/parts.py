"""Check the parts of a recipe (album, steps, encoding, scorers), and identify each."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Mapping
from pathlib import PurePath
from types import FunctionType
from typing import Any

from builders.own_code import own_code
from shiftdata.errors import InputError, not_found

#: How the name of a recipe file's module begins, which only `load_recipe` can import.
RECIPE_MODULE = "recipe_"


def part_identity(part: Any) -> Any:
    """The identity of an album, a step, a shift, an encoding or a scorer (or a tuple of such): code included.

    Beside fields or fingerprint, the name and the `code_version` of its class count, and of a class outside
    this package its code.
    """
    if isinstance(part, tuple | list):
        return [part_identity(one) for one in part]
    if part is not None:
        _check_code_version(part)
    return identity_of(part)


#: What a part of your own needs, as its class would write it.
NEEDED = {
    "__call__": "`def __call__`, from samples to samples (of a scorer: from views to a number for each)",
    "nuisances": "`nuisances: tuple[str, ...] = ('red', 'blue')`: every nuisance that it makes",
    "labels": "`labels`: every label, in order",
    "items": "`def items(self)`: a tuple of Items, sorted by key",
    "load": "`def load(self, item)`: the picture, text or features of an item",
    "name": "`name: str = 'sharpness'`, for reports and columns",
    "fingerprint": "`def fingerprint(self)`: a hash of what it would give, such as content_hash(*parts)",
}


def check_part(what: str, part: Any, *needed: str) -> None:
    """Refuse, when a recipe is read, a part that lacks something; nothing of it is run."""
    if isinstance(part, type):
        raise InputError(f"the {what} of the recipe is the class {part.__name__}: write {part.__name__}(...)")
    if inspect.isroutine(part):
        raise InputError(
            f"the {what} of the recipe is the function {part.__name__}: write a frozen dataclass with "
            "`code_version: ClassVar[int] = 1` and `def __call__(self, samples)`"
        )
    for name in needed:
        if inspect.getattr_static(part, name, None) is None:
            raise InputError(
                f"class {type(part).__name__} is not a {what}: it needs {NEEDED.get(name, name)}"
            )
    _check_code_version(part)


def _check_code_version(part: Any) -> None:
    if type(getattr(type(part), "code_version", None)) is not int:
        name = type(part).__name__
        raise InputError(
            f"class {name} needs `code_version: ClassVar[int] = 1`: raise it when its output changes"
        )


def identity_of(value: Any) -> Any:
    """A JSON form of all that a value of a recipe says: records by field, others by their fingerprint.

    A record with a fingerprint is identified by that, and by those of its fields that are parts themselves.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [identity_of(one) for one in value]
    if isinstance(value, Mapping):
        return [[str(key), identity_of(one)] for key, one in value.items()]
    record = dataclasses.is_dataclass(value)
    known = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)} if record else {}
    if isinstance(value, FunctionType) and (code := own_code(value)):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return {"function": code, "with": identity_of([*held, *(value.__defaults__ or ())])}
    identity: dict[str, Any] = {
        "class": type(value).__name__,
        "code_version": getattr(type(value), "code_version", None),
    }
    if code := own_code(type(value)):
        identity |= {"code": code, "bases": _versions(type(value))}
    if hasattr(value, "fingerprint"):
        coded = {name for name, one in known.items() if hasattr(type(one), "code_version")}
        coded |= {name for name, one in known.items() if isinstance(one, FunctionType) and own_code(one)}
        within = {name: identity_of(known[name]) for name in known if name in coded}
        fingerprint = value.fingerprint()
        if not isinstance(fingerprint, str):
            raise InputError(
                f"the fingerprint of class {type(value).__name__} is a text, got {fingerprint!r}"
            )
        return {**identity, "fingerprint": fingerprint, "parts": within}
    if record:
        _check_paths(type(value).__name__, known)
        return {**identity, "fields": {name: identity_of(one) for name, one in known.items()}}
    raise InputError(
        f"a recipe cannot contain {value!r}: use a frozen dataclass, a tuple, text or numbers, or write "
        "`fingerprint`, so that the recipe can be identified by what it says"
    )


def _versions(kind: type) -> list[tuple[str, int]]:
    """The code versions of the steps of this package that a class is derived from."""
    return [
        (base.__name__, vars(base)["code_version"]) for base in kind.mro() if "code_version" in vars(base)
    ]


def _check_paths(record: str, fields: Mapping[str, Any]) -> None:
    """Refuse a path: it differs from machine to machine, and identifies nothing."""
    one = [name for name, value in fields.items() if isinstance(value, PurePath)]
    several = [
        name
        for name, value in fields.items()
        if isinstance(value, tuple | list) and any(isinstance(path, PurePath) for path in value)
    ]
    if not one and not several:
        return
    parts = [f"repr(self.{name})" for name in fields if name not in (*one, *several)]
    parts += [f"self.{name}.read_bytes()" for name in one]
    parts += [f"*(path.read_bytes() for path in self.{name})" for name in several]
    raise InputError(
        f"the field {(one + several)[0]!r} of class {record} is a path, which does not say what the file "
        f"contains; write a fingerprint in {record} that does, such as\n"
        "    def fingerprint(self) -> str:\n"
        f"        return shiftdata.stable.content_hash({', '.join(parts)})"
    )


def check_names_once(what: str, names: tuple[str, ...]) -> None:
    """Refuse an empty list, and a name that is given twice."""
    if not names or len(set(names)) < len(names):
        raise InputError(f"{what} need at least one name, each once, got {names}")


def check_chosen(what: str, names: tuple[str, ...], known: Collection[str]) -> None:
    """Refuse names that are not a choice of those known: a bare text, an unknown name, none, one twice."""
    if isinstance(names, str):
        raise InputError(f"{what}s are a tuple of names, got the text {names!r}; write names=({names!r},)")
    for name in names:
        if name not in known:
            raise not_found(what, name, known)
    check_names_once(f"{what}s", names)
