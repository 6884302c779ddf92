"""Draw docs/generators/stylizers.jpg again: one picture by two stylizers, in growing strengths.

    python scripts/vgg16_hed.py build/vgg16_hed.safetensors
    python scripts/regenerate_generator_pictures.py build/vgg16_hed.safetensors

Gatys takes a minute and a half a style. The seconds that it prints are of one core. AdaIN and Style-Swap need
a decoder: over this VGG, one that was trained for minutes gives back shapes without colours at best.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from style_pictures import draw_style

from builders.albums.emoji import EmojiAlbum
from builders.shifts.steps import OnGround
from builders.shifts.stylizers import Arbitrary, Gatys, Stylizer
from shiftdata.evaluation.charts import INK, PAPER

PICTURE = Path(__file__).parent.parent / "docs/generators/stylizers.jpg"
DOG, SIDE, LEFT, LINE = "mammal_dog-fluent-3d", 112, 76, 16
STYLES = ("mosaic", "leaves")
STRENGTHS = (0.25, 0.5, 0.75, 1.0)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", type=Path, help="what scripts/vgg16_hed.py wrote")
    encoder: Path = parser.parse_args().encoder
    stylizers: dict[str, Stylizer] = {
        "that ships": Arbitrary(),
        "Gatys": Gatys(encoder=encoder, variant="vgg16-hed", style_side=128, steps=60),
    }
    album = EmojiAlbum(size=128)
    dog = next(item for item in album.items() if item.key == DOG)
    picture = OnGround(size=128, margin=0.08).compose(album.load(dog))
    rows = len(STYLES) * len(stylizers)
    sheet = Image.new("RGB", (LEFT + 6 * SIDE, LINE + rows * SIDE), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for column, title in enumerate(("style", "untouched", *map(str, STRENGTHS))):
        draw.text((LEFT + column * SIDE + 4, 1), title, INK, font)
    for row in range(rows):
        style, name = STYLES[row // len(stylizers)], list(stylizers)[row % len(stylizers)]
        source, stylizer, started = draw_style(style, 0), stylizers[name], time.process_time()
        code = stylizer.encode(source)
        made = stylizer.stylize(picture, [code] * len(STRENGTHS), STRENGTHS)
        print(f"{name}: {time.process_time() - started:.2f} s for a style and {len(STRENGTHS)} pictures")
        draw.text((4, LINE + row * SIDE + SIDE // 2 - 8), name, INK, font)
        for column, one in enumerate((source, picture, *made)):
            sheet.paste(one.resize((SIDE, SIDE)), (LEFT + column * SIDE, LINE + row * SIDE))
    sheet.save(PICTURE, quality=75, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
