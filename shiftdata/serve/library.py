"""The repos of a server: every dataset below its folder."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from shiftdata.errors import NotFoundError
from shiftdata.serve.folders import LISTING_SECONDS, find_folders
from shiftdata.serve.folders import Repo as Repo
from shiftdata.serve.names import Refusal
from shiftdata.serve.repos import Commit


class Library:
    """The datasets below a folder; a new one appears within a second."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise NotFoundError(f"{root} is not a folder: give the one with your datasets, or make it")
        self.root = root.resolve()
        self._repos: dict[tuple[str, str], Repo] = {}
        self._listed_at = 0.0
        self._lock = threading.Lock()

    def get(self, owner: str, name: str) -> Repo | None:
        return self._current().get((owner, name))

    def heads(self) -> list[tuple[Repo, Commit]]:
        """The repos with their newest commits; one that is just being read for the first time is left out."""
        heads = []
        for _, repo in sorted(self._current().items()):
            with suppress(Refusal):
                heads.append((repo, repo.commit("main")))
        return heads

    def _current(self) -> dict[tuple[str, str], Repo]:
        with self._lock:
            if time.monotonic() - self._listed_at > LISTING_SECONDS or not self._listed_at:
                repos = {}
                for key, parts in find_folders(self.root).items():
                    old = self._repos.get(key)
                    repos[key] = old if old and old.parts == parts else Repo(*key, self.root, parts)
                self._repos, self._listed_at = repos, time.monotonic()
            return self._repos
