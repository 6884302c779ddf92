"""Which place an address names."""

from __future__ import annotations

import re
from pathlib import Path

from builders.publish.folder import FolderTarget
from builders.publish.hub import HubTarget, RepoOptions
from builders.publish.objects import ObjectTarget
from builders.publish.target import Target
from shiftdata.errors import InputError
from shiftdata.places.hubs import HubRepo
from shiftdata.places.remote import filesystem
from shiftdata.places.search import NAMESPACE
from shiftdata.places.store import is_url

SERVER = re.compile(r"(?P<server>https?://[^/]+)(?P<repo>/.+)?")


def target_of(to: str, name: str, work: Path, options: RepoOptions) -> Target:
    """The place that an address names, for the dataset of that name; `work` is for notes on this machine."""
    user, at, _ = to.partition("://")[2].partition("/")[0].rpartition("@")
    if at and ":" in user:  # it would stand in journals and catalogs
        raise InputError(
            "the address contains a password: leave it out, and keep it where the tool of that kind of place "
            "looks for it (environment, configuration file)"
        )
    if (repo := _hub_repo(to, name)) is not None:
        return HubTarget(repo, options)
    if options.private or options.gated or options.tag:
        raise InputError(f"--private, --gated and --tag are for repos on a Hub; {to} is not one")
    if to.startswith(("file://", "local://")):
        to = filesystem(to)[1]
    if is_url(to):
        return ObjectTarget(_with_name(to, name), work)
    return FolderTarget(Path(_with_name(str(Path(to).expanduser().absolute()), name)))


def _with_name(to: str, name: str) -> str:
    """A place for one dataset: the address itself where it ends in its name, else that name below it."""
    if to.endswith("://"):  # the root of a file system
        return to + name
    plain = to.rstrip("/")
    return plain if plain.split("/")[-1] == name else f"{plain}/{name}"


def _hub_repo(to: str, name: str) -> HubRepo | None:
    """The repo on a Hub, or on a mirror; a server alone is one with the repo `shift/<name>`."""
    default = f"{NAMESPACE}/{name}"
    if to.startswith("hf://"):
        path = to.removeprefix("hf://").strip("/").removeprefix("datasets/")
        return HubRepo.parse(f"hf://datasets/{path or default}")
    found = SERVER.fullmatch(to.removeprefix("hf+").rstrip("/"))
    if found is None:
        return None
    return HubRepo.parse(f"hf+{found['server']}{found['repo'] or f'/datasets/{default}'}")
