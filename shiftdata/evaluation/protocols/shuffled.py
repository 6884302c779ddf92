"""The cuts of released codes: a shuffle of all files of a domain, in an order that the files give."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.metadata import Metadata

#: The share of a domain that DomainBed sets aside (out), and the share that DomainBed-v2 trains on.
OUT, TRAIN = 0.2, 0.8


def shuffled_cut(metadata: Metadata, seed: int) -> NDArray[np.bool_]:
    """Mark the rows in DomainBed's in splits; the others are in the out splits.

    Its environments are the sorted domains, the files of one are in ImageFolder's order: sorted classes, in
    each the sorted names.
    """
    names = pa.array(metadata.labels).take(pa.array(metadata.label))
    order = pc.sort_indices(
        pa.table({"label": names, "file": metadata.listing.files}),
        [("label", "ascending"), ("file", "ascending")],
    ).to_numpy()
    inside = np.ones(len(metadata), bool)
    for number, domain in enumerate(sorted(metadata.nuisances)):
        files = order[metadata.nuisance[order] == metadata.nuisances.index(domain)]
        shuffled = _shuffled(len(files), seed_of(seed, number))
        inside[files[shuffled[: int(len(files) * OUT)]]] = False
    return inside


def listed_cut(metadata: Metadata, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the rows that DomainBed-v2 would train on if no domain were tested, and all rows of its lists."""
    places = metadata.listing.places_in("", metadata.name)
    trains = np.zeros(len(metadata), bool)
    for number in range(len(metadata.nuisances)):
        files = np.flatnonzero((metadata.nuisance == number) & (places >= 0))
        files = files[np.argsort(places[files])]
        trains[files[_shuffled(len(files), seed)[: int(len(files) * TRAIN)]]] = True
    return trains, places >= 0


def seed_of(*parts: int) -> int:
    """Return the seed that DomainBed makes of some numbers.

    >>> seed_of(0, 1)
    1514274641
    """
    digest = hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest()
    return int(digest, 16) % 2**31


def _shuffled(count: int, seed: int) -> NDArray[np.int64]:
    order = np.arange(count)
    np.random.RandomState(seed).shuffle(order)
    return order
