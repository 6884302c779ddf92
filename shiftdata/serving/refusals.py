"""Answers that refuse a request: a status, a text for the user, and a code that clients know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Refusal(Exception):
    """The request is refused with this status and text; the server goes on.

    `headers` are added to the answer and `more` to its JSON. `shown` is what stands in `X-Error-Message`,
    where a client knows that text and says something better.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        shown: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": message, **(more or {})}
        self.headers = {"X-Error-Message": header_text(shown or message), **(headers or {})}
        if code:
            self.headers["X-Error-Code"] = code


def header_text(text: str) -> str:
    """A text as one line that a header can carry."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[:1000]


def no_repo(owner: str, name: str, *, status: int = 404) -> Refusal:
    """There is no such dataset, or none that this caller may see."""
    said = f"there is no dataset {owner}/{name} here, or it needs the server's token"
    return Refusal(status, ascii_of(said), "RepoNotFound")


def no_revision(revision: str) -> Refusal:
    """The dataset has no such branch, tag or commit."""
    said = (
        f"there is no branch, tag or commit {revision} (a changed folder has a new commit and no older ones)"
    )
    return Refusal(404, ascii_of(said), "RevisionNotFound")


def no_entry(path: str) -> Refusal:
    """The revision has no such file."""
    return Refusal(404, ascii_of(f"there is no file {path}"), "EntryNotFound")


def ascii_of(text: str) -> str:
    """What a caller gave may hold anything."""
    return ascii(text[:500])[1:-1]
