"""Datasets on a Hub: that of Hugging Face, or a server with its protocol, such as `shiftdata serve`.

And which token goes where: each belongs to one origin (scheme, host and port), and no other gets it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from shiftdata.errors import InputError
from shiftdata.files import absolute
from shiftdata.untrusted.texts import read_json

HUB = "https://huggingface.co"
#: A file of tokens by server; default: `shiftdata/tokens.json` in $XDG_CONFIG_HOME, or else in `~/.config`.
TOKENS = "SHIFTDATA_TOKENS"

PART = r"[\w.-]+"
#: hf://datasets/owner/name[@revision], hf+https://server/datasets/owner/name[@revision]
ADDRESS = re.compile(
    rf"hf(?:\+(?P<endpoint>https?://[\w.:\[\]-]+))?(?(endpoint)|:/)"
    rf"/datasets/(?P<repo_id>{PART}/{PART})(?:@(?P<revision>[^/@]+))?",
    re.ASCII,
)


@dataclass(frozen=True)
class HubRepo:
    """A dataset repo at an endpoint; None is $HF_ENDPOINT, or else the Hub itself.

    `token` None is the one of that server (`token_for`), False is none.

    >>> HubRepo.parse("hf+http://lab:8000/datasets/shift/toy@v1")
    HubRepo(repo_id='shift/toy', endpoint='http://lab:8000', revision='v1')
    >>> HubRepo.parse("hf://datasets/shift/toy").address
    'hf://datasets/shift/toy'
    """

    repo_id: str
    endpoint: str | None = None
    revision: str | None = None
    token: str | Literal[False] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(cls, address: str) -> HubRepo:
        match = ADDRESS.fullmatch(address.rstrip("/"))
        if not match:
            raise InputError(
                f"{address!r} is not a dataset on a Hub: give hf://datasets/<owner>/<name>, or "
                "hf+https://<server>/datasets/<owner>/<name> for another server; @<revision> may follow"
            )
        return cls(match["repo_id"], match["endpoint"], match["revision"])

    @property
    def address(self) -> str:
        path = f"datasets/{self.repo_id}" + (f"@{self.revision}" if self.revision else "")
        return f"hf+{self.endpoint}/{path}" if self.endpoint else f"hf://{path}"


def hub_endpoint() -> str:
    """Return the Hub of the environment, as `huggingface_hub` read it at its import."""
    from huggingface_hub import constants

    return constants.ENDPOINT


def token_for(endpoint: str | None) -> str | Literal[False]:
    """Return the token that a server may have, or False. `endpoint` None is $HF_ENDPOINT.

    That is the one of its origin in the file of tokens, `HF_TOKEN` for the origin of $HF_ENDPOINT (the Hub
    if that is not set), and the stored login for the Hub alone.
    """
    from huggingface_hub import constants, get_token

    own = hub_endpoint()
    origin = origin_of(endpoint or own)
    if (bound := bound_tokens().get(origin)) is not None:
        return bound
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return False
    token: str | None = None
    if origin == origin_of(own):
        token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
        if origin == HUB:
            token = token or get_token()
    elif origin == HUB:  # not `get_token`, which would give HF_TOKEN
        stored = Path(constants.HF_TOKEN_PATH)
        token = stored.read_text(encoding="utf-8") if stored.is_file() else None
    token = (token or "").strip()
    if token and not is_private(origin):
        warnings.warn(f"{origin} gets no token: {PLAIN}", stacklevel=2)
        return False
    return token or False


PLAIN = (
    "it would go over plain http, where everybody on the way can read it. Use https (a proxy with TLS before "
    "the server), or a tunnel to this machine: ssh -L 8000:localhost:8000 <server>, http://localhost:8000"
)


def check_token(token: str | Literal[False], url: str) -> str | Literal[False]:
    """Return a token if it may be sent to a server, or raise an error."""
    if token and not is_private(url):
        raise InputError(f"the token cannot be sent to {origin_of(url)}: {PLAIN}")
    return token


def is_private(url: str) -> bool:
    """Return True if nobody on the way can read a request: by TLS, or to this machine itself."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=256)
def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL, normalised.

    >>> origin_of("HTTPS://Lab.example:443/datasets/x"), origin_of("http://[::1]:8000")
    ('https://lab.example', 'http://[::1]:8000')
    """
    parts = urlsplit(url)
    try:
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise InputError(f"{url!r} is not the address of a server ({error})") from error
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise InputError(f"{url!r} is not the address of a server: give http(s)://<host>[:<port>], no login")
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, default) else "")


def config_folder() -> Path:
    """Return the folder of the user's own settings of shiftdata."""
    return absolute(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "shiftdata"


def bound_tokens() -> dict[str, str]:
    """Read the tokens of the file of tokens, by origin."""
    given = os.environ.get(TOKENS)
    path = absolute(given) if given else config_folder() / "tokens.json"
    if not path.is_file():
        if given:
            raise InputError(f"${TOKENS} is {given}, which is not a file")
        return {}
    try:
        raw = read_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({type(error).__name__})") from None  # it has secrets
    if not isinstance(raw, dict) or not all(
        isinstance(token, str) and token.strip() for token in raw.values()
    ):
        raise InputError(f'{path} is not a file of tokens: {{"https://<server>": "<token>"}}')
    for server in raw:
        if not is_private(server):
            raise InputError(f"{path} has a token for {server}: {PLAIN}")
    return {origin_of(server): token.strip() for server, token in raw.items()}
