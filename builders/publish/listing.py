"""A place that holds a dataset, put into a catalog."""

from __future__ import annotations

from pathlib import Path

from shiftdata.places.catalog import Catalog, Entry


def entries_of(path: Path) -> dict[str, Entry]:
    """The entries of a catalog; of one that is not there yet, none."""
    return dict(Catalog.read(path).entries) if path.exists() else {}


def list_place(path: Path, name: str, manifest_hash: str, address: str) -> str:
    """Add a place to the entry of a dataset; places of another version go. Give what was done."""
    entries = entries_of(path)
    earlier = entries.get(name)
    same = earlier is not None and earlier.manifest == manifest_hash
    kept = earlier.places if earlier is not None and same else ()
    entries[name] = Entry(manifest_hash, (*kept, *([address] if address not in kept else [])))
    Catalog(entries).write(path)
    gone = [] if same or earlier is None else [place for place in earlier.places if place != address]
    dropped = f"; dropped, as of another version: {', '.join(gone)}" if gone else ""
    return f"{path}: {name} is at {', '.join(entries[name].places)}{dropped}"
