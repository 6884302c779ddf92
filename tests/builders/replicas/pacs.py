"""PACS in small: sketches of photographs, names that recur in classes, both forms of lists."""

from __future__ import annotations

from pathlib import Path

from tests.builders.replicas.drawing import put, put_odd

LABELS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
TOP = "PACS"


def make(root: Path, each: int = 20) -> dict[str, int]:
    """Write the tree; give how many pictures each domain has."""
    counts = dict.fromkeys(("art_painting", "cartoon", "photo", "sketch"), 0)
    for label in LABELS:
        for number in range(each):
            put(root, f"{TOP}/art_painting/{label}/pic_{number:03}.jpg")
            put(root, f"{TOP}/cartoon/{label}/pic_{number:03}.jpg")
            name = f"n02103406_{number}" if number % 2 else f"056_{number:04}"
            put(root, f"{TOP}/photo/{label}/{name}.jpg")
            sketches = [f"{name}-1", f"{name}-2"] if number % 2 else [f"{5000 + number}"]
            for sketch in sketches:
                put(root, f"{TOP}/sketch/{label}/{sketch}.png")
            for domain, more in (
                ("art_painting", 1),
                ("cartoon", 1),
                ("photo", 1),
                ("sketch", len(sketches)),
            ):
                counts[domain] += more
    counts["photo"] += len(put_odd(root, f"{TOP}/photo/dog"))
    for domain in counts:
        files = sorted((root / TOP / domain).glob("*/*.[jp][pn]g"))
        names = [file.relative_to(root / TOP).as_posix() for file in files]
        numbers = [LABELS.index(file.parent.name) for file in files]
        _put_lists(root, domain, names, numbers)
    return counts


def _put_lists(root: Path, domain: str, names: list[str], numbers: list[int]) -> None:
    """The lists of the authors, 1-based; JigenDG's 0-based with foreign paths, DomainBed-v2's in no order."""
    lines = [f"{name} {number + 1}" for name, number in zip(names, numbers, strict=True)]
    put(root, f"{TOP}/{domain}_crossval_kfold.txt", "\n".join(lines[::10]) + "\n")
    rest = [line for place, line in enumerate(lines) if place % 10]
    absent = [f"{domain}/dog/not_there.jpg 1"]
    put(root, f"{TOP}/{domain}_train_kfold.txt", "\r\n".join(rest + absent) + "\r\n")
    put(root, f"{TOP}/{domain}_test_kfold.txt", "\n".join(lines) + "\n")
    foreign = [f"/home/some body/PACS/{name} {number}" for name, number in zip(names, numbers, strict=True)]
    put(root, f"{TOP}/{domain}_test.txt", "\n".join(foreign) + "\n")
    short = domain.replace("art_painting", "art")
    put(root, f"txtlist/PACS/{short}.txt", "\n".join(foreign[::3] + foreign[1::3] + foreign[2::3]) + "\n")
