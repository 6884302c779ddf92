"""Answers that refuse a request, and the names that a client may ask for."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping

from starlette.responses import JSONResponse

LOG = logging.getLogger("shiftdata.serve")
MAX_REPORTED = 1000
_reported: set[str] = set()

REPO_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")


class Refusal(Exception):
    """Refuse the request with this status and text.

    `shown` replaces the text in `X-Error-Message` where clients recognise a text and explain it better.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        shown: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        line = "".join(letter if " " <= letter <= "~" else "?" for letter in shown or message)[:1000].strip()
        self.headers = {
            "X-Error-Message": line,
            **({"X-Error-Code": code} if code else {}),
            **(headers or {}),
        }

    def answer(self) -> JSONResponse:
        return JSONResponse({"error": str(self)}, self.status, headers=self.headers)


def no_repo(owner: str, name: str, *, status: int = 404, headers: Mapping[str, str] | None = None) -> Refusal:
    """The refusal of a dataset that is missing, or that this caller may not see."""
    text = f"there is no dataset {owner}/{name} here, or it needs the server's token"
    return Refusal(status, _ascii(text), "RepoNotFound", headers=headers)


def no_revision(revision: str) -> Refusal:
    """The refusal of a revision that is neither `main` nor its commit."""
    text = f"there is no revision {revision}: a dataset here has `main` and the id of its newest commit"
    return Refusal(404, _ascii(text), "RevisionNotFound")


def no_entry(path: str) -> Refusal:
    """The refusal of a file that the revision has not."""
    return Refusal(404, _ascii(f"there is no file {path}"), "EntryNotFound")


def report(place: str, problem: str) -> None:
    """Log, once, a problem of the served folder."""
    text = _ascii(f"{place}: {problem}")
    if text not in _reported and len(_reported) < MAX_REPORTED:
        _reported.add(text)
        LOG.warning("%s", text)


def _ascii(text: str) -> str:
    return ascii(text[:500])[1:-1]


def is_repo_part(text: str) -> bool:
    """Return True for the name of an owner or of a repo, as the Hub allows it."""
    return bool(REPO_PART.fullmatch(text)) and ".." not in text and not text.endswith((".git", ".ipynb"))


def is_plain(name: str) -> bool:
    """Return True if URLs and JSON can carry a name: no backslash, control character or lone surrogate."""
    return not any(letter == "\\" or unicodedata.category(letter) in ("Cc", "Cs") for letter in name)
