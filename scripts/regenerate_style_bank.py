"""Rebuild the style bank in builders/shifts/styles/assets: draw, encode, measure and choose the styles.

    python scripts/regenerate_style_bank.py              # everything; about 15 minutes on one core
    python scripts/regenerate_style_bank.py --no-probe   # codes only, of the styles that ship
    python scripts/regenerate_style_bank.py --check      # codes only, compared with what ships
    python scripts/regenerate_style_bank.py --no-probe --sheets DIR  # also a contact sheet to look at

Every candidate style is measured on frozen ImageNet features (EfficientNet-Lite0,
128 px) of emoji on a plain light ground, 20 classes. Emoji origins and style pictures are cut into three
parts each; a linear probe trains on two and is tested on the third, so neither an origin nor a style picture
is in both, and its accuracy is the mean of the three turns.

fidelity       accuracy of a content probe on pictures of one style / of the same probe on untouched pictures
separability   recall of a style in a style probe over all candidates
kept           of the candidates with a fidelity of at least 0.6, the 20 with the highest separability

This fidelity only sorts out candidates that no strength would save. Accuracies are of 720 pictures, and the
probe reads faint outlines (pale_cream, mist) better than an eye or a small network does. How well the kept
styles are recognised in a dataset, and in which strength, `scripts/calibrate_styles.py` measures.

The table was measured when the album had 19 concepts more.

Candidates go by the name of what is drawn. Those that are kept get another in the bank (`NAMES`): what one
sees of a picture that is painted in them is seldom what was drawn.

The probes need the assets group of pyproject.toml (torch, scikit-learn, EfficientNet-Lite0); codes do not.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from style_pictures import DRAWINGS, NAMES, STYLES, description, draw_style, seed_names
from tqdm import tqdm

from builders.albums.emoji import EmojiAlbum
from builders.sample import Item
from builders.shifts.steps import OnGround
from builders.shifts.styles import network
from builders.shifts.styles.bank import BANK, StyleBank
from builders.shifts.styles.network import CODE_LENGTH
from shiftdata import stable
from shiftdata.data.loading.frozen import FrozenFeatures

CANDIDATES = BANK.with_name("candidates.tsv")
KEPT = 20
STYLE_PICTURES = 40
MIN_FIDELITY = 0.6
PARTS = 3  # of the origins and of the style pictures
SIDE = 128
TOLERANCE = 1e-3  # between processor families; codes are of size 1, and equal on the same machine
Floats: TypeAlias = NDArray[np.float32]
PerStyle: TypeAlias = dict[str, Floats]


@dataclass(frozen=True)
class Content:
    """An untouched picture to stylize, and the part of the data it belongs to."""

    key: str
    label: str
    part: int
    image: Image.Image


@dataclass(frozen=True)
class Measure:
    """What was measured of one candidate."""

    style: str
    fidelity: float
    original_accuracy: float
    accuracy: float
    recall: float
    taken_for: str  # the style it is most often confused with


def load_contents(pictures: int) -> list[Content]:
    """The same number of pictures for every class and part, over as many origins as possible."""
    album, ground = EmojiAlbum(size=SIDE), OnGround(size=SIDE)
    contents = []
    for label in album.labels:
        items = [item for item in album.items() if item.label == label]
        origins = sorted({item.origin for item in items})
        place = dict(zip(origins, stable.ranks(origins, "style-bank").tolist(), strict=True))
        for part in range(PARTS):
            mine = _round_robin([item for item in items if place[item.origin] % PARTS == part])
            for item in mine[: pictures // PARTS]:
                image = ground.compose(album.load(item))
                contents.append(Content(item.key, label, part, image))
    return contents


def _round_robin(items: list[Item]) -> list[Item]:
    """One item of every origin in stable-hash order, then the second ones, and so on."""
    turns: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: stable.hash64("style-bank", item.key)):
        turns.setdefault(item.origin, []).append(item)
    return [item for turn in zip_longest(*turns.values()) for item in turn if item]


def style_index(content: Content, style: str) -> int:
    """Which style picture a content picture gets: one of its own part, by stable hash."""
    choices = range(content.part, STYLE_PICTURES, PARTS)
    return choices[stable.hash64("style-bank", style, content.key) % len(choices)]


def encode(styles: list[str]) -> PerStyle:
    """The codes of all style pictures of some styles."""
    return {
        style: np.stack([network.code(draw_style(style, index)) for index in range(STYLE_PICTURES)])
        for style in tqdm(styles, desc="drawing and encoding", unit="style")
    }


def probe(features: Floats, labels: NDArray[np.str_], parts: NDArray[np.int64]) -> NDArray[np.str_]:
    """Predictions of a linear probe for every picture, each made without its own part."""
    from sklearn import linear_model, pipeline, preprocessing

    predicted = np.empty_like(labels)
    for part in range(PARTS):
        inside = parts == part
        classifier = linear_model.LogisticRegression(C=0.01, max_iter=300, tol=1e-3)
        model = pipeline.make_pipeline(preprocessing.StandardScaler(), classifier)
        predicted[inside] = model.fit(features[~inside], labels[~inside]).predict(features[inside])
    return predicted


def stylized_features(contents: list[Content], codes: PerStyle) -> PerStyle:
    """Frozen features of all content pictures, untouched (under "") and in every style."""
    describe = FrozenFeatures()
    pairs = [(content, network.features(content.image)) for content in contents]
    found = {"": describe([content.image for content in contents])}
    for style in tqdm(codes, desc="stylizing", unit="style"):
        mine = codes[style]
        painted = [network.paint(f, mine[style_index(c, style)], (SIDE, SIDE)) for c, f in pairs]
        found[style] = describe(painted)
    return found


def style_predictions(features: PerStyle, parts: NDArray[np.int64]) -> dict[str, Counter[str]]:
    """For every style, how often a style probe over these styles takes it for which."""
    styles = sorted(features)
    labels = np.repeat(styles, len(parts))
    predicted = probe(np.concatenate([features[s] for s in styles]), labels, np.tile(parts, len(styles)))
    return {style: Counter(predicted[labels == style].tolist()) for style in styles}


def measure(features: PerStyle, contents: list[Content]) -> list[Measure]:
    """Fidelity and separability of all candidates."""
    labels = np.array([content.label for content in contents])
    parts = np.array([content.part for content in contents])
    original = float(np.mean(probe(features[""], labels, parts) == labels))
    styles = {style: found for style, found in features.items() if style}
    guesses = style_predictions(styles, parts)
    measures = []
    for style in tqdm(styles, desc="probing", unit="style"):
        accuracy = float(np.mean(probe(styles[style], labels, parts) == labels))
        others = [name for name, _ in guesses[style].most_common() if name != style] or ["none"]
        recall = guesses[style][style] / len(contents)
        measures.append(Measure(style, round(accuracy / original, 3), original, accuracy, recall, others[0]))
    return measures


def choose(measures: list[Measure]) -> list[str]:
    """The rule: enough fidelity, then the highest separability (then fidelity)."""
    passing = [one for one in measures if one.fidelity >= MIN_FIDELITY]
    passing.sort(key=lambda one: (-one.recall, -one.fidelity, one.style))
    if len(passing) < KEPT:
        raise SystemExit(f"{len(passing)} candidates have a fidelity of {MIN_FIDELITY}; {KEPT} are needed")
    return sorted(one.style for one in passing[:KEPT])


def reason(one: Measure, lowest: float) -> str:
    """Why a candidate was rejected, in words."""
    if one.fidelity < MIN_FIDELITY:
        return f"fidelity to frozen features below {MIN_FIDELITY}"
    confused = f"most often taken for {one.taken_for}"
    return f"separability not above {lowest:.3f}, the lowest of the {KEPT} kept, {confused}"


def write_candidates(measures: list[Measure], kept: list[str], among_kept: dict[str, Counter[str]]) -> None:
    """The table behind the choice, one row a candidate."""
    measured = "fidelity original_accuracy stylized_accuracy separability separability_among_kept"
    lowest = min(one.recall for one in measures if one.style in kept)
    with CANDIDATES.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["drawing", "style", *measured.split(), "reason"])
        for one in sorted(measures, key=lambda one: one.style):
            guesses = among_kept.get(one.style)
            again = f"{guesses[one.style] / guesses.total():.3f}" if guesses else ""
            numbers = (one.fidelity, one.original_accuracy, one.accuracy, one.recall)
            cells = [
                one.style,
                NAMES[one.style] if guesses else "",
                *(f"{number:.3f}" for number in numbers),
                again,
            ]
            table.writerow([*cells, "" if guesses else reason(one, lowest)])


def write_bank(codes: PerStyle, kept: list[str]) -> None:
    """The shipped file; its metadata names the network that the codes belong to."""
    kept = sorted(kept, key=NAMES.__getitem__)
    rows = [(drawing, index) for drawing in kept for index in range(STYLE_PICTURES)]
    flat = pa.array(np.concatenate([codes[drawing] for drawing in kept]).ravel())
    columns = {
        "style": pa.array([NAMES[drawing] for drawing, _ in rows]),
        "index": pa.array([index for _, index in rows], pa.int32()),
        "code": pa.FixedSizeListArray.from_arrays(flat, CODE_LENGTH),
        "generator": pa.array([description(drawing) for drawing, _ in rows]),
        "license": pa.array(["Apache-2.0"] * len(rows)),
        "seed": pa.array(["/".join(map(str, seed_names("style-bank", *row))) for row in rows]),
    }
    table = pa.table(columns).replace_schema_metadata({"network": network.fingerprint()})
    pq.write_table(table, BANK, compression="zstd", use_dictionary=["style", "generator", "license"])


def check() -> int:
    """Encode the shipped styles again; 0 if every code is within the tolerance of the shipped one."""
    bank = StyleBank.load()
    codes = encode([DRAWINGS[style] for style in bank.names])
    worst = np.array([np.abs(codes[DRAWINGS[style]] - bank.codes[style]).max() for style in bank.names])
    print(f"largest difference: {worst.max():.2e} in {bank.names[worst.argmax()]}; allowed: {TOLERANCE:.0e}")
    return int(worst.max() > TOLERANCE)


def write_sheet(path: Path, codes: PerStyle, contents: list[Content]) -> None:
    """A picture to look at: a row a style, four style pictures and then contents in that style."""
    shown = [next(one for one in contents if one.label == label) for label in EmojiAlbum().labels[::2]]
    sheet = Image.new("RGB", (SIDE * (5 + len(shown)), SIDE * len(codes)), "white")
    for row, (style, found) in enumerate(codes.items()):
        ImageDraw.Draw(sheet).text((4, SIDE * row + SIDE // 2), NAMES.get(style, style), fill="black")
        images = [draw_style(style, index).resize((SIDE, SIDE)) for index in range(4)]
        images += [network.stylize(one.image, found[style_index(one, style)]) for one in shown]
        for column, image in enumerate(images, start=1):
            sheet.paste(image, (SIDE * column, SIDE * row))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def probe_and_choose(codes: PerStyle, contents: list[Content]) -> list[str]:
    """Measure all candidates, write their table, and return the kept ones."""
    features = stylized_features(contents, codes)
    measures = measure(features, contents)
    kept = choose(measures)
    parts = np.array([content.part for content in contents])
    among_kept = style_predictions({style: features[style] for style in kept}, parts)
    write_candidates(measures, kept, among_kept)
    right = sum(guesses[style] for style, guesses in among_kept.items()) / (KEPT * len(contents))
    print(f"style probe over the {KEPT} kept: {right:.1%} right")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare codes with what ships")
    parser.add_argument("--no-probe", action="store_true", help="measure nothing, keep the styles that ship")
    parser.add_argument("--pictures", type=int, default=36, help="content pictures a class")
    parser.add_argument("--sheets", type=Path, metavar="DIR", help="also write a contact sheet there")
    options = parser.parse_args()
    if options.check:
        return check()
    codes = encode(list(NAMES if options.no_probe else STYLES["style-bank"]))
    contents = load_contents(options.pictures)
    kept = list(codes) if options.no_probe else probe_and_choose(codes, contents)
    write_bank(codes, kept)
    print(f"{BANK.name}: {len(kept)} styles, {BANK.stat().st_size:,} bytes: {', '.join(kept)}")
    if options.sheets:
        write_sheet(options.sheets / "styles.png", codes, contents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
