"""Unique domains of what lies behind the object, and of the camera that looks at it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from PIL import Image, ImageChops, ImageFilter, ImageOps

from builders.shifts.contexts import scenery
from builders.shifts.contexts.attributes_actions import studio
from builders.shifts.contexts.scene import Make, Pen, Scene, Stage, around

TILED = ("checkers", "chessboard", "paving", "plaid")  # floors that show how far and how bent they are


def kitchen_tiles(stage: Stage) -> Scene:
    back = scenery.covered(stage, "kitchen_tiles", stage.some(0.8, 1.1)).floor("marble", 0.75, depth=1.2)
    back.box((0, 0.75, 1, 0.77), (70, 72, 74))
    return Scene(back=back, ground=0.89)


def road(stage: Stage) -> Scene:
    back, point = scenery.sky(stage, "6fb2e8 b5daf5 eaf3f8"), stage.some(0.44, 0.56)
    back.box((0, 0.38, 1, 1), stage.colour("c9a26a d6b682 b8955e"))
    back.specks("a8864f 8f9a52 d8bd8c", 40, (0.4, 1), 0.012)
    for half, colour in ((0.62, (236, 236, 230)), (0.58, (74, 76, 82))):
        back.shape([(point, 0.38), (0.5 + half, 1), (0.5 - half, 1)], colour)
    for start in (0.42, 0.5, 0.62, 0.79):
        end, x = start + (start - 0.36) * 0.3, point + (0.5 - point) * (start - 0.38) / 0.62
        thin, wide = (start - 0.38) * 0.06, (start - 0.38) * 0.08
        back.shape([(x - thin, start), (x + thin, start), (x + wide, end), (x - wide, end)], (250, 214, 70))
    return Scene(back=back, ground=0.88)


def on_map(stage: Stage) -> Scene:
    back = scenery.covered(stage, "contour_map", stage.some(0.7, 1.1))
    back = back.faded(scenery.WHITE, 0.25)
    for place in np.linspace(stage.some(0, 0.2), 1.1, 6).tolist():
        back.line([(place, 0), (place, 1)], (70, 110, 170), 0.008)
        back.line([(0, place), (1, place)], (70, 110, 170), 0.008)
    x, y = np.linspace(-0.05, 1.05, 9), stage.some(0.15, 0.5) + np.cumsum(stage.rng.uniform(-0.1, 0.14, 9))
    back.line(list(zip(x.tolist(), y.tolist(), strict=True)), (208, 36, 36), 0.02)
    return Scene(back=back, ground=0.84, shadow=0.6)


def chessboard(stage: Stage) -> Scene:
    back = studio(stage).floor("chessboard", stage.some(0.3, 0.42), zoom=1.1, depth=0.5)
    return Scene(back=back, ground=0.86)


def clouds(stage: Stage) -> Scene:
    back, mask = scenery.sky(stage, "2f86dd 66aef0 a8d5fa", clouds=6), Image.new("L", (64, 64))
    pen = Pen(mask)
    for x in np.linspace(-0.05, 1.05, 14).tolist():
        pen.oval(around(x, stage.some(0.88, 1.02), stage.some(0.08, 0.14)), 245)
    front = scenery.layer(stage, scenery.WHITE)
    soft = mask.filter(ImageFilter.GaussianBlur(1.6)).resize(front.image.size, Image.Resampling.BICUBIC)
    front.image.putalpha(soft)
    return Scene(back=back, front=front, ground=0.87, shadow=0)


def curtain(stage: Stage) -> Scene:
    across = np.linspace(0, 1, stage.side)
    fold = np.sin(2 * np.pi * (across * stage.some(6, 9) + 0.15 * np.sin(across * stage.some(8, 14))))
    red = np.array(stage.colour("b3121f 9c0f2e a81818")) * (0.72 + 0.34 * fold)[:, np.newaxis]
    row = Image.fromarray(np.rint(red.clip(0, 255)).astype(np.uint8)[np.newaxis])
    back = scenery.Canvas(stage, row.resize((stage.side, stage.side))).floor("wood_grain", 0.76, depth=1.0)
    light = scenery.lamp_light((0.5, 0.6), 0.62, (255, 250, 232), (116, 100, 104))
    return Scene(back=back, ground=0.89, light=light)


def close_up(stage: Stage) -> Scene:
    return Scene(back=studio(stage), share=(1.15, 1.35), ground=stage.some(1.06, 1.2), shadow=0)


def far_away(stage: Stage) -> Scene:
    back = studio(stage).floor(stage.any(TILED), 0.45, zoom=0.5, depth=0.25)
    return Scene(back=back, share=(0.28, 0.34), across=(0.25, 0.75), ground=stage.some(0.6, 0.68))


def fisheye(stage: Stage) -> Scene:
    back = studio(stage).floor(stage.any(TILED), 0.55, zoom=0.6, depth=0.5)
    mesh = _bulged(stage.size, 0.75 * stage.strength)
    circle = Image.new("L", (stage.side, stage.side), round(255 * (1 - stage.strength)))
    Pen(circle).oval((0, 0, 1, 1), 255)
    seen = circle.reduce(2).convert("RGB")

    def bulge(picture: Image.Image) -> Image.Image:
        bent = picture.transform(picture.size, Image.Transform.MESH, mesh, Image.Resampling.BICUBIC)
        return ImageChops.multiply(bent, seen)

    return Scene(back=back, share=(0.5, 0.58), ground=0.78, across=(0.46, 0.54), lens=bulge)


def _bulged(size: int, amount: float) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    # Squares of a picture, and where in it the corners of each are taken from: nearer to the middle.
    edges = np.rint(np.linspace(0, size, 17)).astype(int).tolist()

    def source(x: int, y: int) -> tuple[float, float]:
        u, v = 2 * x / size - 1, 2 * y / size - 1
        pull = 1 - amount + amount * min(1.0, u * u + v * v)
        return (u * pull + 1) / 2 * size, (v * pull + 1) / 2 * size

    return [
        ((x, y, right, low), (*source(x, y), *source(x, low), *source(right, low), *source(right, y)))
        for x, right in pairwise(edges)
        for y, low in pairwise(edges)
    ]


def from_above(stage: Stage) -> Scene:
    back = scenery.Canvas(stage)
    back.floor(stage.any(("truchet", "carpet", "kitchen_tiles")), 0, zoom=1.2, depth=1.6)
    inset, flat = 0.26 * stage.strength, 1 - 0.2 * stage.strength

    def look_down(cut: Image.Image) -> Image.Image:
        size, side = (cut.width, max(1, round(cut.height * flat))), inset * cut.width
        corners = (0, 0, -side, cut.height, cut.width + side, cut.height, cut.width, 0)
        return cut.transform(size, Image.Transform.QUAD, corners, Image.Resampling.BILINEAR)

    return Scene(back=back, pose=look_down, ground=0.8, share=(0.54, 0.66), shadow=0.75)


def out_of_focus(stage: Stage) -> Scene:
    back, spots = scenery.gradient(stage, "3f5468 6b7f8c 4a5a60"), scenery.layer(stage, (255, 230, 180))
    spots.specks("ffd98a ff9f6b fff0c9 9fd0e8", 16, (0, 0.8), 0.06)
    back.image.paste(spots.image, (0, 0), spots.image.getchannel("A").point(lambda part: part // 2))
    reach = stage.size * stage.some(0.016, 0.023) * stage.strength
    return Scene(back=back, lens=lambda picture: picture.filter(ImageFilter.GaussianBlur(reach)))


def mirrored(stage: Stage) -> Scene:
    shine = 0.6 * stage.strength

    def reflect(cut: Image.Image) -> Image.Image:
        image = ImageOps.flip(cut)
        fade = Image.linear_gradient("L").resize(cut.size).point(lambda part: round((255 - part) * shine))
        image.putalpha(ImageChops.multiply(fade, image.getchannel("A")))
        made = Image.new("RGBA", (cut.width, round(cut.height * (1 + 0.75 * stage.strength))))
        made.paste(image, (0, cut.height))
        made.paste(cut, (0, 0))
        return made

    back = scenery.gradient(stage, "1f2a3c 3f5674 9cb4cc 2c3a50 141c2a")
    return Scene(back=back, pose=reflect, share=(0.84, 0.94), ground=0.98, shadow=0, still=True)


BACKGROUNDS: tuple[Make, ...] = (chessboard, clouds, curtain, kitchen_tiles, on_map, road)
CAMERAS: tuple[Make, ...] = (close_up, far_away, fisheye, from_above, mirrored, out_of_focus)
