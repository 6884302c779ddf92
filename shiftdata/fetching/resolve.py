"""From a name or an address to places: those that were given, those of a catalog, this machine, the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftdata.errors import NotFoundError, ShiftdataError, not_found
from shiftdata.places import catalog
from shiftdata.places import search as places
from shiftdata.places.store import is_url


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
    if entry is None and given.startswith(f"{places.NAMESPACE}/"):
        entry, notes = catalog.look_up(short, offline=offline)
    found = list(entry.places) if entry else _by_name(given, bool(extra))
    addresses = [
        one  # the target cannot mend itself
        for one in dict.fromkeys([*extra, *found])
        if is_url(one) or Path(one).expanduser().absolute() != target
    ]
    return Candidates(short, tuple(addresses), entry.manifest if entry else None, tuple(notes))


def unknown(candidates: Candidates, reasons: Sequence[str], offline: bool) -> NotFoundError:
    """The error for a dataset that no place gave: each place with its reason, and what to do."""
    known = {path.name for path in places.local_datasets()} | _in_catalogs(offline)
    lines = [*(reasons or ["no place: none is known but the folder to write to"])]
    lines += [f"catalog: {note}" for note in candidates.notes]
    if not catalog.addresses():
        lines.append(f"catalogs: none (name one in ${catalog.VARIABLE})")
    advice = "Check the name and the network, or give a place that has it: --from FOLDER_OR_URL."
    if offline:
        advice = "Offline, only folders of this machine are asked; with the network, run "
        advice += f"`shiftdata fetch {candidates.name}`."
    hint = "\n  ".join(["Places that were asked:", *lines]) + f"\n{advice}"
    return not_found("dataset", candidates.name, known, hint)


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
        text = str(Path(text).expanduser().absolute())  # such as `.`
    return text.rpartition("/")[2].partition("@")[0]


def _in_catalogs(offline: bool) -> set[str]:
    names: set[str] = set()
    for address in catalog.addresses():
        if not (offline and is_url(address)):
            try:
                names |= set(catalog.Catalog.read(address).entries)
            except ShiftdataError:
                continue
    return names
