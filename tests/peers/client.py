"""Read built datasets as a user of plain `datasets` does, with nothing of ours installed.

    python tests/peers/client.py <folder with datasets> ...

Every config and split is loaded both ways and compared with the manifest and with the frozen keys. It needs
only `datasets`, so that it runs in the environment of any version: see `scripts/test_peers.sh`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq


def main(arguments: list[str]) -> int:
    """Check every dataset in the folders; 1 if any config is not as promised."""
    checked, wrong = 0, []
    for manifest in sorted(path for folder in arguments for path in Path(folder).glob("*/manifest.json")):
        stated = json.loads(manifest.read_text(encoding="utf-8"))
        for name, (base, sets) in configs(stated).items():
            wrong += list(problems(manifest.parent, stated, name, base, sets))
            checked += 1
    for line in wrong:
        print(line)
    print(f"datasets {datasets.__version__}: {checked} configs read both ways, {len(wrong)} problems")
    return 1 if wrong or not checked else 0


def configs(stated: dict[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """Every config that can be loaded, the base that its rows are from, and the key file of each set."""
    splits = dict.fromkeys(("train", "validation", "test"), "")
    named = {base["name"]: (base["name"], splits) for base in stated["bases"]}
    for split in stated["canonical_splits"]:
        if split["is_config"]:
            name = split["name"]
            named[name] = (split["base"], dict.fromkeys(split["sets"], f"protocols/{name}.parquet"))
    return named | {"metadata": (stated["default_base"], splits)}


def problems(
    folder: Path, stated: dict[str, Any], name: str, base: str, sets: dict[str, str]
) -> Iterator[str]:
    """What one config gives that it should not."""
    prepared = datasets.load_dataset(str(folder), name)
    streamed = datasets.load_dataset(str(folder), name, streaming=True)
    for split, keys in sets.items():
        where = f"{stated['name']}/{name}/{split}"
        hashes = expected(folder, base, split, keys)
        for way, rows in (("prepared", prepared[split]), ("streamed", streamed[split])):
            if rows.features["label"].names != stated["labels"]:
                yield f"{where}, {way}: the labels have other names"
            present = {row["key"]: digest(row, stated) for row in without_decoding(rows)}
            if name == "metadata":
                hashes = dict.fromkeys(hashes)
                present = dict.fromkeys(present)
            if present != hashes:
                yield f"{where}, {way}: {len(present)} rows, promised {len(hashes)}, or other examples"


def expected(folder: Path, base: str, split: str, keys: str) -> dict[str, bytes]:
    """The sha256 of each example that a split must give, by key."""
    files = folder / f"metadata/{base}" if keys else folder / f"metadata/{base}/{split}.parquet"
    metadata = pq.read_table(files, columns=["key", "sha256"])
    hashes = dict(zip(metadata["key"].to_pylist(), metadata["sha256"].to_pylist(), strict=True))
    if keys:
        frozen = pq.read_table(folder / keys).to_pylist()
        hashes = {row["key"]: hashes[row["key"]] for row in frozen if row["split"] == split}
    return hashes


def without_decoding(rows: Any) -> Any:
    if "image" in rows.features:
        return rows.cast_column("image", datasets.Image(decode=False))
    return rows


def digest(row: dict[str, Any], stated: dict[str, Any]) -> bytes | None:
    """The sha256 of a row's example, as the manifest's modality defines it."""
    held = [row[name] for name in stated["roles"]["example"] if name in row]
    if not held:
        return None
    if stated["roles"]["modality"] == "image":
        data = held[0]["bytes"]
    elif stated["roles"]["modality"] == "text":
        data = held[0].encode()
    else:
        data = json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode()
    return hashlib.sha256(data).digest()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
