"""NICO++'s public part and DomainNet in small, with the odd cases of each."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.builders.replicas.drawing import put, put_odd

NICO = "track_1/track_1"
NUMBERS = {"hot air balloon": 0, "cat": 2, "car": 1}
CONTEXTS = ("dim", "grass", "rock", "autumn")

DOMAINNET = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
CLASSES = {"syringe": 300, "The_Mona_Lisa": 310, "tiger": 311, "t-shirt": 327}


def nico(root: Path, each: int = 10) -> Mapping[str, int]:
    """Two contexts are missing; names recur in classes; the test has no labels; lists of two contexts."""
    counts: Counter[str] = Counter()
    names: dict[str, list[str]] = {context: [] for context in CONTEXTS}
    for context in CONTEXTS:
        for label in NUMBERS:
            for number in range(each):
                name = f"{context}/{label}/{context}_{number:06}.jpg"
                put(root, f"{NICO}/public_dg_0416/train/{name}")
                names[context].append(f"{name} {NUMBERS[label]}")
                counts[context] += 1
    for number in range(5):
        name = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
        put(root, f"{NICO}/public_dg_0416/public_test_flat/{name}.jpg")
    put(root, f"{NICO}/dg_label_id_mapping.json", json.dumps(NUMBERS))
    for context in ("autumn", "rock", "grass", "dim"):
        lines = [f"D:\\NICO\\train\\{line}".replace("/", "\\") for line in names[context]]
        for list_, some in (("train", lines[:-6]), ("val", lines[-6:-3]), ("test", lines)):
            put(root, f"txtlist/NICO/{context}_{list_}.txt", "\r\n".join(some))
    counts["grass"] += len(put_odd(root, f"{NICO}/public_dg_0416/train/grass/cat"))
    return counts


def domainnet(root: Path, each: int = 10) -> Mapping[str, int]:
    """Lists with holes, one that names an absent file; an uncleaned file beside the cleaned ones."""
    counts: Counter[str] = Counter()
    for domain in DOMAINNET:
        lists: dict[str, list[str]] = {"train": [], "test": []}
        for label, number in CLASSES.items():
            for one in range(each):
                ending = "png" if domain == "quickdraw" else "jpg"
                stem = f"{number + 1}_{one}" if domain == "quickdraw" else f"{number + 1}_{one:06}"
                file = f"{domain}/{label}/{domain}_{stem}.{ending}"
                put(root, file)
                hole = {"t-shirt": "test", "syringe": "train"}.get(label) if domain == "painting" else None
                lists[hole or ("test" if one % 10 >= 7 else "train")].append(f"{file} {number}")
                counts[domain] += 1
        odd = put_odd(root, f"{domain}/tiger") if domain == "real" else {}
        lists["train"] += [f"{file} 311" for file in odd.values()]
        counts[domain] += len(odd)
        lists["train"] += [f"{domain}/tiger/{domain}_312_999999.jpg 311"]
        put(root, f"{domain}/tiger/{domain}_312_000777.jpg")  # of the uncleaned version
        for list_, lines in lists.items():
            put(root, f"txt/{domain}_{list_}.txt", "\n".join(lines) + "\n")
    return counts
