"""Draw the pictures of docs/steps.md again, after a step has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from builders.albums.glyphs import FONT_CLASSES, GlyphAlbum
from builders.sample import Item, Sample, Step
from builders.shifts.contexts.domains import DOMAINS
from builders.shifts.contexts.scene import Stage, in_context
from builders.shifts.steps import (
    Contexts,
    Continuous,
    Corrupt,
    CropSquare,
    OnGround,
    Pad,
    Resize,
    Stylize,
)
from shiftdata.evaluation.charts import INK, PAPER
from shiftdata.stable import rng

FOLDER = Path(__file__).parent.parent / "docs" / "steps"
SIDE = 128  # of what the steps make
LINE = 16  # of text
LETTER, HIGH = "r_abril-fatface-400", "i_abril-fatface-400"


def main() -> None:
    """Draw every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, picture in drawn():
        path = FOLDER / f"{name}.jpg"
        picture.save(path, quality=68, optimize=True)
        print(path.relative_to(FOLDER.parent.parent), f"{path.stat().st_size:,} bytes")


def drawn() -> Iterator[tuple[str, Image.Image]]:
    """Every picture of the page, by name."""
    album = GlyphAlbum(size=SIDE, ink="drawn")
    items = {item.key: item for item in album.items()}
    letter, cutout = items[LETTER], album.load(items[LETTER])
    plain = OnGround(size=SIDE, margin=0.08).compose(cutout)
    high = album.load(items[HIGH])
    wide = _scene(cutout, 2 * SIDE).crop((0, 70, 2 * SIDE, 220))
    yield "framing", _framing(wide, high.crop(high.getbbox()))
    yield "domains", _tiles(_by_font(), len(FONT_CLASSES))
    styles = {"untouched": plain} | _by_nuisance(Stylize(seed=0, dataset="steps"), letter, plain)
    yield "stylize", _tiles(styles, 7)
    one = next(iter(Stylize(seed=0, dataset="steps").nuisances))
    strengths = {
        f"{strength:g}": _by_nuisance(
            Stylize(seed=0, dataset="steps", styles=(one,), strength=strength), letter, plain
        )[one]
        for strength in (0, 0.25, 0.5, 0.75, 1)
    }
    yield "strength", _tiles(strengths, 5)
    yield "contexts", _tiles(_by_nuisance(Contexts(seed=0, dataset="steps"), letter, cutout), 7)
    scene = _scene(cutout, SIDE)
    yield "corrupt", _grid(Corrupt(seed=0, dataset="steps"), letter, scene)
    yield "continuous", _grid(Continuous(dataset="steps", seeds=(0,)), letter, scene)


def _scene(cutout: Image.Image, size: int) -> Image.Image:
    return in_context(cutout, DOMAINS["grass"][0], Stage(size, rng("steps", "grass"), 1))


def _framing(wide: Image.Image, high: Image.Image) -> Image.Image:
    """A wide picture and a high cut-out, in every frame."""
    steps = {"Resize": Resize(size=SIDE), "CropSquare": CropSquare(size=SIDE)}
    steps |= {f"Pad, {fill}": Pad(size=SIDE, fill=fill) for fill in ("reflect", "edge", "blur")}
    steps["OnGround"] = OnGround(size=SIDE, margin=0.08)
    named = {}
    for number, file in enumerate((wide, high)):
        named[f"file{' ' * number}"] = _checked(file) if number else file
        named |= {name + " " * number: step.compose(file, f"steps{number}") for name, step in steps.items()}
    return _tiles(named, 1 + len(steps))


def _checked(cutout: Image.Image) -> Image.Image:
    """A cut-out on the squares that stand for nothing."""
    pixels = Image.new("RGB", cutout.size, PAPER)
    pen = ImageDraw.Draw(pixels)
    for x in range(0, cutout.width, 8):
        for y in range(x % 16, cutout.height, 16):
            pen.rectangle((x, y, x + 7, y + 7), (222, 222, 222))
    pixels.paste(cutout, mask=cutout.getchannel("A"))
    return pixels


def _by_font() -> dict[str, Image.Image]:
    """One letter in the first face of each class of fonts."""
    album, ground = GlyphAlbum(size=SIDE, domains=True), OnGround(size=SIDE, margin=0.08)
    first = {item.nuisance or "": item for item in reversed(album.items()) if item.label == "R"}
    return {name: ground.compose(album.load(first[name])) for name in FONT_CLASSES}


def _made(step: Step, item: Item, picture: Image.Image) -> list[Sample]:
    return list(step(iter([Sample(item=item, key=item.key, example=picture)])))


def _by_nuisance(step: Step, item: Item, picture: Image.Image) -> dict[str, Image.Image]:
    return {str(sample.nuisance): sample.image for sample in _made(step, item, picture)}


def _tiles(named: Mapping[str, Image.Image], columns: int, side: int = 104) -> Image.Image:
    """Pictures with their names above."""
    high = side + LINE + 4
    sheet = Image.new("RGB", (columns * (side + 6), -(-len(named) // columns) * high), PAPER)
    for number, (name, picture) in enumerate(named.items()):
        x, y = number % columns * (side + 6), number // columns * high
        ImageDraw.Draw(sheet).text((x + 1, y + 1), name.strip(), INK, ImageFont.load_default(11))
        small = picture.copy()
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        sheet.paste(small, (x, y + LINE))
    return sheet


def _grid(step: Corrupt | Continuous, item: Item, picture: Image.Image, side: int = 64) -> Image.Image:
    """A row for each nuisance and a column for each severity, in two halves side by side."""
    left, rows = 112, -(-len(step.nuisances) // 2)
    wide = left + len(step.severities) * side + 8
    sheet, small = Image.new("RGB", (2 * wide, LINE + side * rows), PAPER), ImageFont.load_default(11)
    pen = ImageDraw.Draw(sheet)
    for sample in _made(step, item, picture):
        half, row = divmod(step.nuisances.index(str(sample.nuisance)), rows)
        x, y = half * wide, LINE + row * side
        if sample.severity == 0:
            pen.text((x + 2, y + side / 2), str(sample.nuisance), INK, small, anchor="lm")
        x += left + step.severities.index(sample.severity or 0) * side
        if row == 0:
            pen.text((x + 2, 1), f"{sample.severity:g}", INK, small)
        sheet.paste(sample.image.resize((side - 2, side - 2), Image.Resampling.LANCZOS), (x, y))
    return sheet


if __name__ == "__main__":
    main()
