"""`<set>/<label>/<key>.jpg`: torchvision's ImageFolder, and `imagefolder` of `datasets`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shiftdata.exporting.folders.layout import Found, Layout, Texts, copies, image_files
from shiftdata.exporting.folders.plan import README, Entry, Plan
from shiftdata.exporting.folders.record import Record


def _stems(plan: Plan, entry: Entry) -> Sequence[str]:
    return copies(f"{plan.sets[entry.set]}/{plan.classes[entry.label].folder}/{entry.key}", entry.times)


def _texts(plan: Plan, paths: Sequence[Sequence[str]]) -> Texts:
    yield README, _readme(plan)


def _readme(plan: Plan) -> Iterable[str]:
    """`datasets` guesses splits from names, and takes `source_train` or a class `train` for one: this says.

    No metadata.csv: where there is one, `datasets` gives no labels.
    """
    files = [{"split": _split(name), "path": f"{name}/**"} for name in plan.sets.values()]
    configs = [{"config_name": "default", "data_files": files}]
    first = next(iter(plan.sets.values()))
    return [
        "---",
        f"configs: {json.dumps(configs)}",
        "---",
        "",
        f"{plan.manifest.title} ({plan.manifest.name} {plan.manifest.version}), {plan.told}, as folders:",
        "`<set>/<class>/<key>`. `keys.csv` has what else is known of each picture.",
        "",
        '- `datasets.load_dataset("<this folder>")` gives the sets as splits.',
        f'- `torchvision.datasets.ImageFolder("<this folder>/{first}")` reads a set.',
        "",
        "Both number the classes by the sorted names of their folders; `class_to_label` in `shiftdata.json`",
        "has the numbers of the dataset itself.",
    ]


def _split(name: str) -> str:
    """A set as a split of `datasets`, whose names have letters, digits, dots and underscores alone."""
    return "".join(one if one.isalnum() or one in "._" else "_" for one in name)


def _read(folder: Path, record: Record) -> Iterator[Found]:
    sets = {told["folder"]: name for name, told in record.sets.items()}
    labels = {told["folder"]: told["name"] for told in record.class_to_label}
    for parts in image_files(folder, depth=2):
        at, label = parts[:2]
        yield Found(sets.get(at, at), "/".join(parts), labels.get(label, label), None)


def _check(plan: Plan) -> list[str]:
    notes = []
    for name, numbers in plan.of_sets():
        present = {plan.entries[number].label for number in numbers}
        if len(present) < len(plan.classes):
            notes.append(
                f"{name} has {len(present)} of {len(plan.classes)} classes, which torchvision's ImageFolder "
                "numbers without gaps: take labels by the folders' names"
            )
    return notes


IMAGEFOLDER = Layout(
    stems=_stems,
    texts=_texts,
    read=_read,
    check=_check,
    in_folders=True,
)
