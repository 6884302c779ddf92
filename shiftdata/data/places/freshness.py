"""Signed catalogs: that one is by a pinned key, no older than one that was seen, and not beyond its end.

What was signed with the catalog is one line, the comment of its signature: its name, version and last day.
A client remembers in its cache folder which version it saw at each address, and which key followed another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path

from shiftdata.data.places.search import store_at
from shiftdata.data.places.signatures import (
    MOST_BYTES,
    SUFFIX,
    Keys,
    PublicKey,
    SecretKey,
    check_signature,
    read_keys,
    signer_of,
)
from shiftdata.data.places.store import MissingFileError, is_url
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import absolute, cache_folder, locked, write_bytes, write_text

COMMENT = re.compile(
    r"shiftdata catalog (?P<name>[\w.-]+), version (?P<version>[1-9]\d{0,14}), "
    r"expires (?P<expires>\d{4}-\d\d-\d\d)",
    re.ASCII,
)
NEXT_KEY = "shiftdata key"
#: How often a key may have been replaced since it was pinned.
MOST_KEYS = 20


@dataclass(frozen=True)
class Statement:
    """A publisher's words on a catalog: its name, a version that rises, and the last day it may be used."""

    name: str
    version: int
    expires: date

    @classmethod
    def parse(cls, comment: str, where: str) -> Statement:
        try:
            if match := COMMENT.fullmatch(comment):
                return cls(match["name"], int(match["version"]), date.fromisoformat(match["expires"]))
        except ValueError:
            pass
        raise IntegrityError(
            f"{where} is signed, but not as a catalog: its signature says {comment[:100]!a}, not 'shiftdata "
            "catalog <name>, version <number>, expires <day>'. Ask its publisher for `shiftdata catalog sign`"
        )

    def __str__(self) -> str:
        text = f"shiftdata catalog {self.name}, version {self.version}, expires {self.expires.isoformat()}"
        if not COMMENT.fullmatch(text):
            raise InputError(
                f"a catalog cannot be signed as {text!r}: its name has letters, digits, '.', '_' and '-', "
                "its version is from 1 to 15 digits"
            )
        return text


def read_address(address: str, most: int, suffix: str = "") -> bytes:
    """Read a small file by its path or URL, or the one next to it whose name is longer by a suffix."""
    if address.startswith(("http://", "https://")):  # which may have a query
        path, mark, query = address.partition("?")
        return store_at(f"{path}{suffix}{mark}{query}").read("", most)
    place, _, name = (address if is_url(address) else str(absolute(address))).rpartition("/")
    return store_at(place or "/").read(name + suffix, most)


def check_catalog(address: str, data: bytes, keys: Keys) -> Statement:
    """Return what one of the keys, or of those that followed them, says of a catalog that was just read.

    One that is older than what was seen at its address, has another name or has ended is an error.
    """
    signature = _read(address, SUFFIX)
    if signature is not None:
        signer = signer_of(signature)
        keys = [_latest(address, key, signer) for key in keys]
    statement = Statement.parse(check_signature(address, data, signature, keys), address)
    if statement.expires < today():
        raise IntegrityError(
            f"{address} ended on {statement.expires}: a newer one is kept from you, or its publisher has not "
            "signed one. Try again later, look at the clock of this machine, or ask its publisher"
        )
    _remember(address, statement, hashlib.sha256(data).hexdigest())
    return statement


def sign_catalog(
    path: Path, data: bytes, key: SecretKey, name: str | None, expires: date, version: int | None
) -> Statement:
    """Sign a catalog as the version after the one that its signature names."""
    earlier = _read(str(path), SUFFIX)
    if earlier is not None and (name is None or version is None):
        comment = (earlier.splitlines() + [b""] * 3)[2].decode("ascii", "replace")
        last = Statement.parse(comment.removeprefix("trusted comment: "), str(path))
        name, version = name or last.name, version or last.version + 1
    if name is None:
        raise InputError(
            f"{path} was not signed before: give it a name by --name, such as the name of your lab"
        )
    statement = Statement(name, version or 1, expires)
    if expires < today():
        raise InputError(f"the catalog would end on {expires}, which is over: give a later day")
    write_bytes(Path(f"{path}{SUFFIX}"), key.sign(data, str(statement)))
    return statement


def sign_next_key(path: Path, old: SecretKey, new: PublicKey) -> list[Path]:
    """Write the files by which readers who pinned the old key learn that a new one follows it."""
    if old.public.id == new.id:
        raise InputError(f"the key {new.id} cannot follow itself: make a new one")
    file = Path(f"{path}{_next(old.public)}")
    proof = Path(f"{file}{SUFFIX}")
    write_bytes(proof, old.sign(new.to_bytes(), f"{NEXT_KEY} {new.id} follows {old.public.id}"))
    write_bytes(file, new.to_bytes())
    return [file, proof]


def today() -> date:
    """Return the day, by which a catalog ends, in UTC."""
    return datetime.now(UTC).date()


def _latest(address: str, key: PublicKey, signer: str) -> PublicKey:
    """Follow a key to the last one that replaced it, by the files next to the catalog up to its signer."""
    return [key, *islice(_followers(address, key, signer), MOST_KEYS)][-1]


def _followers(address: str, key: PublicKey, signer: str) -> Iterator[PublicKey]:
    folder = cache_folder("keys")
    while True:
        known = folder / f"key{_next(key)}"
        follower = _follower(str(known), key)
        if follower is None and key.id != signer:
            follower = _follower(address, key, _next(key))
            if follower is not None:  # from now on the old key is not believed
                write_bytes(Path(f"{known}{SUFFIX}"), _read(address, _next(key) + SUFFIX) or b"")
                write_bytes(known, follower.to_bytes())
        if follower is None:
            return
        yield follower
        key = follower


def _follower(address: str, key: PublicKey, suffix: str = "") -> PublicKey | None:
    data = _read(address, suffix)
    if data is None:
        return None
    where = address + suffix
    comment = check_signature(where, data, _read(address, suffix + SUFFIX), [key])
    (follower, *more) = read_keys(data, where)
    if more or comment != f"{NEXT_KEY} {follower.id} follows {key.id}":
        raise IntegrityError(f"{where} is not what `shiftdata catalog next-key` writes: ask its publisher")
    return follower


def _remember(address: str, statement: Statement, sha256: str) -> None:
    """Compare a catalog with the newest that was seen at its address, query aside, and remember it."""
    place = address.partition("?")[0] if is_url(address) else str(absolute(address))
    file = cache_folder("catalogs") / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_suffix(".lock"), f"{file} is in use", wait=60):
        if file.is_file():
            line, _, digest = file.read_text(encoding="utf-8").partition("\n")
            seen, fault = Statement.parse(line, str(file)), ""
            if seen.name != statement.name:
                fault = f"is the catalog {statement.name!r}; {seen.name!r} was there before"
            elif statement.version < seen.version:
                fault = (
                    f"is version {statement.version}, which is old: version {seen.version} was there before"
                )
            elif statement.version == seen.version and digest != sha256:
                fault = f"has other bytes than the version {seen.version} that was there before"
            if fault:
                advice = f"ask its publisher; if that is right, delete {file}"
                raise IntegrityError(f"{address} {fault}. Try again later, or {advice}")
        write_text(file, f"{statement}\n{sha256}")


def _next(key: PublicKey) -> str:
    return f".after-{key.id}.pub"


def _read(address: str, suffix: str = "") -> bytes | None:
    try:
        return read_address(address, MOST_BYTES, suffix)
    except MissingFileError:
        return None
