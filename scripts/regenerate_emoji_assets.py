"""Rebuild the emoji album's zips, byte-equal, from the public npm packages.

    python scripts/regenerate_emoji_assets.py [--packages DIR] [--check] [--candidates]

`concepts.tsv` and `vendors.toml` are written by hand and say what goes in. DIR holds the tarballs as
`npm pack` names them; without it they are fetched by `npm pack`. Every tarball must have the sha512 that
`vendors.toml` pins; it is read in memory and never unpacked. `--check` writes nothing and fails where the
shipped members differ. `--candidates` writes `lookalikes.tsv`: the pairs of concepts whose pictures are near
each other, and every pair that shares an origin, with the verdict that `concepts.tsv` gives. Look at the
new pairs, correct the origins, and run it again.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from npm_packages import differences, member, opened, zipped
from PIL import Image

from builders.albums.emoji import ASSETS, EmojiAlbum

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Row: TypeAlias = dict[str, str]

NEAR = {True: (0.20, 0.16), False: (0.16, 0.12)}
"""Within a class, or across: a pair is a candidate below this mean, or this least, distance of vendors."""


def plain(hexcode: str) -> str:
    """A hexcode in lower case without the variation selector, which the packages write or leave out."""
    return "-".join(part for part in hexcode.lower().split("-") if part != "fe0f")


def svg_pictures(tar: tarfile.TarFile, rows: list[Row], terms: Mapping[str, Any]) -> dict[str, bytes]:
    """The SVG bodies of an icon set, exactly as its `icons.json` holds them; checks the view boxes."""
    icons, chars = (json.loads(member(tar, f"package/{name}.json")) for name in ("icons", "chars"))
    names = {plain(code): name for code, name in chars.items()}
    pictures = {}
    for row in rows:
        name = names[row["hexcode"]]
        while name not in icons["icons"]:
            alias = icons["aliases"][name]
            if set(alias) != {"parent"}:
                sys.exit(f"{row['concept']}: {name} is a turned copy, which this script does not draw.")
            name = alias["parent"]
        icon = icons["icons"][name]
        box = [icon.get(side, icons[side]) for side in ("width", "height")]
        expected = terms.get("view_box_of", {}).get(row["concept"], terms["view_box"])
        if box != expected or {"left", "top"} & set(icon):
            sys.exit(f"{row['concept']}: the view box is {box}, vendors.toml says {expected}.")
        pictures[f"{row['concept']}.svg"] = icon["body"].encode()
    return pictures


def webp_pictures(tar: tarfile.TarFile, rows: list[Row]) -> dict[str, bytes]:
    """The original WebP files of a package that names them by hexcode."""
    names = {plain(Path(name).stem): name for name in tar.getnames() if name.endswith(".webp")}
    return {f"{row['concept']}.webp": member(tar, names[row["hexcode"]]) for row in rows}


def rebuild(folder: Path | None, rows: list[Row], vendors: Mapping[str, Any]) -> dict[str, dict[str, bytes]]:
    """Every vendor's pictures by member name, out of the tarballs in `folder`, or fetched ones."""
    made = {}
    for vendor, terms in vendors.items():
        with opened(terms["package"], terms["version"], terms["integrity"], folder) as tar:
            made[vendor] = svg_pictures(tar, rows, terms) if "view_box" in terms else webp_pictures(tar, rows)
    return made


def thumbnails(rows: list[Row], vendor: str) -> tuple[Array, Array]:
    """All pictures of a vendor at 24 px: the colours on mid grey, and the alpha masks."""
    album = EmojiAlbum((vendor,), size=64)
    items = {str(item.source["concept"]): item for item in album.items()}
    pictures = []
    for row in rows:
        image = album.load(items[row["concept"]]).resize((24, 24), Image.Resampling.BOX)
        pictures.append(np.asarray(image, np.float64) / 255)
    stack = np.stack(pictures)
    alpha = stack[..., 3:]
    return stack[..., :3] * alpha + 0.5 * (1 - alpha), alpha


def spread(a: Array, b: Array) -> Array:
    """Root mean square difference between every picture of `a` and every picture of `b`."""
    x, y = a.reshape(len(a), -1), b.reshape(len(b), -1)
    square = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T
    return np.asarray(np.sqrt(np.maximum(square, 0) / x.shape[1]))


def distances(rows: list[Row], vendors: list[str]) -> Array:
    """Vendor x concept x concept: the mean of colour and mask distance, mirrored where that is nearer."""
    made = []
    for vendor in vendors:
        colour, mask = thumbnails(rows, vendor)
        straight = spread(colour, colour) + spread(mask, mask)
        mirrored = spread(colour, colour[:, :, ::-1]) + spread(mask, mask[:, :, ::-1])
        made.append(np.minimum(straight, mirrored) / 2)
    return np.stack(made)


def lookalikes(rows: list[Row], vendors: list[str]) -> str:
    """The text of `lookalikes.tsv`: candidate and merged pairs with the mean distance over the vendors."""
    found = distances(rows, vendors)
    mean, least = found.mean(0), found.min(0)
    lines = []
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[i + 1 :], i + 1):
            same = a["label"] == b["label"]
            merged = same and a["origin"] == b["origin"]
            if merged or mean[i, j] < NEAR[same][0] or least[i, j] < NEAR[same][1]:
                origin, verdict = (a["origin"], "merged") if merged else ("-", "kept apart")
                first, second = sorted((a["concept"], b["concept"]))
                lines.append(f"{origin}\t{first}\t{second}\t{mean[i, j]:.2f}\t{verdict}\n")
    return "origin\tconcept_a\tconcept_b\tdistance\tverdict\n" + "".join(sorted(lines))


def run(folder: Path | None, vendors: Mapping[str, Any], check: bool) -> int:
    """Rebuild from the packages: compare with what ships, or write it.

    Members decide the comparison: another release of zlib may pack equal members into other bytes.
    """
    made = rebuild(folder, concepts(), vendors)
    if not check:
        for vendor, pictures in made.items():
            (ASSETS / f"{vendor}.zip").write_bytes(zipped(pictures))
            print(f"{vendor}.zip: {len(pictures)} pictures")
        return 0
    wrong = [line for vendor in made for line in differences(ASSETS / f"{vendor}.zip", made[vendor])]
    if wrong:
        print("\n".join(wrong))
        return 1
    equal = sum(zipped(made[vendor]) == (ASSETS / f"{vendor}.zip").read_bytes() for vendor in made)
    print(f"All members are equal to the packages'; {equal} of {len(made)} zips are byte-equal.")
    return 0


def concepts() -> list[Row]:
    """The rows of `concepts.tsv`."""
    with (ASSETS / "concepts.tsv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Rebuild the emoji album's assets from the npm packages.")
    parser.add_argument("--packages", type=Path, help="folder with the tarballs (default: run npm pack)")
    parser.add_argument("--check", action="store_true", help="compare with what ships, write nothing")
    parser.add_argument("--candidates", action="store_true", help="write lookalikes.tsv anew")
    arguments = parser.parse_args()
    vendors = tomllib.loads((ASSETS / "vendors.toml").read_text(encoding="utf-8"))
    if arguments.candidates:
        text = lookalikes(concepts(), list(vendors))
        (ASSETS / "lookalikes.tsv").write_text(text, encoding="utf-8")
        print(f"lookalikes.tsv: {text.count('merged')} merged, {text.count('kept apart')} kept apart")
        return 0
    return run(arguments.packages, vendors, arguments.check)


if __name__ == "__main__":
    raise SystemExit(main())
