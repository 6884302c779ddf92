"""Plain words for errors of a place, without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import get_token

from shiftdata.data.places.hubs import bound_tokens
from shiftdata.errors import MissingExtraError, NotFoundError, ShiftdataError, StorageError
from shiftdata.files import OUT_OF_SPACE

#: Environment variables whose values are never printed.
SECRET = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
TOKENS = re.compile(r"\bhf_[A-Za-z0-9]{6,}|(?<=earer )[^\s'\"]+|(?<=://)[^/\s@:]*:[^/\s@]*(?=@)")

#: What an answer of a server, or an error of object storage by the name of its class, means, and what to do.
MEANINGS = {
    401: "it needs to know who you are: `hf auth login` or HF_TOKEN for the Hub; for another server, give a "
    "valid --token-file or an entry in ~/.config/shiftdata/tokens.json",
    403: "you have no right to write there: use a token that may write, or a name of your own",
    404: "it does not exist, or you may not see it: check the address and your token",
    413: "it accepts no file of that size",
    429: "it asks to go slower: wait a while and run the same command again, it goes on",
    507: "its disk is full: ask whoever runs it to free some; the same command goes on then",
    "NoCredentialsError": "no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "PermissionError": "you have no right there: ask who owns it, or use other credentials (AWS_PROFILE)",
    "FileNotFoundError": "it does not exist: make the bucket or folder first, or check the address",
}
#: Mistakes of our own code: they are shown whole.
OURS = (TypeError, AttributeError, NameError, LookupError, AssertionError)


def redacted(text: str, token: str | None = None) -> str:
    """A text without tokens and passwords.

    >>> redacted("Authorization: Bearer hf_abcdefgh1234 at https://me:secret@lab/x")
    'Authorization: Bearer *** at https://***@lab/x'
    """
    for secret in {token, *map(os.environ.get, SECRET), get_token(), *bound_tokens().values()}:
        if secret and len(secret) >= 6:  # a shorter text is not a secret, and would blot out words
            text = text.replace(secret, "***")
    return TOKENS.sub("***", text)


@contextmanager
def in_plain_words(where: str, token: str | None = None) -> Iterator[None]:
    """Turn whatever a place's client raises into an error that says what to do, and shows no secret."""
    try:
        yield
    except ShiftdataError as error:
        raise type(error)(redacted(str(error), token)) from None
    except ImportError as error:
        raise MissingExtraError(f"{where} needs a package that is not installed: {error}") from None
    except OURS:
        raise
    except Exception as error:  # each client has its own kinds
        while type(error) is RuntimeError and isinstance(error.__cause__, Exception):
            error = error.__cause__  # "error while uploading" says little
        reason = redacted(str(error), token).strip().partition("\n")[0][:300]
        kind = NotFoundError if isinstance(error, FileNotFoundError) else StorageError
        raise kind(f"{where}: {_meaning(error)} ({type(error).__name__}: {reason})") from None


def _meaning(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
        return "no space is left: free some and run the same command again, it goes on where it stopped"
    status = getattr(getattr(error, "response", None), "status_code", None)
    keys = (status, *(kind.__name__ for kind in type(error).__mro__))
    hint = "check the address and the network, then run the same command again: it goes on"
    return next((MEANINGS[key] for key in keys if key in MEANINGS), hint)
