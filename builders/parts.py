"""Check the parts of a recipe (album, steps, encoding, scorers), and identify each."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any, TypeVar

from builders.own_code import own_code
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError, not_found
from shiftdata.files import sha256_of

#: How the name of a recipe file's module begins, which only `load_recipe` can import.
RECIPE_MODULE = "recipe_"

Part = TypeVar("Part")


def part_identity(part: Any) -> Any:
    """The identity of an album, a step, a shift, an encoding or a scorer (or a tuple of such): code included.

    Next to fields or fingerprint, the name and the `code_version` of its class count, and of a class outside
    this package its code.
    """
    if isinstance(part, tuple | list):
        return [part_identity(entry) for entry in part]
    if part is not None:
        _check_code_version(part)
    return identity_of(part)


def used_file(file: Path) -> UsedFile:
    """Name a file with its hash."""
    return UsedFile(name=file.name, hash=f"sha256:{sha256_of(file)}")


def used_by(part: Any) -> Iterator[UsedFile]:
    """Yield the files that a part, or a part of it, reads: what its method `used_files` names."""
    if isinstance(part, tuple | list):
        for entry in part:
            yield from used_by(entry)
    elif dataclasses.is_dataclass(part):
        yield from part.used_files() if hasattr(part, "used_files") else ()
        yield from used_by([getattr(part, entry.name) for entry in dataclasses.fields(part)])


def check_part(kind: str, part: Any, *needed: str) -> None:
    """Refuse, when a recipe is read, a part that lacks something; nothing of it is run."""
    if isinstance(part, type):
        raise InputError(f"the {kind} of the recipe is the class {part.__name__}: write {part.__name__}(...)")
    if inspect.isroutine(part):
        raise InputError(
            f"the {kind} of the recipe is the function {part.__name__}: write a frozen dataclass with "
            "`code_version: ClassVar[int] = 1` and `def __call__(self, samples)`"
        )
    for name in needed:
        if inspect.getattr_static(part, name, None) is None:
            raise InputError(
                f"class {type(part).__name__} is not a {kind}: it needs `{name}`; docs/own_data.md, "
                "Your own step, shows one"
            )
    _check_code_version(part)


def _check_code_version(part: Any) -> None:
    if type(getattr(type(part), "code_version", None)) is not int:
        name = type(part).__name__
        raise InputError(
            f"class {name} needs `code_version: ClassVar[int] = 1`: raise it when its output changes"
        )


def with_known(record: Part, **known: Any) -> Part:
    """Return a copy of a frozen record, with cached properties that need not be computed again."""
    changed = copy.copy(record)
    changed.__dict__.update(known)
    return changed


def identity_of(value: Any) -> Any:
    """A JSON form of all that a value of a recipe says: records by field, others by their fingerprint.

    A record with a fingerprint is identified by that, and by those of its fields that are parts themselves.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [identity_of(entry) for entry in value]
    if isinstance(value, Mapping):
        return [[str(key), identity_of(entry)] for key, entry in value.items()]
    record = dataclasses.is_dataclass(value)
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)} if record else {}
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
        within = {name: identity_of(entry) for name, entry in fields.items() if _is_coded(entry)}
        fingerprint = value.fingerprint()
        if not isinstance(fingerprint, str):
            raise InputError(
                f"the fingerprint of class {type(value).__name__} is a text, got {fingerprint!r}"
            )
        return {**identity, "fingerprint": fingerprint, "parts": within}
    if record:
        _check_paths(type(value).__name__, fields)
        return {**identity, "fields": {name: identity_of(entry) for name, entry in fields.items()}}
    raise InputError(
        f"a recipe cannot contain {value!r}: use a frozen dataclass, a tuple, text or numbers, or write "
        "`fingerprint`, so that the recipe can be identified by what it says"
    )


def _is_coded(value: Any) -> bool:
    return hasattr(type(value), "code_version") or (isinstance(value, FunctionType) and bool(own_code(value)))


def _versions(kind: type) -> list[tuple[str, int]]:
    """The code versions of the steps of this package that a class is derived from."""
    return [
        (base.__name__, vars(base)["code_version"]) for base in kind.mro() if "code_version" in vars(base)
    ]


def _check_paths(record: str, fields: Mapping[str, Any]) -> None:
    """Refuse a path: it differs from machine to machine, and identifies nothing."""
    for name, value in fields.items():
        values = value if isinstance(value, tuple | list) else [value]
        if any(isinstance(entry, PurePath) for entry in values):
            raise InputError(
                f"the field {name!r} of class {record} is a path, which does not say what the file contains: "
                f"write `def fingerprint(self) -> str` in {record}, of its fields and the file's bytes; "
                "docs/own_data.md, Your own step, shows one"
            )


def check_names_once(kind: str, names: tuple[str, ...]) -> None:
    """Refuse an empty list, and a name that is given twice."""
    if not names or len(set(names)) < len(names):
        raise InputError(f"{kind} need at least one name, each once, got {names}")


def check_chosen(kind: str, names: tuple[str, ...], known: Collection[str]) -> None:
    """Refuse names that are not a choice of those known: a bare text, an unknown name, none, one twice."""
    if isinstance(names, str):
        raise InputError(f"{kind}s are a tuple of names, got the text {names!r}; write names=({names!r},)")
    for name in names:
        if name not in known:
            raise not_found(kind, name, known)
    check_names_once(f"{kind}s", names)
