"""Answers that refuse a request: a status, a text for the user, and a code that clients know."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


class Refusal(Exception):
    """The request is refused with this status and text; the server goes on.

    `shown` stands in `X-Error-Message` where clients recognise a certain text and say something better.
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
        self.status, self.body = status, {"error": message}
        line = "".join(letter if " " <= letter <= "~" else "?" for letter in shown or message)[:1000]
        self.headers = {
            "X-Error-Message": line,
            **({"X-Error-Code": code} if code else {}),
            **(headers or {}),
        }

    def answer(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, headers=self.headers)


def no_repo(owner: str, name: str, *, status: int = 404) -> Refusal:
    """There is no such dataset, or none that this caller may see."""
    text = f"there is no dataset {owner}/{name} here, or it needs the server's token"
    return Refusal(status, _ascii(text), "RepoNotFound")


def no_revision(revision: str) -> Refusal:
    """The dataset has no such branch, tag or commit."""
    text = f"there is no branch, tag or commit {revision} (a folder that changed has only its newest commit)"
    return Refusal(404, _ascii(text), "RevisionNotFound")


def no_entry(path: str) -> Refusal:
    """The revision has no such file."""
    return Refusal(404, _ascii(f"there is no file {path}"), "EntryNotFound")


def _ascii(text: str) -> str:
    return ascii(text[:500])[1:-1]
