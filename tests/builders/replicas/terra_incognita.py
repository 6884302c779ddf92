"""TerraIncognita in small: flat pictures, five JSON files whose numbers of categories mean other things."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from tests.builders.replicas.drawing import put, put_odd

PICTURES = "eccv_18_all_images_sm"
ANNOTATIONS = "eccv_18_annotation_files"
PARTS = ("train", "cis_val", "cis_test", "trans_val", "trans_test")
SHOWN = ("bird", "bobcat", "cat", "empty", "raccoon", "car")


def make(root: Path, each: int = 6) -> dict[str, int]:
    """Write the tree; give how many rows each location has: location 46 has no bird, 33 does not count."""
    counts: dict[str, int] = defaultdict(int)
    files = {part: _numbered(number) for number, part in enumerate(PARTS)}
    names = [file.rpartition("/")[2] for file in put_odd(root, PICTURES).values()]
    for location in (38, 43, 46, 100, 33):
        for label in SHOWN:
            for frame in range(0 if (location, label) == (46, "bird") else 3 * each):
                name = f"{location}-{label}-{frame}.jpg"
                if location == 38 and label == "cat" and frame < 3:
                    name = names[frame]
                else:
                    put(root, f"{PICTURES}/{name}")
                sequence = f"seq-{location}-{label}-{frame // 3}"
                # The first and second frame of a sequence are in other files.
                part = PARTS[frame % 3] if label != "empty" else PARTS[1 + frame % 4]
                labels = [label, "bird"] if label == "raccoon" and frame == 0 and location == 43 else [label]
                _annotate(files[part], name, location, sequence, labels)
                if location != 33 and label != "car":
                    counts[f"location_{location}"] += len(labels)
    _annotate(files["train"], "gone.jpg", 38, "seq-gone", ["cat"])
    put(root, f"{PICTURES}/extra.jpg")
    for part, stored in files.items():
        put(root, f"{ANNOTATIONS}/{part}_annotations.json", json.dumps(stored))
    return dict(counts)


def _numbered(file: int) -> dict[str, list[dict[str, object]]]:
    """A file with its categories, whose numbers have gaps."""
    categories = [{"id": 3 * (number + file) + 1, "name": name} for number, name in enumerate(SHOWN)]
    return {"images": [], "annotations": [], "categories": [*categories]}


def _annotate(
    stored: dict[str, list[dict[str, object]]], name: str, location: int, sequence: str, labels: list[str]
) -> None:
    number = {category["name"]: category["id"] for category in stored["categories"]}
    image = f"id-{name}"
    stored["images"].append({"id": image, "file_name": name, "location": location, "seq_id": sequence})
    for label in [*labels, labels[0]]:  # two boxes of the first
        one = {"id": f"{image}-{len(stored['annotations'])}", "image_id": image}
        stored["annotations"].append(one | {"category_id": number[label]})
