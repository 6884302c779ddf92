"""Set a cut-out into a scene: size and place, shadow, light, and what lies in front."""

from __future__ import annotations

from PIL import Image, ImageChops, ImageFilter

from builders.shifts.contexts.scene import Make, Stage

PLAIN = (244, 241, 234)
FILLED = 0.92  # of the side, by a cut-out that no context surrounds


def in_context(cutout: Image.Image, make: Make, stage: Stage) -> Image.Image:
    """The picture of a cut-out in a context.

    At strength 0 the object stands large in the middle of a plain ground, at 1 in the whole context; between
    them its size and place, the light, and everything before and behind it move evenly.
    """
    scene, strength, size = make(stage), stage.strength, stage.size
    whole = cutout.crop(cutout.getbbox())
    posed = scene.pose(whole) if scene.pose and strength else whole
    share = _between(FILLED, stage.some(*scene.share), strength)
    scale = share * size / max(posed.size)
    width, height = (max(1, round(edge * scale)) for edge in posed.size)
    posed = posed.convert("RGBa").resize((width, height), Image.Resampling.LANCZOS).convert("RGBA")
    half = min(0.5, width / size / 2 + 0.01)  # keeps it within the frame
    across = min(max(stage.some(*scene.across), half), 1 - half)
    middle = _between(0.5, across, strength) * size
    foot = _between((size + height) / 2, scene.ground * size + scene.sunk * height, strength)
    alpha = posed.getchannel("A")

    picture = Image.blend(Image.new("RGB", (size, size), PLAIN), scene.back.image.reduce(2), strength)
    _cast_shadow(picture, alpha, (middle, foot), scene.shadow * strength)
    tint = tuple(round(_between(255, part, strength)) for part in scene.tint)
    lit = ImageChops.multiply(posed.convert("RGB"), Image.new("RGB", posed.size, tint))
    picture.paste(lit, (round(middle - width / 2), round(foot - height)), alpha)
    if scene.front is not None:
        front = scene.front.image.reduce(2)
        veil = front.getchannel("A").point(lambda part: round(part * strength))
        picture.paste(front.convert("RGB"), (0, 0), veil)
    if scene.light is not None:
        light = scene.light.resize((size, size), Image.Resampling.BICUBIC)
        white = Image.new("RGB", (size, size), (255, 255, 255))
        picture = ImageChops.multiply(picture, Image.blend(white, light, strength))
    return scene.lens(picture) if scene.lens is not None and strength else picture


def _between(start: float, end: float, strength: float) -> float:
    return start + (end - start) * strength


def _cast_shadow(picture: Image.Image, alpha: Image.Image, foot: tuple[float, float], dark: float) -> None:
    """Darken the ground under the object: its own outline lying flat, soft, and darkest at the foot."""
    if dark <= 0:
        return
    width, height = alpha.width, max(3, round(alpha.width * 0.22))
    edge = max(1.5, picture.width / 50)
    room = round(2 * edge)
    flat = Image.new("L", (width + 2 * room, height + 2 * room))
    flat.paste(alpha.resize((width, height)), (room, room))
    soft = flat.filter(ImageFilter.GaussianBlur(edge)).point(lambda part: round(part * dark))
    place = (round(foot[0] - width / 2) - room, round(foot[1] - height * 0.62) - room)
    picture.paste((12, 14, 24), place, soft)
