"""Set a cut-out into a scene: size, tilt and place, shadow, light, what is in front, and what is seen."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from builders.shifts.contexts.scene import Box, Make, Scene, Stage, turned

PLAIN = (244, 241, 234)
FILLED = 0.92  # of the side, by a cut-out that no context surrounds
SMALLEST = 0.3  # of the side; only what is far away is smaller
TILT = 18.0  # degrees to either side
FARTHEST = 0.15  # of the side, by which the foot stands higher than in front
NEAREST_VIEW = 0.68  # of the side of a scene: the least that is looked at
SEEN = 0.75  # of an object's width and height, at least: the frame may cut off the rest
APART = 50  # of 255, by which an object differs from what surrounds it, if its outline is to be seen
BRIGHT, DARK = (255, 238, 208), (16, 18, 28)


def in_context(cutout: Image.Image, make: Make, stage: Stage) -> Image.Image:
    """The picture of a cut-out in a context.

    At strength 0 the object stands large and upright in the middle of a plain ground, at 1 in the whole
    context; between them its size, tilt and place, the light, and everything before and behind it move
    evenly. Where it stands, how large it is and which part of the scene is seen is drawn anew each time, so
    that no place in the picture is the object's.
    """
    scene, strength, side = make(stage), stage.strength, stage.side
    whole = cutout.crop(cutout.getbbox())
    posed = scene.pose(whole) if scene.pose and strength else whole
    drawn, smaller, far = stage.some(*scene.share), stage.some(0.5, 1), stage.some(0, 1)
    across, turn = stage.some(*scene.across), stage.some(-TILT, TILT)
    view = [stage.some(0, 1) for _ in range(3)]
    far = 0 if scene.still else far
    posed = turned(posed, turn * strength)
    share = max(min(drawn, SMALLEST), drawn * smaller * (1 - far / 4))
    scale = _between(FILLED, share, strength) * side / max(posed.size)
    width, height = (max(1, round(edge * scale)) for edge in posed.size)
    posed = posed.convert("RGBa").resize((width, height), Image.Resampling.LANCZOS).convert("RGBA")
    half = min(0.5, width / side / 2 + 0.01)  # keeps it within the scene
    middle = _between(0.5, min(max(across, half), 1 - half), strength) * side
    ground = scene.ground - far * FARTHEST
    foot = _between((side + height) / 2, ground * side + scene.sunk * height, strength)
    left, top = round(middle - width / 2), round(foot - height)
    picture = _set_in(scene, posed, (left, top), strength, side)
    box = _view((left / side, top / side, (left + width) / side, foot / side), view, strength)
    seen = (box[0] * side, box[1] * side, box[2] * side, box[3] * side)
    picture = picture.resize((stage.size, stage.size), Image.Resampling.LANCZOS, seen)
    return scene.lens(picture) if scene.lens is not None and strength else picture


def _set_in(
    scene: Scene, posed: Image.Image, place: tuple[int, int], strength: float, side: int
) -> Image.Image:
    """The whole scene with the object in it."""
    alpha = posed.getchannel("A")
    picture = Image.blend(Image.new("RGB", (side, side), PLAIN), scene.back.image, strength)
    _cast_shadow(picture, alpha, place, scene.shadow * strength)
    tint = tuple(round(_between(255, part, strength)) for part in scene.tint)
    picture.paste(ImageChops.multiply(posed.convert("RGB"), Image.new("RGB", posed.size, tint)), place, alpha)
    if scene.front is not None:
        front = scene.front.image
        veil = front.getchannel("A").point(lambda part: round(part * strength))
        picture.paste(front.convert("RGB"), (0, 0), veil)
    if scene.light is not None:
        light = scene.light.resize((side, side), Image.Resampling.BICUBIC)
        white = Image.new("RGB", (side, side), (255, 255, 255))
        picture = ImageChops.multiply(picture, Image.blend(white, light, strength))
    outline = Image.new("L", (side, side))
    outline.paste(alpha, place)
    _set_apart(picture, outline, strength)
    return picture


def _set_apart(picture: Image.Image, outline: Image.Image, strength: float) -> None:
    """Light up or shade what surrounds an object, as much as it needs to stand out."""
    wide = outline.filter(ImageFilter.GaussianBlur(picture.width / 28)).point(lambda part: min(255, 2 * part))
    halo = ImageChops.subtract(wide, outline)
    pixels = np.asarray(picture, dtype=np.float64)
    inside, around = pixels[np.asarray(outline) > 127], pixels[np.asarray(halo) > 127]
    if not len(inside) or not len(around):
        return
    ground = np.median(around, axis=0)
    best, part, tone = np.abs(inside - ground).mean(), 0.0, BRIGHT
    for more in (0.3, 0.5, 0.7, 0.9):
        for light in (BRIGHT, DARK):
            apart = np.abs(inside - (ground + (np.array(light) - ground) * more)).mean()
            if best < min(apart, APART):
                best, part, tone = apart, more, light
    if part:
        picture.paste(tone, mask=halo.point(lambda there: round(there * part * strength)))


def _view(thing: Box, drawn: list[float], strength: float) -> Box:
    """Return the visible part of a scene, with the required share of the object in it."""
    left, top, right, bottom = thing
    edge = _between(1, NEAREST_VIEW + drawn[0] * (1 - NEAREST_VIEW), strength)
    edge = min(1, max(edge, SEEN * max(right - left, bottom - top)))
    start = []
    for low, high, part in ((left, right, drawn[1]), (top, bottom, drawn[2])):
        hidden = (1 - SEEN) * (high - low)
        first = min(max(0, high - hidden - edge), 1 - edge)
        last = max(first, min(1 - edge, low + hidden))
        start.append(_between(first, last, part))
    return start[0], start[1], start[0] + edge, start[1] + edge


def _between(start: float, end: float, strength: float) -> float:
    return start + (end - start) * strength


def _cast_shadow(picture: Image.Image, alpha: Image.Image, place: tuple[int, int], dark: float) -> None:
    """Darken the ground under the object: its own outline lying flat, soft, and darkest at the foot."""
    if dark <= 0:
        return
    width, height = alpha.width, max(3, round(alpha.width * 0.22))
    edge = max(1.5, picture.width / 50)
    room = round(2 * edge)
    flat = Image.new("L", (width + 2 * room, height + 2 * room))
    flat.paste(alpha.resize((width, height)), (room, room))
    soft = flat.filter(ImageFilter.GaussianBlur(edge)).point(lambda part: round(part * dark))
    foot = place[1] + alpha.height
    picture.paste((12, 14, 24), (place[0] - room, round(foot - height * 0.62) - room), soft)
