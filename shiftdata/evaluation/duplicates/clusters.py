"""Clusters of near-duplicates, their order, their sentence, and the file that keeps the last result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata import Metadata
from shiftdata.files import cache_folder, write_text
from shiftdata.untrusted.texts import read_json

#: How the closest pair of a cluster agrees.
Kind: TypeAlias = Literal["equal bytes", "near", "mirrored"]
KINDS: tuple[Kind, ...] = ("equal bytes", "near", "mirrored")
#: Raised where earlier files must not be read again.
VERSION = 1


class Pairs(NamedTuple):
    """Pairs of rows that are near-duplicates, their distances, and the places of their kinds in `KINDS`."""

    rows: IntArray
    distance: NDArray[np.float64]
    kind: IntArray


@dataclass(frozen=True)
class Member:
    """An example of a cluster; `distance` is that to the nearest other one."""

    key: str
    origin: str
    split: str
    label: str
    nuisance: str
    distance: float


@dataclass(frozen=True)
class Cluster:
    """Examples of at least two origins that show the same; `distance` is that of the closest pair.

    Where a cluster lies in several splits, the closest pair across splits counts.
    """

    distance: float
    kind: Kind
    members: tuple[Member, ...]

    @property
    def splits(self) -> tuple[str, ...]:
        used = {member.split for member in self.members}
        return tuple(split for split in SPLITS if split in used)

    @property
    def across(self) -> bool:
        return len(self.splits) > 1

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(member.label for member in self.members))

    @property
    def rank(self) -> tuple[int, float, str]:
        """Training set and another one first, then other splits, then within a split; by distance."""
        place = 2 if not self.across else 0 if "train" in self.splits else 1
        return place, self.distance, self.members[0].key


@dataclass(frozen=True)
class Duplicates:
    """The near-duplicates of a base: clusters in order of their rank.

    `compared` counts the examples that were compared, `model` names what proposed candidates besides pixels.
    """

    dataset: str
    base: str
    content_id: str
    modality: str
    model: str
    threshold: float
    compared: int
    clusters: tuple[Cluster, ...]

    @property
    def across(self) -> int:
        """The number of clusters that lie in several splits."""
        return sum(cluster.across for cluster in self.clusters)

    @property
    def mixed(self) -> int:
        """The number of clusters whose examples have different labels."""
        return sum(len(cluster.labels) > 1 for cluster in self.clusters)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"version": VERSION}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Duplicates:
        """Read what `to_dict` gives; anything else is a `ValueError`, `TypeError` or `KeyError`."""
        if raw.pop("version") != VERSION:
            raise ValueError("it is of another version")
        clusters = [
            Cluster(cluster["distance"], cluster["kind"], tuple(Member(**of) for of in cluster["members"]))
            for cluster in raw.pop("clusters")
        ]
        return cls(**raw, clusters=tuple(clusters))


def summary_of(duplicates: Duplicates) -> str:
    """Say in a sentence what was found."""
    compared, total = f"{duplicates.compared:,} originals", len(duplicates.clusters)
    if not total:
        return f"No near-duplicates among {compared}"
    if not duplicates.across:
        return f"No near-duplicates across splits among {compared}; {_clusters(total)} within a split"
    verb = "lies" if duplicates.across == 1 else "lie"
    inside = f"; {_clusters(total - duplicates.across)} within a split" if total > duplicates.across else ""
    return f"{_clusters(duplicates.across)} of near-duplicates {verb} on both sides of a split{inside}"


def _clusters(count: int) -> str:
    return f"{count:,} cluster{'' if count == 1 else 's'}"


def clusters_of(metadata: Metadata, pairs: Pairs) -> tuple[Cluster, ...]:
    """Join pairs that share an example into clusters, ranked."""
    if not len(pairs.rows):
        return ()
    rows, places = np.unique(pairs.rows, return_inverse=True)
    ends = places.reshape(-1, 2)
    group = _joined(len(rows), ends)
    nearest = np.full(len(rows), np.inf)
    for end in ends.T:
        np.minimum.at(nearest, end, pairs.distance)
    members = _members(metadata, rows, nearest)
    splits = metadata.columns["split"][rows]
    apart = splits[ends[:, 0]] != splits[ends[:, 1]]
    order = np.lexsort((pairs.kind, pairs.distance, ~apart, group[ends[:, 0]]))  # the first of each counts
    _, first = np.unique(group[ends[order, 0]], return_index=True)
    clusters = []
    for pair in order[first]:
        mine = np.flatnonzero(group == group[ends[pair, 0]])
        ordered = sorted(mine.tolist(), key=lambda place: (splits[place], members[place].key))
        distance, kind = round(float(pairs.distance[pair]), 4), KINDS[pairs.kind[pair]]
        clusters.append(Cluster(distance, kind, tuple(members[place] for place in ordered)))
    return tuple(sorted(clusters, key=lambda cluster: cluster.rank))


def _joined(count: int, ends: IntArray) -> IntArray:
    """Return the smallest place that each one is joined with, by pairs of places."""
    parent = list(range(count))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for first, second in ends.tolist():
        low, high = sorted((root(first), root(second)))
        parent[high] = low
    return np.array([root(place) for place in range(count)], np.int64)


def _members(metadata: Metadata, rows: IntArray, nearest: NDArray[np.float64]) -> list[Member]:
    known = metadata.take(["key", "origin"], rows).to_pylist()
    columns = metadata.columns
    return [
        Member(
            record["key"],
            record["origin"] or "",
            list(SPLITS)[columns["split"][row]],
            _name(metadata.labels, metadata.label[row]),
            _name(metadata.nuisances, metadata.nuisance[row]),
            round(float(distance), 4),
        )
        for record, row, distance in zip(known, rows.tolist(), nearest, strict=True)
    ]


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number >= 0 else ""


def keep(duplicates: Duplicates) -> Path:
    """Write a result into the user's cache, where pages and `kept_duplicates` find it; return the file."""
    path = _kept(duplicates.content_id, duplicates.base)
    write_text(path, json.dumps(duplicates.to_dict(), ensure_ascii=False))
    return path


def kept_duplicates(manifest: Manifest, base: str) -> Duplicates | None:
    """Return the last result for this content of a base; None if there is none that can be read."""
    content_id = manifest.base(base).content_id
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        duplicates = Duplicates.from_dict(read_json(_kept(content_id, base)))
        if (duplicates.content_id, duplicates.base) == (content_id, base):
            return duplicates
    return None


def _kept(content_id: str, base: str) -> Path:
    return cache_folder("duplicates") / content_id[:32] / f"duplicates-{base}.json"
