"""Scenes of the unique domains: attributes, actions, backgrounds, cameras, company (of no second class)."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from PIL import Image, ImageChops, ImageFilter, ImageOps

from builders.shifts.contexts import scenery
from builders.shifts.contexts.scene import Edit, Make, Pen, Scene, Stage, around, turned
from builders.shifts.contexts.scenery import Canvas, covered, gradient, tile

PAPERS = (
    "cfd8e6 dfe6ef f2f5f9 c3cddb",
    "e6d8cf efe5df f9f4f1 dccbc0",
    "d3e4d6 e2eee4 f4f9f4 c5d9c9",
    "ddd3e6 e9e2f0 f6f3fa d0c3dc",
)


def studio(stage: Stage) -> Canvas:
    return gradient(stage, stage.any(PAPERS))


def greyscale(stage: Stage) -> Scene:
    return _edited(stage, lambda cut: ImageOps.grayscale(cut.convert("RGB")).convert("RGB"))


def recoloured(stage: Stage) -> Scene:
    turn = int(stage.some(85, 170))

    def recolour(cut: Image.Image) -> Image.Image:
        hue, saturation, value = cut.convert("RGB").convert("HSV").split()
        turned = hue.point(lambda part: (part + turn) % 256)
        strong = saturation.point(lambda part: min(255, part + 40))
        return Image.merge("HSV", (turned, strong, value)).convert("RGB")

    return _edited(stage, recolour)


def golden(stage: Stage) -> Scene:
    dark, middle, light = stage.colours("4a2c04 d79a1e fff3b0")

    def gild(cut: Image.Image) -> Image.Image:
        tone = ImageOps.autocontrast(ImageOps.grayscale(cut.convert("RGB")), mask=cut.getchannel("A"))
        return ImageOps.colorize(tone, dark, light, middle)

    return _edited(stage, gild)


def outlined(stage: Stage) -> Scene:
    ink = stage.colour("20242c 23345c 4a2418")

    def outline(cut: Image.Image) -> Image.Image:
        tone = ImageOps.grayscale(cut.convert("RGB"))
        lines = ImageChops.lighter(_edges(tone), _edges(cut.getchannel("A")))
        lines = lines.filter(ImageFilter.GaussianBlur(cut.width / 130)).point(lambda part: min(255, part * 4))
        return ImageOps.colorize(lines, (255, 255, 252), ink)

    return _edited(stage, outline)


def patterned(stage: Stage) -> Scene:
    cloth = tile(stage, stage.any(("plaid", "zigzag", "stripes", "checkers")))
    x, y = (int(stage.some(0, 256)) for _ in range(2))

    def dress(cut: Image.Image) -> Image.Image:
        piece = cloth.resize(cut.size, Image.Resampling.BILINEAR, (x, y, x + 180, y + 180))
        return Image.blend(ImageChops.soft_light(piece, cut.convert("RGB")), cut.convert("RGB"), 0.22)

    return _edited(stage, dress)


def glassy(stage: Stage) -> Scene:
    cloth = covered(stage, stage.any(("plaid", "zigzag", "truchet")))
    back = cloth.faded(stage.colour("6b7f94 78889a 6f8a90"), 0.72)

    def clear(cut: Image.Image) -> Image.Image:
        alpha, made = cut.getchannel("A"), cut.convert("RGB")
        rim = _edges(alpha)
        lines = ImageChops.lighter(_edges(ImageOps.grayscale(made)).point(lambda part: 3 * part), rim)
        dense = ImageChops.lighter(lines, Image.new("L", cut.size, 150))
        made.paste((236, 250, 255), (0, 0), rim.point(lambda part: round(part * stage.strength)))
        seen = Image.blend(Image.new("L", cut.size, 255), dense, stage.strength)
        made.putalpha(ImageChops.multiply(alpha, seen))
        return made

    return Scene(back=back, pose=clear, shadow=0.2)


def tilted(stage: Stage) -> Scene:
    back, hand = studio(stage), stage.any((-1, 1))
    top = (0.5 + 0.48 * hand, stage.some(0.45, 0.6))
    back.shape([top, (top[0], 0.95), (0.5 - 0.48 * hand, 0.95)], stage.colour("8a8f9c a08c78 7f9488"))
    turn = hand * stage.some(35, 55) * stage.strength
    return Scene(back=back, pose=lambda cut: turned(cut, turn), ground=0.78, across=(0.4, 0.6), still=True)


def upside_down(stage: Stage) -> Scene:
    back, turn = studio(stage), (180 + stage.some(-12, 12)) * stage.strength
    back.line([(0.5, 0), (0.5, 0.6)], stage.colour("8a6a42 6f5a4a"), 0.02)
    _floating_shadow(back)
    return Scene(
        back=back, pose=lambda cut: turned(cut, turn), ground=0.8, across=(0.5, 0.5), shadow=0, still=True
    )


def jumping(stage: Stage) -> Scene:
    back, far = studio(stage), stage.strength * stage.some(0.9, 1.1)
    _floating_shadow(back)
    pose = _smeared([(0, far * step) for step in (0.36, 0.24, 0.12, 0)])
    return Scene(
        back=back, pose=pose, ground=0.84, share=(0.68, 0.8), across=(0.45, 0.55), shadow=0, still=True
    )


def racing(stage: Stage) -> Scene:
    back, far = studio(stage), stage.any((-1, 1)) * stage.strength
    for y in stage.rng.uniform(0.06, 0.96, 22).tolist():
        x, ink = stage.some(-0.2, 0.9), stage.colour("7a8aa0 a3b0c2 ffffff")
        back.line([(x, y), (x + stage.some(0.2, 0.6), y)], ink, stage.some(0.005, 0.016))
    pose = _smeared([(far * step, 0) for step in (0.42, 0.28, 0.14, 0)])
    return Scene(back=back, pose=pose, share=(0.68, 0.8), shadow=0.3)


def spinning(stage: Stage) -> Scene:
    back, step = studio(stage), stage.any((-1, 1)) * stage.some(16, 26) * stage.strength
    for reach in (0.34, 0.4, 0.46):
        start = stage.some(0, 360)
        for turn in (0, 120, 240):
            back.arc(around(0.5, 0.52, reach), start + turn, 66, (120, 132, 150), 0.014)

    def spin(cut: Image.Image) -> Image.Image:
        ghosts = [
            _faint(turned(cut, number * step), seen) for number, seen in enumerate((1.0, 0.5, 0.35, 0.25))
        ]
        size = (max(ghost.width for ghost in ghosts), max(ghost.height for ghost in ghosts))
        made = Image.new("RGBA", size)
        for ghost in reversed(ghosts):
            made.alpha_composite(ghost, ((size[0] - ghost.width) // 2, (size[1] - ghost.height) // 2))
        return made

    return Scene(back=back, pose=spin, ground=0.82, shadow=0, across=(0.48, 0.52))


def in_a_row(stage: Stage) -> Scene:
    gap = stage.some(0.72, 0.86)

    def repeat(cut: Image.Image) -> Image.Image:
        step = round(cut.width * gap * stage.strength)
        made = Image.new("RGBA", (cut.width + 2 * step, cut.height))
        for number in (0, 2, 1):
            made.alpha_composite(cut, (number * step, 0))
        return made

    return Scene(back=studio(stage), pose=repeat, share=(0.9, 0.96), across=(0.5, 0.5), ground=0.76)


def _edited(stage: Stage, colour: Edit) -> Scene:

    def edit(cut: Image.Image) -> Image.Image:
        made = Image.blend(cut.convert("RGB"), colour(cut), stage.strength)
        made.putalpha(cut.getchannel("A"))
        return made

    return Scene(back=studio(stage), pose=edit)


def _floating_shadow(canvas: Canvas) -> None:
    shade = Image.new("L", canvas.image.size)
    Pen(shade).oval(around(0.5, 0.91, 0.18, 0.04), 130)
    soft = shade.filter(ImageFilter.GaussianBlur(canvas.stage.px(0.015)))
    canvas.image.paste((20, 22, 30), (0, 0), soft)


def _edges(tone: Image.Image) -> Image.Image:
    """Return the change of a picture from pixel to pixel; it is black beyond its border."""
    wide = ImageOps.expand(tone, 1)
    change = ImageChops.subtract(wide.filter(ImageFilter.MaxFilter(3)), wide.filter(ImageFilter.MinFilter(3)))
    return change.crop((1, 1, 1 + tone.width, 1 + tone.height))


def _faint(cut: Image.Image, seen: float) -> Image.Image:
    ghost = cut.copy()
    ghost.putalpha(cut.getchannel("A").point(lambda part: round(part * seen)))
    return ghost


def _smeared(steps: list[tuple[float, float]]) -> Edit:
    """Copies away from the object, the farther the fainter; the last step is the object itself."""

    def smear(cut: Image.Image) -> Image.Image:
        moves = [(round(x * cut.width), round(y * cut.height)) for x, y in steps]
        left, top = (min(move[axis] for move in moves) for axis in (0, 1))
        right, low = (max(move[axis] for move in moves) for axis in (0, 1))
        made = Image.new("RGBA", (cut.width + right - left, cut.height + low - top))
        for number, (x, y) in enumerate(moves, start=1):
            seen = 1.0 if number == len(moves) else 0.16 * number
            made.alpha_composite(_faint(cut, seen), (x - left, y - top))
        return made

    return smear


ATTRIBUTES: tuple[Make, ...] = (glassy, golden, greyscale, outlined, patterned, recoloured)
ACTIONS: tuple[Make, ...] = (in_a_row, jumping, racing, spinning, tilted, upside_down)


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


SKINS = "f2c9a0 d9a066 a86f45 6f4630"
SHIRTS = "3f6fb0 b0483f 4a8a55 d0a03a 6a5a8a"
HAIR = "2b1d14 5a3a1e 9a6a2e"


def beside_person(stage: Stage) -> Scene:
    back, right = studio(stage), stage.any((False, True))
    _person(stage, back, 0.8 if right else 0.2, 0.2, 0.95)
    across = (0.36, 0.42) if right else (0.58, 0.64)
    return Scene(back=back, share=(0.5, 0.58), across=across, ground=0.9)


def in_crowd(stage: Stage) -> Scene:
    back, front = studio(stage), scenery.layer(stage, (90, 80, 90))
    for top in (0.18, 0.25):
        for x in np.linspace(-0.02, 1.02, 8).tolist():
            _person(stage, back, x + stage.some(-0.04, 0.04), top, top + 0.6)
    for x in (stage.some(-0.02, 0.08), stage.some(0.9, 1.02), stage.some(0.2, 0.8)):
        _person(stage, front, x, 0.78, 1.4)
    return Scene(back=back, front=front, share=(0.52, 0.6), ground=0.86)


def in_hand(stage: Stage) -> Scene:
    skin, x = stage.colour(SKINS), stage.some(0.46, 0.54)
    shade, front = tuple(part * 4 // 5 for part in skin), scenery.layer(stage, skin)
    front.box((x - 0.12, 0.86, x + 0.12, 1), skin)
    front.box((x - 0.2, 0.74, x + 0.2, 0.93), skin, corner=0.07)
    for finger in range(4):
        left = x - 0.17 + 0.085 * finger
        front.box((left, 0.66, left + 0.075, 0.84), skin, rim=shade, width=0.012, corner=0.036)
    return Scene(
        back=studio(stage), front=front, share=(0.56, 0.66), across=(x, x), ground=0.78, shadow=0, still=True
    )


def in_frame(stage: Stage) -> Scene:
    back = scenery.covered(stage, "wallpaper")
    for edge, family in (
        (0.1, "6b4a1c"),
        (0.115, "c9972f d8ad4a"),
        (0.16, "8a6420"),
        (0.175, "f6f1e4"),
        (0.23, "dfe9f0 f0e4da"),
    ):
        back.box((edge, edge, 1 - edge, 1 - edge), stage.colour(family))
    return Scene(back=back, share=(0.42, 0.48), across=(0.48, 0.52), ground=0.74, shadow=0.25)


def with_balloons(stage: Stage) -> Scene:
    back = studio(stage)
    for turn in np.linspace(-1.1, 1.1, 6).tolist():
        x = 0.5 + 0.42 * math.sin(turn) + stage.some(-0.03, 0.03)
        y = 0.28 - 0.12 * math.cos(turn) + stage.some(-0.03, 0.06)
        back.line([(0.5, 0.62), (x, y + 0.1)], (96, 96, 104), 0.008)
        back.oval(around(x, y, 0.09, 0.11), stage.colour("e23b3b f2a427 2f8fe0 46b85a b45ad0 f06ba8"))
        back.oval(around(x - 0.035, y - 0.05, 0.016, 0.02), scenery.WHITE)
    return Scene(back=back, share=(0.48, 0.56), across=(0.45, 0.55), ground=0.92)


def behind_bars(stage: Stage) -> Scene:
    front = scenery.layer(stage, (70, 74, 82))
    step = stage.some(0.15, 0.19)
    for x in np.arange(stage.some(0.02, 0.1), 1, step).tolist():
        front.box((x, 0, x + 0.028, 1), (66, 70, 78))
        front.box((x, 0, x + 0.008, 1), (168, 174, 184))
    for y in (0.06, 0.93):
        front.box((0, y, 1, y + 0.035), (52, 56, 64))
    return Scene(back=studio(stage), front=front, share=(0.56, 0.68), ground=0.9)


def _person(stage: Stage, pen: Pen, x: float, top: float, foot: float) -> None:
    tall, skin, shirt = foot - top, stage.colour(SKINS), stage.colour(SHIRTS)
    hip = top + 0.66 * tall
    for hand in (-1, 1):
        leg, arm = x + hand * 0.075 * tall, x + hand * 0.185 * tall
        pen.box((leg - 0.055 * tall, hip - 0.02, leg + 0.055 * tall, foot), (52, 58, 78))
        pen.box(around(arm, top + 0.43 * tall, 0.04 * tall, 0.17 * tall), skin, corner=0.03 * tall)
    pen.box((x - 0.15 * tall, top + 0.26 * tall, x + 0.15 * tall, hip), shirt, corner=0.06 * tall)
    head = around(x, top + 0.13 * tall, 0.13 * tall)
    pen.oval(head, skin)
    pen.dome(head, stage.colour(HAIR))


COMPANIES: tuple[Make, ...] = (behind_bars, beside_person, in_crowd, in_frame, in_hand, with_balloons)
