"""From a name or an address to places: those that were given, those of a catalog, this machine, the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftdata.data.places import catalog
from shiftdata.data.places import search as places
from shiftdata.data.places.store import is_url
from shiftdata.errors import NotFoundError
from shiftdata.files import absolute


@dataclass(frozen=True)
class Candidates:
    """The short name of a dataset, where it may be, and the sha256 of its manifest where that is known."""

    name: str
    addresses: tuple[str, ...]
    manifest: str | None = None
    notes: tuple[str, ...] = ()


def resolve(given: str, extra: Sequence[str], target: Path, *, offline: bool) -> Candidates:
    """Where to fetch it from: `extra` first, then its catalog entry, or else what `places.find` says."""
    short, target = short_name(given), target.absolute()
    entry, notes = (None, []) if is_url(given) else catalog.look_up(given, offline=offline)
    found = list(entry.places) if entry else _by_name(given, bool(extra))
    addresses = [
        one  # the target cannot mend itself
        for one in dict.fromkeys([*extra, *found])
        if is_url(one) or absolute(one) != target
    ]
    return Candidates(short, tuple(addresses), entry.manifest if entry else None, tuple(notes))


def unknown(candidates: Candidates, reasons: Sequence[str], offline: bool) -> NotFoundError:
    """The error for a dataset that no place gave: each place with its reason, and what to do."""
    reasons = [*(reasons or ["no place: none is known but the folder to write to"])]
    return catalog.unknown_dataset(candidates.name, reasons, candidates.notes, offline=offline)


def _by_name(given: str, more: bool) -> list[str]:
    try:
        store = places.find(given)
    except NotFoundError:
        if not more:
            raise
        return []
    named = not is_url(given) and not Path(given).is_absolute() and not given.startswith(".")
    repo_id = given if "/" in given else f"{places.NAMESPACE}/{given}"
    on_hub = [f"hf://datasets/{repo_id}"] if named and given.count("/") <= 1 else []
    return list(dict.fromkeys([store.address, *on_hub]))


def short_name(given: str) -> str:
    """The name of a dataset for short: what its folder is called.

    >>> [short_name(one) for one in ("shift/toy", "hf://datasets/lab/toy@v2", "/data/toy/")]
    ['toy', 'toy', 'toy']
    """
    text = given.rstrip("/").removesuffix("/manifest.json")
    if not is_url(text) and (text.startswith((".", "/", "~")) or text.count("/") > 1):
        text = str(absolute(text))  # such as `.`
    return text.rpartition("/")[2].partition("@")[0]
