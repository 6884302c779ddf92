"""Signatures in the format of minisign: who made a catalog or a manifest.

The signature of `<file>` is `<file>.minisig`; the command line tool `minisign` makes it, and the keys. No key
is believed because it came first: readers get it from its owner by another way, and pin it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftdata.data.format.paths import MANIFEST
from shiftdata.data.places.hubs import config_folder
from shiftdata.errors import InputError, IntegrityError
from shiftdata.extras import require
from shiftdata.files import absolute, open_regular

SUFFIX = ".minisig"
#: The signature of a manifest, next to it: no manifest lists it.
SIGNATURE = MANIFEST + SUFFIX
#: Public keys, or files of them, with commas between them. Set and empty, it pins none.
VARIABLE = "SHIFTDATA_KEY"
#: The user's own file of pinned keys, in `shiftdata/` of $XDG_CONFIG_HOME or ~/.config.
PINNED = "keys.pub"
#: The most bytes of a signature or a key: minisign allows comments of 8 KiB.
MOST_BYTES = 16 << 10
LENGTH = 56  # of a public key


@dataclass(frozen=True)
class PublicKey:
    """A public key: the second line of its file.

    >>> PublicKey("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").id
    'E7620F1842B4E81F'
    """

    text: str

    @property
    def id(self) -> str:
        """The number of the key, as minisign prints it: a name for people, and no proof."""
        return _id(self.text)

    def verify(self, data: bytes, signature: bytes) -> None:
        """Raise a `ValueError` if anything is wrong."""
        library = _library()
        library.PublicKey.from_base64(self.text).verify(data, library.Signature.from_bytes(signature))


#: The keys of which one must have signed; without any, nothing is checked.
Keys = Sequence[PublicKey]


def read_keys(data: bytes, where: str) -> tuple[PublicKey, ...]:
    """Read public keys: one in a line, with comments between them."""
    lines = [line.strip() for line in data.decode("ascii", "replace").splitlines()]
    keys = tuple(PublicKey(line) for line in lines if line and not line.startswith("untrusted comment:"))
    try:
        for key in keys:
            _library().PublicKey.from_base64(key.text)
        if keys:
            return keys
        raise ValueError("no line has one")
    except ValueError as error:
        raise InputError(
            f"{where} is not a public key of minisign ({error}): give the file minisign.pub, or the line of "
            f"{LENGTH} characters in it, which begins with RW"
        ) from error


def pinned(given: str | None = None) -> Keys:
    """Return the pinned keys: those that are given, or of $SHIFTDATA_KEY, or of the user's own file."""
    own = config_folder() / PINNED
    text = os.environ.get(VARIABLE) if given is None else given
    if text is None:
        return _keys_of(own) if own.is_file() else ()
    keys: list[PublicKey] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        is_key = part.startswith("RW") and len(part) == LENGTH
        keys += read_keys(part.encode(), "the pinned key") if is_key else _keys_of(absolute(part))
    return tuple(keys)


def check_signature(where: str, data: bytes, signature: bytes | None, keys: Keys) -> None:
    """Raise an `IntegrityError` if none of the keys signed the data; `signature` None: there is none."""
    ids = ", ".join(key.id for key in keys)
    if signature is None:
        raise IntegrityError(
            f"{where} is not signed: there is no {Path(where).name}{SUFFIX} next to it, and the key {ids} is "
            f"pinned. Ask its publisher to sign it, or pin no key: {VARIABLE}= (empty), and no --key"
        )
    signer = signer_of(signature)
    for key in keys:
        if key.id == signer:
            try:
                key.verify(data, signature)
                return
            except ValueError as error:
                raise IntegrityError(
                    f"{where} is not what the key {signer} has signed ({error}): it or its signature was "
                    "changed, or one of them is not there yet. Try again later, or ask its publisher"
                ) from error
    by = f"signed by the key {signer}" if signer else f"next to a {SUFFIX} that is no signature of minisign"
    raise IntegrityError(
        f"{where} is {by}; pinned is {ids}. Do not take a new key from the same place: ask the publisher for "
        f"it, and name it in {VARIABLE}"
    )


def signer_of(signature: bytes) -> str:
    """Return the number of the key that a signature names, or nothing."""
    lines = signature.splitlines()
    try:
        return _id(lines[1].decode())
    except (IndexError, ValueError):
        return ""


def _keys_of(path: Path) -> tuple[PublicKey, ...]:
    if not path.is_file():
        raise InputError(f"the pinned key {path} is not a file: give one, or the key itself: RW...")
    with open_regular(path) as file:
        return read_keys(file.read(MOST_BYTES), str(path))


def _id(line: str) -> str:
    return base64.b64decode(line, validate=True)[2:10][::-1].hex().upper()


def _library() -> Any:
    return require("minisign", "a signature")
