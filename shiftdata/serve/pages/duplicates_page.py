"""The data of a dataset's page of near-duplicates, from the result that `shiftdata duplicates` kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.duplicates import Cluster, Duplicates, base_compared, kept_duplicates
from shiftdata.serve.pages.rows import Rows

#: Clusters of a page, and examples of each: the JSON file has all.
MOST_CLUSTERS, MOST_MEMBERS = 300, 24
MOST_TEXT = 600


def last_duplicates(manifest: Manifest) -> Duplicates | None:
    """Return the last result for the base that is compared by default, or else for any base."""
    first = base_compared(manifest)
    names = [first, *(base.name for base in manifest.ordered_bases if base.name != first)]
    results = (kept_duplicates(manifest, name) for name in names)
    return next((found for found in results if found is not None), None)


def with_duplicates(
    rows: Rows, sample: Mapping[tuple[int, int], IntArray]
) -> Mapping[tuple[int, int], IntArray]:
    """Add the examples of the clusters to those that pages without a server show."""
    found = last_duplicates(rows.dataset.manifest)
    if found is None or found.base != rows.base:
        return sample
    chosen, known = dict(sample), rows.metadata
    for row in np.concatenate([at for _, at in _shown(found, rows)] or [np.empty(0, np.int64)]).tolist():
        group = int(known.label[row]), int(known.nuisance[row])
        mine = chosen.get(group, np.empty(0, np.int64))
        if row not in mine:
            chosen[group] = np.append(mine, row)
    return chosen


def clusters_data(
    found: Duplicates, rows: Rows, sample: Mapping[tuple[int, int], IntArray]
) -> dict[str, Any]:
    """Return the clusters as the page shows them; `sample` has the tiles of a page without a server."""
    clusters = []
    for cluster, at in _shown(found, rows):
        known = {member.key: member for member in cluster.members}
        members = rows.listed(at)
        for record in members:
            member, tiles = known[record["key"]], sample.get((record["label"], record["nuisance"]))
            record |= {"origin": member.origin, "distance": member.distance}
            if tiles is not None:
                record["tile"] = int(np.flatnonzero(tiles == record["row"])[0])
            if isinstance(record.get("text"), str):
                record["text"] = record["text"][:MOST_TEXT]
        clusters.append(
            {
                "distance": cluster.distance,
                "kind": cluster.kind,
                "members": members,
                "more": len(cluster.members) - len(members),
            }
        )
    more = len(found.clusters) - len(clusters)
    return {"base": found.base, "threshold": found.threshold, "clusters": clusters, "more": more}


def _shown(found: Duplicates, rows: Rows) -> list[tuple[Cluster, IntArray]]:
    """Return the first clusters with the rows of their first members; a file of a cache may name others."""
    shown = []
    for cluster in found.clusters[:MOST_CLUSTERS]:
        keys = list(dict.fromkeys(member.key for member in _spread(cluster)))
        at = rows.metadata.rows_of(pa.array(keys, pa.large_string()))
        shown.append((cluster, at[at >= 0]))
    return shown


def _spread(cluster: Cluster) -> list[Any]:
    """Return the first members of a large cluster, from each of its splits."""
    each = MOST_MEMBERS // len(cluster.splits)
    return [
        member
        for split in cluster.splits
        for member in [member for member in cluster.members if member.split == split][:each]
    ]
