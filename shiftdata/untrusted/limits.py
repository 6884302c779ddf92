"""The table of limits on what strangers send, and how whoever trusts a place raises them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, NoReturn

from shiftdata.errors import InputError, LimitError, not_found

VARIABLE = "SHIFTDATA_LIMITS"


class Limit(NamedTuple):
    """The most that is read of something, and why not more."""

    default: int
    unit: str
    reason: str


LIMITS: Mapping[str, Limit] = {
    "parquet_bytes": Limit(256 << 20, "bytes", "a table of any size may unpack to it: a KB can declare a TB"),
    "parquet_ratio": Limit(100, "bytes a byte", "larger tables may unpack to this many times their size"),
    "parquet_rows": Limit(200_000_000, "rows", "a row of repeated values takes no bytes in a file"),
    "parquet_columns": Limit(30_000, "columns", "each has its own objects in memory, for every row group"),
    "parquet_footer": Limit(16 << 20, "bytes", "a footer unpacks to some thirty times its size"),
    "picture_bytes": Limit(256 << 20, "bytes", "a picture is in memory as a whole before it is decoded"),
    "picture_pixels": Limit(64_000_000, "pixels", "more than cameras have; 4 bytes each, and each copy"),
    "picture_budget": Limit(80_000_000, "pixels", "of all pictures that the process decodes at a time"),
    "json_bytes": Limit(32 << 20, "bytes", "`{},` takes 24 times its size in memory"),
    "json_depth": Limit(100, "levels", "parsers and writers recurse"),
    "json_digits": Limit(400, "digits", "the time to read a number grows with the square of its digits"),
    "raw_json_bytes": Limit(1 << 30, "bytes", "annotations of a raw dataset that its user downloaded"),
    "toml_bytes": Limit(1 << 20, "bytes", "settings are written by hand"),
    "toml_depth": Limit(50, "levels", "tomllib's memory grows with the square of them"),
    "csv_bytes": Limit(4 << 30, "bytes", "a table is in memory as a whole"),
    "csv_field": Limit(16 << 20, "bytes", "a quote that is never closed takes all that follows for a cell"),
    "csv_rows": Limit(30_000_000, "rows", "a row takes far more in memory than its line"),
    "csv_records": Limit(3_000_000, "rows", "each is an object of some 300 bytes where rows have names"),
    "csv_columns": Limit(30_000, "columns", "each has its own objects in memory"),
    "archive_bytes": Limit(64 << 20, "bytes", "packed data of any size may unpack to it"),
    "archive_ratio": Limit(100, "bytes a byte", "texts shrink to a tenth, zeros to a thousandth"),
    "archive_members": Limit(2_000_000, "members", "ImageNet in a zip has 1.9 million"),
    "archive_header": Limit(1 << 20, "bytes", "names and attributes of a member of a tar"),
}  # fmt: skip

#: Limits that were asked for, as they are now: each row's JSON asks.
_now: dict[str, int] = {}


def most(name: str) -> int:
    """Return a limit as it is now."""
    return _now.get(name) or _now.setdefault(name, _stated(name))


def _stated(name: str) -> int:
    return _from_environment(os.environ.get(VARIABLE, "")).get(name, LIMITS[name].default)


@contextmanager
def raised(**limits: int) -> Iterator[None]:
    """Set limits for all threads of this process, for data from a place that you trust.

    Other processes, such as workers, take theirs from the variable SHIFTDATA_LIMITS.

    >>> with raised(parquet_bytes=8 << 30):
    ...     most("parquet_bytes")
    8589934592
    """
    before = {name: most(name) for name in limits if _checked(name, limits[name])}
    _now.update(limits)
    try:
        yield
    finally:
        _now.update(before)


def check(name: str, found: float, file: str, text: str = "") -> None:
    """Refuse a file of which more than a limit was found; `text` says what, `has N <unit>` if it is empty."""
    if found > most(name):
        refuse(name, found, file, text or f"has {found:,} {LIMITS[name].unit}")


def check_unpacked(kind: str, unpacked: int, size: int, file: str, text: str = "") -> None:
    """Refuse `size` bytes that unpack to more than `<kind>_bytes` and than `<kind>_ratio` times `size`."""
    name, allowed = f"{kind}_bytes", max(most(f"{kind}_bytes"), most(f"{kind}_ratio") * size)
    if unpacked > allowed:
        refuse(name, unpacked, file, text or f"would unpack {size:,} bytes to {unpacked:,} or more", allowed)


def refuse(name: str, found: float, file: str, text: str, allowed: int | None = None) -> NoReturn:
    """Raise the error that names file, finding, limit and remedy."""
    limit = f"at most {most(name) if allowed is None else allowed:,} {LIMITS[name].unit} are read"
    remedy = f'if you trust its origin, set {VARIABLE}="{name}={int(found)}"'
    raise LimitError(f"{file} {text}: {limit} ({LIMITS[name].reason}); {remedy}", name, int(found))


def _checked(name: str, value: float) -> int:
    if name not in LIMITS:
        raise not_found("limit", name, LIMITS)
    if not 1 <= value < 2**62:
        raise InputError(f"the limit {name} is {value}: give a number from 1 on")
    return int(value)


@cache
def _from_environment(text: str) -> Mapping[str, int]:
    limits = {}
    for setting in filter(None, text.replace(" ", "").split(",")):
        name, _, value = setting.partition("=")
        try:
            limits[name] = _checked(name, float(value))
        except InputError as error:
            raise type(error)(f"{VARIABLE}: {error}") from None
        except ValueError:
            raise InputError(
                f"{VARIABLE} has {setting!r}: give names and numbers, such as "
                "parquet_bytes=8e9,picture_pixels=4e8"
            ) from None
    return limits
