"""Signatures in the format of minisign: who made a catalog or a manifest.

The signature of `<file>` is `<file>.minisig`; the command line tool `minisign` makes and checks it too. No
key is believed because it came first: readers get it from its owner by another way, and pin it.
"""

from __future__ import annotations

import base64
import os
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from getpass import GetPassWarning, getpass
from pathlib import Path
from typing import Any

from shiftdata.data.format.paths import MANIFEST
from shiftdata.data.places.hubs import config_folder
from shiftdata.errors import InputError, IntegrityError
from shiftdata.extras import require
from shiftdata.files import absolute, open_regular, whole_file, write_bytes

SUFFIX = ".minisig"
#: The signature of a manifest, next to it: no manifest lists it.
SIGNATURE = MANIFEST + SUFFIX
#: Public keys, or files of them, with commas between them. Set and empty, it pins none.
VARIABLE = "SHIFTDATA_KEY"
#: The password of a secret key, where nobody can be asked for it.
PASSWORD = "SHIFTDATA_KEY_PASSWORD"
#: The user's own file of pinned keys, in `shiftdata/` of $XDG_CONFIG_HOME or ~/.config.
PINNED = "keys.pub"
#: The most bytes of a signature or a key: minisign allows comments of 8 KiB.
MOST_BYTES = 16 << 10
LENGTH = 56  # of a public key
OPEN_MODE = stat.S_IRWXG | stat.S_IRWXO


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

    def verify(self, data: bytes, signature: bytes) -> str:
        """Return the comment that was signed with the data; whatever is wrong is a `ValueError`."""
        library = _library()
        read = library.Signature.from_bytes(signature)
        library.PublicKey.from_base64(self.text).verify(data, read)
        return str(read.trusted_comment)

    def to_bytes(self) -> bytes:
        """Return the file of the key, as minisign writes it."""
        return f"untrusted comment: minisign public key {self.id}\n{self.text}\n".encode()


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


def check_signature(where: str, data: bytes, signature: bytes | None, keys: Keys) -> str:
    """Return the comment that one of the keys signed with the data, or raise an `IntegrityError`.

    `signature` None: there is none.
    """
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
                return key.verify(data, signature)
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


class SecretKey:
    """A secret key in a file that its owner alone can read, with or without a password."""

    def __init__(self, path: Path) -> None:
        with open_regular(path) as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OPEN_MODE:
                raise InputError(f"others can read the secret key {path}: chmod 600 {path}, or make another")
            data = file.read(MOST_BYTES)
        try:
            self._key = _library().SecretKey.from_bytes(data)
            if self._key.is_encrypted():
                self._key.decrypt(os.environ.get(PASSWORD) or _asked_password(path))
        except ValueError as error:
            raise InputError(f"{path} is not a secret key of minisign that can be used: {error}") from error

    @property
    def public(self) -> PublicKey:
        """The key that readers pin."""
        return PublicKey(self._key.get_public_key().to_base64().decode())

    def sign(self, data: bytes, comment: str) -> bytes:
        """Return the signature of data, and of a comment with it; equal ones give equal bytes."""
        return bytes(self._key.sign(data, trusted_comment=comment)) + b"\n"


def _asked_password(path: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # it would be echoed
            return getpass(f"password of {path}: ")
    except (GetPassWarning, EOFError) as error:
        raise InputError(
            f"the secret key {path} has a password, and there is no terminal to ask for it: set {PASSWORD}, "
            "or sign with a key that has none: `shiftdata catalog key FILE --no-password`"
        ) from error


def make_key(path: Path, password: str) -> PublicKey:
    """Write a new secret key, and its public key as `<name>.pub`; a password, if any, encrypts it."""
    public_file = path.with_suffix(".pub")
    for file in (path, public_file):
        if file.exists():
            raise InputError(
                f"{file} is there, and a key that is lost cannot be had again: give another name"
            )
    secret = _library().KeyPair.generate().secret_key
    key = PublicKey(secret.get_public_key().to_base64().decode())
    if password:
        secret.encrypt(password)
    with whole_file(path) as temporary:
        temporary.chmod(0o600)
        temporary.write_bytes(bytes(secret) + b"\n")
    write_bytes(public_file, key.to_bytes())
    return key


def _keys_of(path: Path) -> tuple[PublicKey, ...]:
    if not path.is_file():
        raise InputError(f"the pinned key {path} is not a file: give one, or the key itself: RW...")
    with open_regular(path) as file:
        return read_keys(file.read(MOST_BYTES), str(path))


def _id(line: str) -> str:
    return base64.b64decode(line, validate=True)[2:10][::-1].hex().upper()


def _library() -> Any:
    return require("minisign", "a signature")
