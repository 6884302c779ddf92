"""Camelyon17, FMoW and CivilComments of WILDS in small, with the odd cases of each."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.builders.replicas.drawing import STRAY, picture, put

CAMELYON, FMOW, CIVIL = "camelyon17_v1.0", "fmow_v1.1", "civilcomments_v1.0"
CATEGORIES = ("airport", "multi-unit_residential", "zoo")
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
OTHERS = (
    "identity_any",
    "severe_toxicity",
    "obscene",
    "threat",
    "insult",
    "identity_attack",
    "sexual_explicit",
)
COMMENTS = (
    "Well said.",
    'He wrote "no", twice,\nand left.\n\n- Anna',
    "a;b\tc, d",
    "😀 👍🏽 naïve — 日本語",
    "'",
    '"',
    "=1+1",
    "NaN",
    " leading and trailing ",
)


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def camelyon17(root: Path, each: int = 2) -> Mapping[str, int]:
    """Ten slides a center, with patches of both labels; `each` patches of a slide and label.

    One patch is missing, one in no row, one listed twice; one is grey, one ends too soon, one is not
    transparent; a row has a tumor of 2, one a center of 7, one a split of 5.
    """
    counts: Counter[str] = Counter()
    rows: list[Sequence[object]] = []
    for slide in range(50):
        center, patient, node = slide // 10, f"{4 + 2 * (slide // 2):03}", slide % 5
        for number in range(2 * each):
            x, y, tumor, split = 3328 + 96 * number, 21792, number % 2, int(number == 0 and slide % 3 == 0)
            rows.append((patient, node, x, y, tumor, slide, center, split))
            name = patch(patient, node, x, y)
            data = picture(name, mode="RGBA", kind="PNG", side=12)
            data = picture(name, mode="L", kind="PNG") if (slide, number) == (0, 0) else data
            data = picture(name, mode="RGB", kind="PNG") if (slide, number) == (0, 1) else data
            data = picture(name, kind="PNG", side=64) if (slide, number) == (0, 2) else data
            put(root, name, data[: len(data) // 2] if (slide, number) == (0, 2) else data)
            counts[f"center_{center}"] += 1
    rows += [("200", 1, 0, 0, 0, 7, 0, 0), ("004", 0, 3328, 21792, 0, 0, 0, 0)]  # missing; listed twice
    for x, fault in enumerate(((2, 7, 0, 0), (0, 7, 7, 0), (0, 7, 0, 5))):
        rows.append(("201", 1, x, 0, *fault))
        put(root, patch("201", 1, x, 0))
    put(root, patch("300", 1, 0, 0))
    header = ("", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
    put(root, f"{CAMELYON}/metadata.csv", table([header, *((at, *row) for at, row in enumerate(rows))]))
    _mark(root, CAMELYON, "1.0")
    return counts


def patch(patient: str, node: int, x: int, y: int) -> str:
    """Where a patch lies."""
    folder = f"patient_{patient}_node_{node}"
    return f"{CAMELYON}/patches/{folder}/patch_{folder}_x_{x}_y_{y}.png"


#: By the year of a picture how many of each category and split there are.
FMOW_YEARS = {2002: 2, 2012: 4, 2013: 4, 2015: 3, 2016: 4, 2018: 2}


def fmow(root: Path) -> Mapping[str, int]:
    """Sequestered rows between others, each with its picture; countries without a region, or not known.

    A picture is missing, one more than there are rows is there; a row has an unknown category, one no time,
    one an unknown split; a New Year's Eve is of the next year in UTC; one is grey, one transparent, one cut.
    """
    counts: Counter[str] = Counter()
    rows: list[Sequence[object]] = []
    countries = ("USA", "FRA", "ATA", "XKX", "")
    for year, many in FMOW_YEARS.items():
        for category in CATEGORIES:
            for number in range(4 * many):
                split = ("seq", "train", "val", "test")[number % 4]
                time = (
                    f"{year}-12-31T22:30:00-05:00"
                    if (year, number) == (2012, 1)
                    else f"{year}-06-01T09:04:33Z"
                )
                period = "2002-2012" if year < 2013 else "2013-2015" if year < 2016 else "2016-2017"
                period = "2013-2015" if (year, number) == (2012, 1) else period
                counts[period] += split != "seq"
                rows.append((split, countries[number % 5], time, category))
    for fault in (("train", "USA", "2009-01-01T00:00:00Z", "harbor"), ("train", "USA", "soon", "zoo")):
        rows.append(fault)
    rows += [("extra", "USA", "2009-01-01T00:00:00Z", "zoo"), ("train", "USA", "2009-01-01T00:00:00Z", "zoo")]
    for at in range(len(rows) + 1):
        name = f"{FMOW}/images/rgb_img_{at}.png"
        data = picture(name, mode={1: "L", 2: "RGBA"}.get(at, "RGB"), kind="PNG", side=64 if at == 3 else 12)
        if at != len(rows) - 1:  # the picture of the last row is missing
            put(root, name, data[: len(data) // 2] if at == 3 else data)
    header = ("", "split", "country_code", "timestamp", "category")
    text = table([header, *((at, *row) for at, row in enumerate(rows))])
    put(root, f"{FMOW}/rgb_metadata.csv", text)
    regions = (("name", "alpha-2", "alpha-3", "region"), ("France", "FR", "FRA", "Europe"))
    more = (("United States, the", "US", "USA", "Americas"), ("Antarctica", "AQ", "ATA", ""))
    put(root, f"{FMOW}/country_code_mapping.csv", "\ufeff" + table([*regions, *more]))
    _mark(root, FMOW, "1.1")
    return counts


def civilcomments(root: Path, each: int = 40) -> Mapping[str, int]:
    """`each` comments of a split and label; one in five is exactly half toxic.

    Identities without a number; a text without toxicity, a toxicity without text, an unknown split; a text
    in two splits, with both labels.
    """
    counts: Counter[str] = Counter()
    header = ("", "id", "comment_text", "toxicity", "split", *IDENTITIES, *OTHERS)
    rows: list[Sequence[object]] = []

    def add(text: str, toxicity: object, split: str, identities: Sequence[object] = ("",) * 8) -> None:
        rows.append((len(rows), 59_000 + len(rows), text, toxicity, split, *identities, *(0.0,) * 7))

    for split in ("test", "train", "val"):
        for number in range(2 * each):
            toxic, text = number % 2, COMMENTS[number % len(COMMENTS)]
            toxicity = (0.5 if number % 10 == 1 else 0.8) if toxic else (0.4999 if number % 10 == 0 else 0.0)
            identities = [0.5 if number % 8 == one else "" if number % 3 else 0.1 for one in range(8)]
            add(f"{text} {split} {number}" if number > 8 else f"{text}{split}", toxicity, split, identities)
            counts[split] += 1
    for split, toxicity in (("train", 0.9), ("val", 0.1), ("test", 0.5)):
        add("The same, everywhere.", toxicity, split)
        counts[split] += 1
    add("", 0.9, "train")
    add(" \n", 0.9, "train")
    add("how toxic?", "", "train")
    add("where?", 0.1, "holdout")
    put(root, f"{CIVIL}/all_data_with_identities.csv", table([header, *rows]))
    _mark(root, CIVIL, "1.0")
    return counts


def _mark(root: Path, folder: str, version: str) -> None:
    """The empty file by which WILDS knows a folder, and what systems leave."""
    put(root, f"{folder}/RELEASE_v{version}.txt", "")
    for name in STRAY:
        put(root, f"{folder}/{name}", b"\0\0\0\1Bud1")
