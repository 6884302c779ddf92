"""Who may read and who may write: one token, compared in constant time, and signed URLs for uploads."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass, field

from shiftdata.serving.refusals import Refusal, no_repo
from shiftdata.serving.repos import Repo

#: What clients know as "this token is wrong"; another text of a 401 they take for "no such repo".
WRONG = "Invalid credentials in Authorization header"

#: Seconds for which an upload may begin after it was announced.
SIGNED_FOR = 24 * 3600


@dataclass(frozen=True)
class Access:
    """The rules of a server: its token, if any, and whether reading needs it too.

    A server on loopback alone that has no token is `trusting`: it takes any token, and still wants one, so
    that no page in a browser can write to it.
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
        """Refuse who may not write."""
        if not self.is_owner(header):
            said = "this needs the mirror's token: set HF_TOKEN to it" + (
                " (here any will do)" if self.trusting and self.token is None else ""
            )
            raise Refusal(401, said, shown=WRONG, headers={"WWW-Authenticate": "Bearer"})

    def check_server(self, header: str | None) -> None:
        """Refuse who may not read this server at all."""
        if self.private:
            self.check_owner(header)

    def sees(self, repo: Repo, header: str | None) -> bool:
        """Whether the repo exists for this caller."""
        if self.is_owner(header):
            return True
        return not self.private and not repo.settings().private

    def check_sees(self, repo: Repo, header: str | None) -> None:
        """A repo that is hidden is answered as one that is not there."""
        if not self.sees(repo, header):
            raise no_repo(repo.owner, repo.name, status=self.missing(header))

    def missing(self, header: str | None) -> int:
        """The status of "no such repo": without the token, nobody can tell it from a private one."""
        return 404 if self.is_owner(header) or (self.token is None and not self.private) else 401

    def check_reads(self, repo: Repo, header: str | None) -> None:
        """Refuse the files of a gated repo."""
        self.check_sees(repo, header)
        if repo.settings().gated and not self.is_owner(header):
            raise Refusal(
                403, f"{repo.owner}/{repo.name} is gated: its files need the server's token", "GatedRepo"
            )


@dataclass(frozen=True)
class Signer:
    """Signs upload URLs: clients send no token to them."""

    key: bytes = field(repr=False)

    def query(self, place: str, size: int) -> str:
        """What follows the `?` of the URL for one object of one size."""
        until = int(time.time()) + SIGNED_FOR
        return f"size={size}&until={until}&signature={self._signature(place, size, until)}"

    def check(self, place: str, size: str, until: str, signature: str) -> int:
        """The announced size, if the URL is one of ours."""
        plain = size.isascii() and size.isdigit() and until.isascii() and until.isdigit()
        if not plain or len(size) > 18 or len(until) > 18:
            raise Refusal(403, "this is no upload URL of this server")
        wanted = self._signature(place, int(size), int(until))
        if not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
            raise Refusal(403, "this is no upload URL of this server: ask for a new one")
        if int(until) < time.time():
            raise Refusal(403, "this upload URL has expired: ask for a new one")
        return int(size)

    def _signature(self, place: str, size: int, until: int) -> str:
        return hmac.new(self.key, f"{place}\n{size}\n{until}".encode(), hashlib.sha256).hexdigest()
