"""What went wrong at a place, in words for people, and without anything secret in them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from shiftdata.errors import MissingExtraError, NotFoundError, ShiftdataError, StorageError

#: Environment variables whose values are never printed.
SECRET = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
SHORTEST = 6  # a shorter text is no secret, and would blot out words
MOST_CHARACTERS = 300
TOKENS = re.compile(r"\bhf_[A-Za-z0-9]{6,}|(?<=earer )[^\s'\"]+|(?<=://)[^/\s@:]*:[^/\s@]*(?=@)")
HIDDEN = "***"

#: What an answer of a server means, and what to do.
ANSWERS = {
    401: "it wants to know who you are: `hf auth login`, set HF_TOKEN, or give a valid --token-file",
    403: "you have no right to write there: use a token that may write, or a name of your own",
    404: "it is not there, or you may not see it: look at the address, and at your token",
    413: "it takes no file of that size",
    507: "its disk is full: tell those who run it; the same command goes on then",
    429: "it asks to go slower: wait a while and run the same command again, it goes on",
}
#: What the errors of object storage mean, by the name of their class.
NAMED = {
    "NoCredentialsError": "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "PermissionError": "you have no right there: ask who owns it, or use other credentials (AWS_PROFILE)",
    "FileNotFoundError": "it is not there: make the bucket or folder first, or look at the address",
}
#: Mistakes of our own code: they are told whole.
OURS = (TypeError, AttributeError, NameError, LookupError, AssertionError)


def redacted(text: str, secrets: Iterable[str | None] = ()) -> str:
    """A text without tokens and passwords.

    >>> redacted("Authorization: Bearer hf_abcdefgh1234 at https://me:secret@lab/x")
    'Authorization: Bearer *** at https://***@lab/x'
    """
    for secret in {*secrets, *map(os.environ.get, SECRET), _stored()}:
        if secret and len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return TOKENS.sub(HIDDEN, text)


@contextmanager
def told_plainly(where: str, secrets: Iterable[str | None] = ()) -> Iterator[None]:
    """Turn whatever a place's client raises into an error that says what to do, and holds no secret."""
    try:
        yield
    except ShiftdataError as error:
        raise type(error)(redacted(str(error), secrets)) from None
    except ImportError as error:
        raise MissingExtraError(f"{where} needs a package that is not here: {error}") from None
    except OURS:
        raise
    except Exception as error:  # each client has its own kinds
        error = _deepest(error)
        said = redacted(str(error), secrets).strip().partition("\n")[0][:MOST_CHARACTERS]
        kind = NotFoundError if isinstance(error, FileNotFoundError) else StorageError
        raise kind(f"{where}: {_meaning(error)} ({type(error).__name__}: {said})") from None


def _deepest(error: Exception) -> Exception:
    """What a client's own error stands for: "error while uploading" says little."""
    while type(error) is RuntimeError and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _meaning(error: Exception) -> str:
    """What to do about an error."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in ANSWERS:
        return ANSWERS[status]
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space is left: free some and run the same command again, it goes on where it stopped"
    named = [NAMED[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in NAMED]
    hint = "look at the address and the network, then run the same command again: it goes on"
    return named[0] if named else hint


def _stored() -> str | None:
    """The token that the Hub's client would use."""
    with suppress(Exception):  # it is only looked for to be hidden
        from huggingface_hub import get_token

        return get_token()
    return None
