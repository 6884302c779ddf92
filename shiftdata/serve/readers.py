"""Readers of a private mirror: tokens by name, and a brake on those who guess."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from shiftdata.errors import InputError
from shiftdata.serve.names import LOG, Refusal
from shiftdata.untrusted.texts import read_toml

#: Wrong tokens of an address in this many seconds, after which it is refused; addresses that are remembered.
WRONG, SECONDS, ADDRESSES = 10, 60.0, 10_000

#: The reader with the token of the environment.
EVERYBODY = "everybody"
MOST_BYTES = 1 << 20


class Readers:
    """The readers of a private mirror; without a token and a file everyone may read.

    The file is read again when it changes: a reader whose line is removed is refused from then on.
    """

    def __init__(self, token: str | None = None, file: Path | None = None) -> None:
        self.is_open = token is None and file is None
        self._own = {} if token is None else {EVERYBODY: _hash(token.encode())}
        self._file, self._seen, self._named = file, (0, 0, 0), dict[str, str]()
        self._wrong = dict[str, list[float]]()
        self._right = set[tuple[str, str]]()
        if file is not None:
            self._named = read_tokens(file)

    def name_of(self, authorization: str, address: str) -> str | None:
        """Return the reader whose token a header contains, as Bearer or as a password; None if nobody's.

        Who guesses is refused for a while, but not the readers that this address is known for.
        """
        token = _token_of(authorization)
        if token is None:
            return None
        given, now = _hash(token), time.monotonic()
        # Every hash is compared, in a time that does not depend on where they differ.
        matches = [name for name, known in self._hashes().items() if hmac.compare_digest(given, known)]
        wrong = [at for at in self._wrong.get(address, ()) if now - at < SECONDS]
        if len(wrong) >= WRONG and (address, *matches[:1]) not in self._right:
            after = {"Retry-After": str(int(SECONDS - (now - wrong[0])) + 1)}
            raise Refusal(429, "too many wrong tokens: wait, then send the right one", headers=after)
        if matches:
            self._right.add((address, matches[0]))
        else:
            self._wrong[address] = [*wrong, now]
        for table in (self._right, self._wrong):
            if len(table) > ADDRESSES:
                table.clear()
        return matches[0] if matches else None

    def _hashes(self) -> Mapping[str, str]:
        if self._file is not None:
            try:
                now = self._file.stat()
                if (seen := (now.st_mtime_ns, now.st_size, now.st_ino)) != self._seen:
                    self._seen, self._named = seen, {}
                    self._named = read_tokens(self._file)
            except (InputError, OSError) as error:
                self._named = {}
                LOG.error("no reader of the file is let in: %s", error)
        return self._own | self._named


def _token_of(authorization: str) -> bytes | None:
    scheme, _, given = authorization.partition(" ")
    token = given.strip().encode()
    if scheme.lower() == "bearer":
        return token
    if scheme.lower() != "basic":  # a browser's, with any user name
        return None
    try:
        return b64decode(token, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _hash(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def read_tokens(file: Path) -> dict[str, str]:
    """Return the sha256 of each reader's token; refuse a file that others may read."""
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.read(MOST_BYTES).decode()
        named = read_toml(text, str(file))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} is not a file of tokens: {error}. --new-token NAME makes one") from None
    if mode & 0o077:
        raise InputError(f"{file} can be read by others (mode {mode:o}): run `chmod 600 {file}`")
    for name, digest in named.items():
        if not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) and _is_name(name)):
            raise InputError(f'{file}: a line is NAME = "<sha256 of the token>", unlike that of {name!r:.80}')
    return named


def new_token(file: Path, name: str) -> str:
    """Make a token for a reader, add its hash to the file, and return it: nothing else knows it."""
    if not _is_name(name):
        raise InputError(f"{name!r} cannot be a reader's name: use letters, digits, - and _")
    if file.exists() and name in read_tokens(file):
        raise InputError(f"{file} has a token of {name}: remove its line first, and that token ends")
    token = secrets.token_urlsafe(24)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as stream:
        stream.write(f'{name} = "{_hash(token.encode())}"\n')
    return token


def _is_name(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text))
