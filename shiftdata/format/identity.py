"""What a dataset is, whatever files hold it: hashes over keys, labels and image hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from shiftdata.stable import content_hash


def base_content_id(rows: pa.Table, nuisance: str, labels: Sequence[str], nuisances: Sequence[str]) -> str:
    """The identity of a base: a hash over the sorted (key, label/nuisance, image sha256) of its rows.

    Labels and nuisances count by name; the nuisance of untouched content is empty.
    """
    columns = (rows[name].to_pylist() for name in ("key", "label", nuisance, "sha256"))
    lines = sorted(
        f"{key}\t{labels[label]}/{'' if number is None else nuisances[number]}\t{digest.hex()}"
        for key, label, number, digest in zip(*columns, strict=True)
    )
    return content_hash(*lines)


def dataset_content_id(of_bases: Mapping[str, str]) -> str:
    """The identity of a dataset: a hash over the identities of its bases, by name."""
    return content_hash(*sorted(f"{name}={identity}" for name, identity in of_bases.items()))
