"""Datasets on a Hub: that of Hugging Face, or a server with its protocol, such as `shiftdata serve`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from shiftdata.errors import InputError

PART = r"[\w.-]+"
#: hf://datasets/owner/name[@revision], hf+https://server/datasets/owner/name[@revision]
ADDRESS = re.compile(
    rf"hf(?:\+(?P<endpoint>https?://[^/]+))?(?(endpoint)|:/)/datasets/(?P<repo_id>{PART}/{PART})(?:@(?P<revision>[^/@]+))?"
)


@dataclass(frozen=True)
class HubRepo:
    """A dataset repo at an endpoint; None is $HF_ENDPOINT, or else the Hub itself.

    `token` None is the one in the environment or of the stored login, False is none.

    >>> HubRepo.parse("hf+http://lab:8000/datasets/shift/toy@v1")
    HubRepo(repo_id='shift/toy', endpoint='http://lab:8000', revision='v1')
    >>> HubRepo.parse("hf://datasets/shift/toy").address
    'hf://datasets/shift/toy'
    """

    repo_id: str
    endpoint: str | None = None
    revision: str | None = None
    token: str | bool | None = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(cls, address: str) -> HubRepo:
        found = ADDRESS.fullmatch(address.rstrip("/"))
        if not found:
            raise InputError(
                f"{address!r} is not a dataset on a Hub: give hf://datasets/<owner>/<name>, or "
                "hf+https://<server>/datasets/<owner>/<name> for another server; @<revision> may follow"
            )
        return cls(found["repo_id"], found["endpoint"], found["revision"])

    @property
    def path(self) -> str:
        return f"datasets/{self.repo_id}" + (f"@{self.revision}" if self.revision else "")

    @property
    def address(self) -> str:
        return f"hf+{self.endpoint}/{self.path}" if self.endpoint else f"hf://{self.path}"

    def filesystem(self) -> Any:
        """The fsspec file system of its endpoint."""
        from huggingface_hub import HfFileSystem

        return HfFileSystem(endpoint=self.endpoint, token=self.token)
