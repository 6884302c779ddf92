"""VLCS in both forms, Office-Home, Office-31, VisDA-2017 and SVIRO in small, with the odd cases of each."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from hashlib import md5
from pathlib import Path

from tests.builders.replicas.drawing import picture, put, put_odd

VLCS = {"Caltech101": "CALTECH", "LabelMe": "LABELME", "SUN09": "SUN", "VOC2007": "PASCAL"}
VLCS_LABELS = ("bird", "car", "chair", "dog", "person")


def vlcs(root: Path, each: int = 10) -> Mapping[str, int]:
    """DomainBed's form; a picture of SUN09 lies in two classes."""
    counts: Counter[str] = Counter()
    for domain, label, number, data in _vlcs_pictures(each):
        name = md5(f"{domain}{label}{number}".encode(), usedforsecurity=False).hexdigest()
        put(root, f"VLCS/{domain}/{label}/{name}.jpg", data)
        counts[domain] += 1
    counts["LabelMe"] += len(put_odd(root, "VLCS/LabelMe/dog"))
    return counts


def vlcs_of_dassl(root: Path, each: int = 10) -> Mapping[str, int]:
    """The other form, with the same pictures: all but the test are there twice, names recur."""
    counts: Counter[str] = Counter()
    for domain, label, number, data in _vlcs_pictures(each):
        part = "test" if number % 10 >= 7 else "crossval" if number % 10 >= 6 else "train"
        place = f"VLCS/{VLCS[domain]}/%s/{VLCS_LABELS.index(label)}/%s_imgs_{number}.jpg"
        put(root, place % (part, part), data)
        if part != "test":
            put(root, place % ("full", "full"), data)
        counts[domain] += 1
    odd = put_odd(root, "VLCS/LABELME/test/3")
    for file in odd.values():  # the same bytes as in the other form
        other = file.replace("LABELME/test/3", "LabelMe/dog")
        put_odd(root / "other", "VLCS/LabelMe/dog")
        (root / file).write_bytes((root / "other" / other).read_bytes())
    shutil.rmtree(root / "other")
    counts["LabelMe"] += len(odd)
    return counts


def _vlcs_pictures(each: int):
    for domain in VLCS:
        for label in VLCS_LABELS:
            for number in range(each):
                twin = domain == "SUN09" and number == 0 and label in ("car", "person")
                yield domain, label, number, picture("twin" if twin else f"{domain} {label} {number}")


def office_home(root: Path, each: int = 10) -> Mapping[str, int]:
    """A few of its classes; their order is not that of their names."""
    top = "OfficeHomeDataset_10072016"
    counts: Counter[str] = Counter()
    for domain in ("Art", "Clipart", "Product", "Real World"):
        for label in ("Alarm_Clock", "Drill", "TV", "Table"):
            for number in range(1, each + 1):
                put(root, f"{top}/{domain}/{label}/{number:05}.jpg", picture(f"{domain} {label} {number}"))
                counts[domain] += 1
    counts["Art"] += len(put_odd(root, f"{top}/Art/TV"))
    put(root, f"{top}/ImageInfo.csv", "Domain,Class,Image\n")
    put(root, f"{top}/imagelist.txt", "Art/TV/00001.jpg\n")
    return counts


def office31(root: Path, each: int = 10) -> Mapping[str, int]:
    """With the folder between domain and class."""
    top = "domain_adaptation_images"
    counts: Counter[str] = Counter()
    for domain in ("amazon", "dslr", "webcam"):
        for label in ("bike", "mug", "back_pack"):
            for number in range(1, each + 1):
                name = f"frame_{number:04}.jpg"
                put(root, f"{top}/{domain}/images/{label}/{name}", picture(f"{domain} {label} {number}"))
                counts[domain] += 1
    counts["dslr"] += len(put_odd(root, f"{top}/dslr/images/mug"))
    return counts


def visda(root: Path, each: int = 10) -> Mapping[str, int]:
    """Two views of each object; the flat test has one picture that no list names."""
    counts: Counter[str] = Counter()
    lists: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for number, label in ((0, "aeroplane"), (2, "bus"), (10, "train")):
        for count in range(each):
            for view in range(2):
                name = f"src_{count}_{90 * view}_0_0.png"
                put(root, f"train/{label}/{name}")
                lists["train"].append(f"{label}/{name} {number}")
            put(root, f"validation/{label}/{label}_{count}.jpg")
            lists["validation"].append(f"{label}/{label}_{count}.jpg {number}")
            name = f"{md5(f'{number} {count}'.encode(), usedforsecurity=False).hexdigest()}.jpg"
            put(root, f"test/trunk01/{name}")
            lists["test"].append(f"trunk01/{name} {number}")
            counts += Counter(train=2, validation=1, test=1)
    counts["train"] += len(put_odd(root, "train/bus", ".png"))
    put(root, f"test/trunk01/{'0' * 32}.jpg")
    for domain, lines in lists.items():
        put(root, f"{domain}/image_list.txt", "\n".join(lines) + "\n")
    return counts


def sviro(root: Path, each: int = 20) -> Mapping[str, int]:
    """Grey crops; the seats of an image have different classes, and some cars have two seats."""
    counts: Counter[str] = Counter()
    for car in ("tesla", "zoe", "i3"):
        for image in range(each):
            for seat in (0, 2) if car == "i3" else (0, 1, 2):
                label = (image + seat) % 7
                name = f"{car}_train_imageID_{image}_seatPosition_{seat}_GT_{label}.png"
                data = picture(f"{car} {image} {seat}", mode="L", kind="PNG")
                put(root, f"SVIRO_DOMAINBED/{car}/{label}/{name}", data)
                counts[car] += 1
    return counts
