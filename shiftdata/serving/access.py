"""Who may read and who may write: one token, compared in constant time, and signed URLs for uploads."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shiftdata.serving.library import Repo
from shiftdata.serving.refusals import Refusal, no_repo

#: What clients know as "this token is wrong"; another text of a 401 they take for "no such repo".
WRONG_TOKEN = "Invalid credentials in Authorization header"

#: Seconds for which an upload may begin after it was announced.
SIGNED_FOR = 24 * 3600


@dataclass(frozen=True)
class Access:
    """The rules of a server: its token, if any, and whether reading needs it too.

    A server on loopback alone that has no token is `trusting`: it accepts any token, but still requires one,
    so that no page in a browser can write to it.
    """

    token: str | None = field(default=None, repr=False)
    private: bool = False
    trusting: bool = False

    def is_owner(self, header: str | None) -> bool:
        """Whether a request with this Authorization header may do everything."""
        scheme, _, given = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            return False
        if self.token is None:
            return self.trusting
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def check_owner(self, header: str | None) -> None:
        if not self.is_owner(header):
            any_token = " (here any token is accepted)" if self.trusting and self.token is None else ""
            text = f"this needs the mirror's token: set HF_TOKEN to it{any_token}"
            raise Refusal(401, text, shown=WRONG_TOKEN, headers={"WWW-Authenticate": "Bearer"})

    def sees(self, repo: Repo, header: str | None) -> bool:
        """Whether the repo exists for this caller."""
        return self.is_owner(header) or not (self.private or repo.settings().private)

    def check_reader(self, repo: Repo, header: str | None, *, for_files: bool) -> None:
        """Refuse a repo that is hidden, as if it did not exist; and, `for_files`, one that is gated."""
        if not self.sees(repo, header):
            raise no_repo(repo.owner, repo.name, status=self.missing_status(header))
        if for_files and repo.settings().gated and not self.is_owner(header):
            text = f"{repo.owner}/{repo.name} is gated: its files need the server's token"
            raise Refusal(403, text, "GatedRepo")

    def missing_status(self, header: str | None) -> int:
        """The status of "no such repo": without the token, nobody can tell it from a private one."""
        return 404 if self.is_owner(header) or (self.token is None and not self.private) else 401


@dataclass(frozen=True)
class Signer:
    """Signs upload URLs: clients send no token to them."""

    key: bytes = field(repr=False)

    def query(self, path: str, size: int) -> str:
        """What follows the `?` of the URL for one object of one size."""
        until = int(time.time()) + SIGNED_FOR
        return f"size={size}&until={until}&signature={self._signature(path, size, until)}"

    def check(self, path: str, query: Mapping[str, str]) -> int:
        """The announced size, if this server made the URL."""
        size, until, signature = (query.get(key, "") for key in ("size", "until", "signature"))
        plain = all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (size, until))
        wanted = self._signature(path, int(size), int(until)) if plain else ""
        if not plain or not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
            raise Refusal(403, "this is not an upload URL of this server: ask for a new one")
        if int(until) < time.time():
            raise Refusal(403, "this upload URL has expired: ask for a new one")
        return int(size)

    def _signature(self, path: str, size: int, until: int) -> str:
        return hmac.new(self.key, f"{path}\n{size}\n{until}".encode(), hashlib.sha256).hexdigest()
