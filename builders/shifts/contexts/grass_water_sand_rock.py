"""Common domains of the ground: grass, water, sand, rock."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageFilter

from builders.shifts.contexts import scenery
from builders.shifts.contexts.scene import Make, Pen, Scene, Stage, around

DAY = "4f9be0 8cc4f2 d6ecfa"
HAZE = "a9c3d8 cfdce4 ece8dc"
RUBBLE = "6f7176 8b8c8e a8a59d 7d776f"


def meadow(stage: Stage) -> Scene:
    back, horizon = scenery.sky(stage, DAY, clouds=3), stage.some(0.36, 0.5)
    back.ridge(horizon - 0.04, stage.colour("6fa36a 86b57a 5f9270")).floor("turf", horizon)
    return Scene(back=back, front=_blades(stage, 0.86, 0.1), ground=0.87)


def tall_grass(stage: Stage) -> Scene:
    back = scenery.sky(stage, "bfe0c0 a5d08a 6fae52").blades(0.35, 0.3, "3b7d2a 56a03a 7cc050 2f6a22", 220)
    return Scene(back=back, front=_blades(stage, 0.92, 0.26, 60), ground=0.9, tint=(242, 252, 226))


def flower_lawn(stage: Stage) -> Scene:
    back = scenery.covered(stage, "turf", stage.some(0.7, 1.0))
    back.specks("ffffff ffe14d f6b3d3 fff6c8", 46, (0, 1), 0.012)
    return Scene(back=back, front=_blades(stage, 0.9, 0.08, 46), ground=0.84)


def garden_fence(stage: Stage) -> Scene:
    back = scenery.sky(stage, DAY, clouds=2).trees(0.46, "3f7f35 58993f 2f6b31", 5)
    wide, paint = stage.some(0.055, 0.08), stage.colour("f4f4f0 f9f5ea")
    for rail in (0.36, 0.46):
        back.box((0, rail, 1, rail + 0.025), (214, 214, 208))
    x = stage.some(-0.05, 0.0)
    while x < 1:
        back.shape([(x, 0.54), (x, 0.31), (x + wide / 2, 0.27), (x + wide, 0.31), (x + wide, 0.54)], paint)
        x += 1.6 * wide
    back.floor("mown", 0.52)
    return Scene(back=back, front=_blades(stage, 0.88, 0.07, 50), ground=0.87)


def hillside(stage: Stage) -> Scene:
    back = scenery.sky(stage, DAY).floor("mown", stage.some(0.08, 0.2), depth=0.6)
    return Scene(back=back, front=_blades(stage, 0.87, 0.09), ground=0.86)


def sea(stage: Stage) -> Scene:
    back = scenery.sky(stage, DAY, clouds=3).floor("waves", stage.some(0.34, 0.48), zoom=0.9)
    return Scene(back=back, **_afloat(stage, 0.78, "1a6fb0 2f8fcb"))


def pool(stage: Stage) -> Scene:
    back, edge = scenery.covered(stage, "pool", stage.some(0.7, 1.1)), stage.some(0.1, 0.2)
    back.wall("kitchen_tiles", (0, edge), 1.2).box((0, edge, 1, edge + 0.02), (30, 110, 150))
    return Scene(back=back, **_afloat(stage, 0.8, "3cc4da 6fd8e6"))


def river(stage: Stage) -> Scene:
    back = scenery.sky(stage, HAZE).ridge(0.24, stage.colour("5f8a80 6f9a98"), swing=0.07)
    back.floor("river", 0.3, zoom=0.8).stones(RUBBLE, 12, (0.3, 0.4), 0.09)
    return Scene(back=back, **_afloat(stage, 0.8, "1d7480 3a959b"))


def under_water(stage: Stage) -> Scene:
    back = scenery.gradient(stage, "6fd3ee 2795c9 0d5c9c 083a70")
    rays = Image.new("L", back.image.size)
    pen, middle = Pen(rays), stage.some(0.2, 0.8)
    for x in stage.rng.uniform(-0.4, 1.4, 6).tolist():
        low = x + 1.2 * (x - middle)
        pen.shape([(x, 0), (x + 0.07, 0), (low + 0.25, 1), (low, 1)], 70)
    back.image.paste((220, 250, 255), (0, 0), rays.filter(ImageFilter.GaussianBlur(stage.px(0.02))))
    front = scenery.layer(stage, (200, 240, 255)).specks("d8f6ff b6ebfb", 26, (0.05, 0.95), 0.012)
    return Scene(back=back, front=front, ground=stage.some(0.74, 0.84), shadow=0, tint=(178, 222, 250))


def puddle(stage: Stage) -> Scene:
    back = scenery.sky(stage, "7f93a3 93a9b8 a8bcc8").wall("river", (0.42, 1), 1.3)
    wet = scenery.gradient(stage, "9db3c0 7f9fb4 5f86a2")
    back.image.paste(wet.image, (0, stage.px(0.42)), Image.new("L", wet.image.size, 150))
    for x, y in stage.rng.uniform((0, 0.46), (1, 1), (22, 2)).tolist():
        wide = (y - 0.3) * stage.some(0.05, 0.14)
        back.oval(around(x, y, wide, wide / 3), None, rim=(226, 240, 248), width=0.008)
    drop = (225, 238, 246)
    front = scenery.layer(stage, drop)
    for x, y in stage.rng.uniform(0, 1, (46, 2)).tolist():
        front.line([(x, y), (x - 0.01, y + 0.07)], (*drop, 150), 0.008)
    return Scene(back=back, front=front, ground=0.84, shadow=0.65, tint=(214, 230, 240))


def beach(stage: Stage) -> Scene:
    back = scenery.sky(stage, DAY, clouds=2).wall("waves", (0.26, 0.33)).floor("sand", 0.32)
    back.specks("fff4e0 f3c9b0 e8e0d0", 9, (0.5, 1), 0.012)
    return Scene(back=back, front=_heap(stage, 0.9, "dcb377 ecca92"), ground=0.88, tint=(255, 250, 234))


def dunes(stage: Stage) -> Scene:
    back = scenery.sky(stage, "f3d9a8 f7e7c6 fbefd8")
    for height, family in ((0.3, "e3b878 d9ab6a"), (0.38, "d29c58 c99250")):
        back.ridge(height, stage.colour(family), swing=0.08, peaks=2)
    back.floor("sand", 0.46)
    return Scene(back=back, front=_heap(stage, 0.88, "d9aa66 e6bf80"), ground=0.86, tint=(255, 244, 220))


def ripples(stage: Stage) -> Scene:
    back = scenery.covered(stage, "sand", stage.some(0.6, 1.0))
    return Scene(back=back, front=_heap(stage, 0.93, "e2bb7c f0d3a0"), ground=0.86)


def sandbox(stage: Stage) -> Scene:
    back = scenery.covered(stage, "sand", 0.8).wall("wood_grain", (0, 0.18), 0.8)
    x = stage.some(0.06, 0.8)
    back.box((0, 0.17, 1, 0.19), (110, 74, 40))
    cake = [(x, 0.42), (x + 0.03, 0.27), (x + 0.12, 0.27), (x + 0.15, 0.42)]
    back.shape(cake, stage.colour("c4955a d1a468"))
    return Scene(back=back, front=_heap(stage, 0.9, "dcb377 ecca92"), ground=0.88)


def cliff(stage: Stage) -> Scene:
    back = scenery.covered(stage, "stone", stage.some(0.7, 1.1)).floor("stone", 0.68, zoom=0.9, depth=1.0)
    return Scene(back=back, front=_rubble(stage, RUBBLE), ground=0.88)


def mountains(stage: Stage) -> Scene:
    back = scenery.sky(stage, HAZE, clouds=2).crags(0.5, "9a9a9c 6c6d73").floor("gravel", 0.48, zoom=0.8)
    return Scene(back=back, front=_rubble(stage, RUBBLE), ground=0.87)


def canyon(stage: Stage) -> Scene:
    back = scenery.sky(stage, "5fa4dc a9d0ee").wall("red_stone", (stage.some(0.08, 0.25), 0.72))
    back.floor("red_stone", 0.7, zoom=0.8, depth=1.0)
    front = _rubble(stage, "8b4426 a9572f c4744a")
    return Scene(back=back, front=front, ground=0.88, tint=(255, 238, 224))


def boulders(stage: Stage) -> Scene:
    back = scenery.sky(stage, HAZE).floor("gravel", 0.3, zoom=0.6).stones(RUBBLE, 26, (0.24, 0.75), 0.17)
    return Scene(back=back, front=_rubble(stage, RUBBLE), ground=0.88)


def scree(stage: Stage) -> Scene:
    back = scenery.covered(stage, "stone", stage.some(0.6, 0.9)).stones(RUBBLE, 8, (0.05, 0.9), 0.07)
    return Scene(back=back, front=_rubble(stage, RUBBLE), ground=0.86)


def _blades(stage: Stage, foot: float, tall: float, count: int = 80) -> scenery.Canvas:
    return scenery.layer(stage, (70, 140, 50)).blades(foot, tall, "2f7022 479633 66b343 86c95a", count)


def _afloat(stage: Stage, line: float, family: str) -> dict[str, Any]:
    """Return the parts that make an object swim: water before its lower part, foam at the water's line."""
    water = stage.colour(family)
    front = scenery.layer(stage, water)
    front.box((0, line, 1, 1), (*water, 165))
    for y in (line, line + 0.05, line + 0.11):
        for _ in range(5):
            wide = stage.some(0.03, 0.1)
            front.oval(around(stage.some(0, 1), y, wide, 0.009), (240, 250, 252, 190))
    return {"front": front, "ground": line, "sunk": 0.18, "shadow": 0.2, "share": (0.54, 0.68), "still": True}


def _heap(stage: Stage, height: float, family: str) -> scenery.Canvas:
    colour = stage.colour(family)
    layer = scenery.layer(stage, colour).ridge(height, colour, swing=0.02)
    layer.specks(family, 60, (height + 0.02, 1), 0.006)
    return layer


def _rubble(stage: Stage, family: str) -> scenery.Canvas:
    return scenery.layer(stage, (110, 108, 105)).stones(family, 9, (0.93, 1.03), 0.075)


GRASS: tuple[Make, ...] = (meadow, tall_grass, flower_lawn, garden_fence, hillside)
WATER: tuple[Make, ...] = (sea, pool, river, under_water, puddle)
SAND: tuple[Make, ...] = (beach, dunes, ripples, sandbox)
ROCK: tuple[Make, ...] = (cliff, mountains, canyon, boulders, scree)
