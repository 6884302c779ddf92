"""Rebuild the letters of the glyph album, byte-equal, from the public npm packages of their fonts.

    python scripts/regenerate_glyphs.py [--packages DIR] [--check] [--lookalikes]

`families.tsv` says which families go in, in which class and under which origin, and pins the package of each.
DIR has the tarballs as `npm pack` names them; without it they are fetched, 300 MB in all. A family ships only
if its package has the whole text of the Open Font License or the Apache License, and no font file in it names
another one. `--check` writes nothing and fails where outlines, licences or attributions differ from what
ships. `--lookalikes` writes `lookalikes.tsv`: the pairs of families whose letters lie on each other, with the
verdict that `families.tsv` gives. Look at the new pairs, correct the origins, and run it again. It writes
`equal.tsv` too: the letters that the album leaves out because another origin draws the same pixels.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import tarfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from fontTools.pens.boundsPen import BoundsPen
from fontTools.pens.svgPathPen import SVGPathPen
from fontTools.pens.transformPen import TransformPen
from fontTools.ttLib import TTFont
from npm_packages import differences, member, opened, zipped
from tqdm import tqdm

from builders.albums.glyphs import ASSETS, LETTERS, GlyphAlbum
from builders.sample import Item

Row: TypeAlias = dict[str, str]
Face: TypeAlias = tuple[int, str]  # weight, normal or italic

SIDE = 1000  # of the square that an outline fills
SIZES = (48, 64)  # at which recipes draw letters
NEAR = 0.13  # families with a smaller distance are looked at
ITALIC = {"normal": "", "italic": "i"}

#: What the texts of licences say of themselves, and what the name table of a font file may say.
TEXTS = {
    "OFL-1.1": r"SIL OPEN FONT LICENSE\s+Version 1\.1",
    "Apache-2.0": r"Apache License\s+Version 2\.0",
}
NAMED = {
    "OFL-1.1": r"open ?font ?licen[sc]e|\bofl\b",
    "Apache-2.0": r"apache",
    "other": r"ubuntu|gnu|bitstream",
}


def faces_of(known: Sequence[Face]) -> list[Face]:
    """At most three: the regular face, a bold and an italic one; what a family lacks is left out."""
    regular = min(known, key=lambda face: (face[1] == "italic", abs(face[0] - 400), face))
    bold = [face for face in known if face[1] == regular[1] and face[0] >= regular[0] + 200]
    italic = [face for face in known if face[1] != regular[1]]
    chosen = [regular]
    chosen += [min(bold, key=lambda face: abs(face[0] - 700))] if bold else []
    chosen += [min(italic, key=lambda face: (abs(face[0] - 400), face))] if italic else []
    return chosen


def outlines(font: TTFont) -> str:
    """A line a letter: the letter, and its path in a square of `SIDE` units, as large as fits."""
    glyphs, names = font.getGlyphSet(), font.getBestCmap()
    lines = []
    for letter in LETTERS:
        glyph, bounds = glyphs[names[ord(letter)]], BoundsPen(glyphs)
        pen = SVGPathPen(glyphs, lambda at: str(round(at)))
        glyph.draw(bounds)
        left, bottom, right, top = bounds.bounds
        scale = SIDE / max(right - left, top - bottom)
        across, down = (SIDE - (right + left) * scale) / 2, (SIDE + (top + bottom) * scale) / 2
        glyph.draw(TransformPen(pen, (scale, 0, 0, -scale, across, down)))
        lines.append(f"{letter}\t{pen.getCommands()}\n")
    return "".join(lines)


def license_of(text: str, fonts: Sequence[TTFont]) -> str:
    """The licence of a package by its own file; empty where that is another one or a font disagrees."""
    stated = [name for name, pattern in TEXTS.items() if re.search(pattern, text)]
    in_fonts = " ".join(font["name"].getDebugName(number) or "" for font in fonts for number in (13, 14))
    named = {name for name, pattern in NAMED.items() if re.search(pattern, in_fonts, re.IGNORECASE)}
    return stated[0] if len(stated) == 1 and named <= set(stated) else ""


def attribution_of(name: str, terms: str, font: TTFont, text: str) -> str:
    """The family, the copyright notice of its regular face or of its licence on one line, and the licence."""
    begun = re.match(r"\s*(Copyright .*)", text)
    notice = font["name"].getDebugName(0) or (begun[1] if begun else "")
    notice = " ".join(notice.split()).rstrip(".")
    if re.search(r"[\x80-\x9f]", notice):  # written on a Macintosh, and read as Latin-1
        notice = notice.encode("latin-1").decode("mac-roman")
    return f"{name}: {notice}, {terms}" if notice else f"{name}, {terms}"


def read(tar: tarfile.TarFile, row: Row) -> tuple[Row, dict[str, bytes]]:
    """The row of a family as its package gives it, and its outlines by member name."""
    pattern = re.compile(rf"package/files/{re.escape(row['family'])}-latin-(\d+)-(normal|italic)\.woff")
    files = {(int(m[1]), m[2]): m[0] for name in tar.getnames() if (m := pattern.fullmatch(name))}
    chosen = faces_of(list(files))
    fonts = [TTFont(io.BytesIO(member(tar, files[face]))) for face in chosen]
    text = member(tar, "package/LICENSE").decode(errors="replace")
    terms = license_of(text, fonts)
    name = fonts[0]["name"].getDebugName(16) or fonts[0]["name"].getDebugName(1) or row["family"]
    found = {"license": terms, "attribution": attribution_of(name, terms, fonts[0], text)}
    made = {
        f"{row['family']}-{weight}{ITALIC[slant]}.tsv": outlines(font).encode()
        for (weight, slant), font in zip(chosen, fonts, strict=True)
    }
    return row | found, made


def masks(size: int = 24) -> tuple[list[str], np.ndarray[Any, np.dtype[np.float32]]]:
    """Every face, and the masks of its letters as one row of numbers of length 1."""
    album = GlyphAlbum(size=size)
    rows: dict[str, list[Any]] = {}
    for item in album.items():
        rows.setdefault(str(item.source["face"]), []).append(np.asarray(album.load(item))[..., 3] / 255)
    made = np.stack([np.concatenate([mask.ravel() for mask in of]) for of in rows.values()]).astype(
        np.float32
    )
    return list(rows), made


def lookalikes(rows: Sequence[Row]) -> str:
    """The text of `lookalikes.tsv`: pairs of families, and the least distance between faces of the two.

    The distance is the ink that only one of two letters has, as a share of the ink that either has, over all
    letters.
    """
    faces, ink = masks()
    shared = np.stack([np.minimum(face, ink).sum(axis=1) for face in ink])
    total = ink.sum(axis=1)
    distance = 1 - shared / (total[:, None] + total[None] - shared)
    family = np.array([face.rpartition("-")[0] for face in faces])
    places = {row["family"]: np.flatnonzero(family == row["family"]) for row in rows}
    lines = []
    for a, b in combinations(sorted(rows, key=lambda row: row["family"]), 2):
        least = float(distance[np.ix_(places[a["family"]], places[b["family"]])].min())
        merged = a["origin"] == b["origin"]
        if merged or least < NEAR:
            verdict = "merged" if merged else "kept apart"
            lines.append(f"{least:.3f}\t{a['family']}\t{b['family']}\t{verdict}\n")
    return "distance\tfamily_a\tfamily_b\tverdict\n" + "".join(sorted(lines))


def equals() -> str:
    """The text of `equal.tsv`: each letter that is left out, and the first of those that are drawn alike."""
    left_out: dict[str, str] = {}
    items = GlyphAlbum().items()
    for size in SIZES:
        album, drawn = GlyphAlbum(size=size), dict[bytes, Item]()
        for item in items:
            first = drawn.setdefault(album.load(item).tobytes(), item)
            if item.origin != first.origin:
                left_out[item.key] = first.key
        items = tuple(item for item in items if item.key not in left_out)
    return "key\tequals\n" + "".join(f"{key}\t{first}\n" for key, first in sorted(left_out.items()))


def text_of(rows: Sequence[Row]) -> str:
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]), delimiter="\t", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return stream.getvalue()


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Rebuild the outlines of the glyph album.")
    parser.add_argument("--packages", type=Path, help="folder with the tarballs (default: run npm pack)")
    parser.add_argument("--check", action="store_true", help="compare with what ships, write nothing")
    parser.add_argument("--lookalikes", action="store_true", help="write lookalikes.tsv and equal.tsv")
    arguments = parser.parse_args()
    table = ASSETS / "families.tsv"
    with table.open(encoding="utf-8", newline="") as handle:
        rows: list[Row] = list(csv.DictReader(handle, delimiter="\t"))
    if arguments.lookalikes:
        (ASSETS / "equal.tsv").write_text(
            "key\tequals\n", encoding="utf-8"
        )  # the album has every letter again
        text = lookalikes(rows)
        (ASSETS / "lookalikes.tsv").write_text(text, encoding="utf-8")
        (ASSETS / "equal.tsv").write_text(equals(), encoding="utf-8")
        print(f"lookalikes.tsv: {text.count('merged')} merged, {text.count('kept apart')} kept apart")
        return 0
    made, files = [], {}
    for row in tqdm(rows, unit="family"):
        package = (f"@fontsource/{row['family']}", row["version"], row["integrity"])
        with opened(*package, arguments.packages) as tar:
            found, of = read(tar, row)
        if not found["license"]:
            sys.exit(
                f"{row['family']}: its files do not agree on an open licence; take it out of {table.name}"
            )
        made.append(found)
        files |= of
    if not arguments.check:
        table.write_text(text_of(made), encoding="utf-8")
        (ASSETS / "outlines.zip").write_bytes(zipped(files))
        print(f"outlines.zip: {len(files)} faces of {len(made)} families")
        return 0
    wrong = differences(ASSETS / "outlines.zip", files)
    wrong += [] if table.read_text(encoding="utf-8") == text_of(made) else [f"{table.name}: other terms"]
    print("\n".join(wrong) or f"{len(files)} faces and the terms of {len(made)} families are as they ship.")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
