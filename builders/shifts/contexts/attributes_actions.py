"""Unique domains that change the object itself: attributes and actions, before a plain studio ground."""

from __future__ import annotations

from PIL import Image, ImageChops, ImageFilter, ImageOps

from builders.shifts.contexts.scene import Edit, Make, Pen, Scene, Stage, around, turned
from builders.shifts.contexts.scenery import Canvas, covered, gradient, tile

PAPERS = (
    "cfd8e6 dfe6ef f2f5f9 c3cddb",
    "e6d8cf efe5df f9f4f1 dccbc0",
    "d3e4d6 e2eee4 f4f9f4 c5d9c9",
    "ddd3e6 e9e2f0 f6f3fa d0c3dc",
)


def studio(stage: Stage) -> Canvas:
    """Coloured paper that runs from the wall to the floor."""
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
    """A copy with a part of its opacity."""
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
