"""Answers that refuse a request, and names that come from a client: what is refused here touches no disk."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import quote

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
        line = "".join(letter if " " <= letter <= "~" else "?" for letter in shown or message)[:1000].strip()
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


LOG = logging.getLogger("shiftdata.serve")
MOST_REPORTED = 1000
_reported: set[str] = set()


def report(where: str, what: str) -> None:
    """Log, once, what is wrong in the served folder; the server goes on without it."""
    text = _ascii(f"{where}: {what}")
    if text not in _reported and len(_reported) < MOST_REPORTED:
        _reported.add(text)
        LOG.warning("%s", text)


def damaged(where: str, what: str) -> Refusal:
    """Something that the server stores is not as it was written. Clients do not ask again for a 410."""
    report(where, what)
    return Refusal(
        410, _ascii(f"{where} is damaged on the server: {what}"), headers={"Cache-Control": "no-store"}
    )


def _ascii(text: str) -> str:
    return ascii(text[:500])[1:-1]


LONGEST_PART = 255
LONGEST_PATH = 1024
MOST_PARTS = 64

REPO_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")
REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
COMMIT_ID = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")

#: Dotted names that clients write themselves; every other one would be hidden from a listing of a folder.
DOTTED = frozenset({".gitattributes", ".gitignore", ".huggingface.yaml"})


def is_repo_part(text: str) -> bool:
    """Whether it may be an owner or the name of a repo."""
    return bool(REPO_PART.fullmatch(text)) and ".." not in text and not text.endswith((".git", ".ipynb"))


def is_ref(text: str) -> bool:
    """Whether it may be a branch or a tag: a word, or words with slashes between."""
    if len(text) > 100 or ".." in text or not REF.fullmatch(text) or COMMIT_ID.fullmatch(text):
        return False
    return len(quote(text, safe="")) <= LONGEST_PART  # it is stored in a file of this name


def is_sha256(text: object) -> bool:
    """Whether it is a sha256 in lower-case hexadecimal digits."""
    return isinstance(text, str) and bool(SHA256.fullmatch(text))


def file_path(text: object) -> str:
    """A path that a client wants to write: relative, plain, of parts that any system can store."""
    if not isinstance(text, str) or not text or len(text.encode(errors="replace")) > LONGEST_PATH:
        raise Refusal(400, f"a path is a text of 1 to {LONGEST_PATH} bytes")
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter == "\\" for letter in text):
        raise Refusal(400, f"the path {text!a} has a backslash or a control character")
    if text.count("/") >= MOST_PARTS:
        raise Refusal(400, f"the path {text[:200]!a} has more than {MOST_PARTS} parts")
    for part in text.split("/"):
        if part in ("", ".", "..") or len(part.encode()) > LONGEST_PART:
            raise Refusal(400, f"the path {text!a} must be relative, without empty parts, '.' or '..'")
        if part.startswith(".") and part not in DOTTED:
            raise Refusal(400, f"the path {text!a} is hidden: no part may start with a dot")
    return text
