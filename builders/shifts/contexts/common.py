"""Scenes of the common domains: place, light, ground, season."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageChops, ImageFilter

from builders.shifts.contexts import scenery
from builders.shifts.contexts.scene import Make, Pen, Scene, Stage, around

CITY_DAY = "5aa2e2 93c6f0 d9ebf7"
WARM = (255, 244, 226)
IRON = (62, 68, 76)
HUSH = (206, 178, 146)


def room(stage: Stage, paper: str, boards: str, edge: float) -> scenery.Canvas:
    back = scenery.Canvas(stage).wall(paper, (0, edge), stage.some(0.8, 1.1)).floor(boards, edge, depth=0.8)
    return back.faded(HUSH, 0.3)


def parlour(stage: Stage) -> Scene:
    edge, x = stage.some(0.6, 0.7), stage.some(0.1, 0.65)
    back, box = room(stage, "wallpaper", "wood_grain", edge), (x, 0.1, x + 0.24, 0.3)
    back.panel(stage.any(("contour_map", "waves", "sunbursts", "marble")), box)
    back.box(box, None, rim=stage.colour("c9a04a 3a2a20 efe6d2"), width=0.02)
    back.box((0, edge - 0.03, 1, edge + 0.005), (244, 238, 226))
    return Scene(back=back, ground=0.87, tint=WARM)


def shelf(stage: Stage) -> Scene:
    back = scenery.covered(stage, "wood_grain", 0.7).faded(HUSH, 0.3)
    back.box((0, 0.1, 1, 0.82), stage.colour("5a3d26 6b4a30"))
    for left, right in ((-0.02, 0.26), (0.74, 1.02)):
        x = left
        while x < right:
            wide, tall = stage.some(0.03, 0.06), stage.some(0.3, 0.5)
            binding = stage.colour("8c2f39 2f5d8c 3f7a4a d0a545 6b4a7a e0d6c2 303448")
            back.box((x, 0.82 - tall, x + wide - 0.008, 0.82), binding)
            x += wide
    return Scene(back=back, ground=0.85, share=(0.46, 0.56), across=(0.4, 0.6), tint=WARM, still=True)


def rug(stage: Stage) -> Scene:
    back, cloth = (
        scenery.covered(stage, name, stage.some(0.8, 1.2)).faded(HUSH, 0.3)
        for name in ("wood_grain", "carpet")
    )
    left, top = stage.some(0.03, 0.12), stage.some(0.06, 0.16)
    corner = (stage.px(left), stage.px(top))
    back.image.paste(cloth.image.crop((*corner, stage.px(1 - left), stage.side)), corner)
    back.box((left, top, 1 - left, 1.03), None, rim=(238, 224, 190), width=0.024)
    return Scene(back=back, ground=0.86)


def window(stage: Stage) -> Scene:
    back, left, white = room(stage, "wallpaper", "wood_grain", 0.74), stage.some(0.14, 0.3), (250, 248, 242)
    view = scenery.sky(stage, CITY_DAY, clouds=3).image.crop((0, 0, stage.px(0.5), stage.px(0.5)))
    back.image.paste(view, (stage.px(left), stage.px(0.08)))
    back.box((left, 0.08, left + 0.5, 0.58), None, rim=white, width=0.022)
    back.line([(left + 0.25, 0.08), (left + 0.25, 0.58)], white, 0.018)
    back.line([(left, 0.33), (left + 0.5, 0.33)], white, 0.018)
    cloth = stage.colours(stage.any(("b5483f c46a5a", "3f6f8c 5a8ca8", "6f8a4a 86a05f")))
    for start in (left - 0.11, left + 0.44):
        for fold in range(5):
            x = start + 0.035 * fold
            back.box((x, 0.05, x + 0.035, 0.68), cloth[fold % 2])
    return Scene(back=back, ground=0.89, tint=WARM)


def desk(stage: Stage) -> Scene:
    back = room(stage, "brick", "wood_grain", 0.6)
    lamp(back, stage.any((0.1, 0.88)), 0.64)
    return Scene(back=back, ground=0.87, tint=(255, 240, 214))


def lamp(back: scenery.Canvas, x: float, foot: float) -> None:
    back.line([(x, foot), (x, 0.3)], (70, 60, 54), 0.018)
    shade = [(x - 0.05, 0.15), (x + 0.05, 0.15), (x + 0.12, 0.32), (x - 0.12, 0.32)]
    back.shape(shade, back.stage.colour("ffe9b0 f6d98a fff0c8"))


def street(stage: Stage) -> Scene:
    back, x = scenery.sky(stage, CITY_DAY, clouds=2), -0.05
    while x < 1:
        wide = stage.some(0.22, 0.36)
        back.panel("facade", (x, stage.some(0.06, 0.28), x + wide, 0.56))
        x += wide + 0.01
    back.floor("asphalt", 0.58).box((0, 0.55, 1, 0.61), (178, 174, 168))
    for start in (0.05, 0.4, 0.75):
        back.box((start, 0.73, start + 0.2, 0.755), (238, 236, 226))
    return Scene(back=back, ground=0.9)


def square(stage: Stage) -> Scene:
    back, left = scenery.sky(stage, CITY_DAY, clouds=2), stage.some(-0.1, 0.15)
    back.panel("facade", (left, 0.1, left + 0.9, 0.52)).floor("paving", 0.52, zoom=0.8)
    return Scene(back=back, ground=0.88)


def rooftop(stage: Stage) -> Scene:
    back = scenery.sky(stage, "4f9be0 9fcdf2 e8e8e0", clouds=3)
    skyline(back, 0.34, "a9bccb b6c8d6")
    skyline(back, 0.46, "8497a8 7789a0")
    back.floor("paving", 0.64, depth=0.8)
    for y in (0.5, 0.57):
        back.line([(0, y), (1, y)], IRON, 0.014)
    for x in (0.05, 0.35, 0.65, 0.95):
        back.line([(x, 0.49), (x, 0.66)], IRON, 0.016)
    return Scene(back=back, ground=0.89)


def parking(stage: Stage) -> Scene:
    back = scenery.sky(stage, CITY_DAY, clouds=3)
    skyline(back, 0.3, "8fa2b2 9fb0be 7b8fa2")
    back.floor("asphalt", 0.46)
    point = stage.some(0.35, 0.65)
    for x in (-1.4, -0.75, -0.2, 0.35, 0.9, 1.5):
        near, far = point + x, point + 0.3 * x
        back.shape([(far, 0.5), (far + 0.012, 0.5), (near + 0.05, 1), (near, 1)], (240, 240, 234))
    return Scene(back=back, ground=0.87)


def bus_stop(stage: Stage) -> Scene:
    back = scenery.sky(stage, CITY_DAY, clouds=2).wall("brick", (stage.some(0.12, 0.22), 0.6), 0.9)
    back.floor("paving", 0.6, depth=0.6)
    pole = stage.any((0.08, 0.9))
    for x in (stage.some(0.05, 0.2), stage.some(0.5, 0.7)):
        back.box((x, 0.28, x + 0.17, 0.5), (112, 148, 176), rim=(236, 232, 224), width=0.02)
    back.line([(pole, 0.16), (pole, 0.76)], (90, 94, 100), 0.02)
    sign = stage.colour("1f6fc4 d8382f 2f9a4a")
    back.oval(around(pole, 0.15, 0.08), sign, rim=scenery.WHITE, width=0.02)
    return Scene(back=back, ground=0.88)


def skyline(back: scenery.Canvas, height: float, family: str) -> None:
    x = 0.0
    while x < 1:
        wide = back.stage.some(0.06, 0.14)
        top = height - back.stage.some(-0.06, 0.2)
        back.box((x, top, x + wide, 1), back.stage.colour(family))
        x += wide


INDOOR: tuple[Make, ...] = (parlour, shelf, rug, window, desk)
OUTDOOR: tuple[Make, ...] = (street, square, rooftop, parking, bus_stop)


def sunset(stage: Stage) -> Scene:
    back = scenery.sky(stage, "4a3f72 9a5a7c e0875c f6c07a", clouds=3, cloud=(214, 128, 118))
    for height, family in ((0.5, "4f3d57 5a4560"), (0.62, "3a3048 443850")):
        back.ridge(height, stage.colour(family))
    back.floor("asphalt", 0.7, depth=0.8)
    return Scene(back=back, ground=0.88, light=scenery.even_light(stage.colour("b8929a b08a9c")))


def lamp_in_fog(stage: Stage) -> Scene:
    back, x, fog = scenery.sky(stage, "6d7482 7d838c 8a8b8c"), stage.any((0.14, 0.86)), (150, 150, 146)
    back.trees(0.66, "646a76 6f747f", 4).floor("paving", 0.68, depth=0.8)
    back.line([(x, 0.2), (x, 0.82)], (52, 54, 60), 0.02)
    haze = scenery.layer(stage, fog)
    haze.box((0, 0, 1, 1), (*fog, 70))
    for reach, alpha in ((0.17, 60), (0.11, 110), (0.055, 230)):
        haze.oval(around(x, 0.18, reach), (250, 226, 170, alpha))
    light = scenery.lamp_light((x, 0.3), 0.7, (226, 206, 164), (120, 124, 136))
    return Scene(back=back, front=haze, ground=0.88, light=light)


def blinds(stage: Stage) -> Scene:
    back = room(stage, "wallpaper", "wood_grain", 0.66)
    light = Image.new("RGB", (128, 128), stage.colour("857784 7b7288"))
    pen, lean, start = Pen(light), stage.some(-0.23, 0.23), stage.some(-0.4, -0.3)
    for step in range(10):
        y = start + 0.17 * step
        pen.shape([(0, y), (1, y + lean), (1, y + lean + 0.07), (0, y + 0.07)], (206, 172, 136))
    return Scene(back=back, ground=0.87, light=light)


def twilight_wood(stage: Stage) -> Scene:
    back = scenery.sky(stage, "4a6286 6f86a4 8c98a6")
    for x in stage.rng.uniform(0, 1, 9).tolist():
        back.box(around(x, 0.36, stage.some(0.02, 0.05), 0.36), stage.colour("38455a 445268"))
    back.floor("litter", 0.7, depth=0.8)
    return Scene(back=back, ground=0.88, light=scenery.even_light(stage.colour("8592b2 8c98b2")))


def evening_room(stage: Stage) -> Scene:
    back, x = room(stage, "wallpaper", "carpet", 0.65), stage.any((0.12, 0.88))
    lamp(back, x, 0.8)
    light = scenery.lamp_light((x, 0.3), 0.55, (255, 214, 150), (112, 84, 78))
    return Scene(back=back, ground=0.88, light=light)


def night_sky(stage: Stage) -> Scene:
    back = scenery.sky(stage, "050a22 0b1638 1a2a56").specks("ffffff dfe8ff fff3cf", 60, (0, 0.6), 0.004)
    moon = around(stage.some(0.12, 0.88), stage.some(0.1, 0.22), stage.some(0.06, 0.09))
    back.oval(moon, (250, 246, 220))
    back.ridge(0.6, (9, 13, 28), swing=0.06)
    return Scene(back=back, ground=0.87, shadow=0.3, tint=(122, 138, 182))


def candle(stage: Stage) -> Scene:
    back, x = room(stage, "brick", "wood_grain", 0.66), stage.any((0.1, 0.9))
    back.box((x - 0.03, 0.62, x + 0.03, 0.86), (255, 244, 214))
    back.shape([(x, 0.48), (x + 0.03, 0.57), (x, 0.62), (x - 0.03, 0.57)], (255, 226, 120))
    light = scenery.lamp_light((x, 0.62), 0.45, (255, 200, 116), (48, 34, 30))
    return Scene(back=back, ground=0.87, light=light)


def street_lamp(stage: Stage) -> Scene:
    back, x = scenery.sky(stage, "3a4560 46506a 58607a"), stage.some(0.4, 0.6)
    skyline(back, 0.3, "3b4052 464a5e")
    back.floor("paving", 0.62, depth=0.8)
    light = scenery.lamp_light((x, 0.62), 0.34, (255, 222, 150), (26, 30, 48), tall=1.7)
    return Scene(back=back, ground=0.87, across=(x - 0.04, x + 0.04), light=light)


def torch(stage: Stage) -> Scene:
    back, x = room(stage, stage.any(("stone", "brick", "wood_grain")), "gravel", 0.68), stage.some(0.42, 0.58)
    light = scenery.lamp_light((x, 0.6), 0.32, (246, 246, 226), (18, 19, 26))
    return Scene(back=back, ground=0.86, across=(x - 0.03, x + 0.03), light=light)


def neon(stage: Stage) -> Scene:
    back, rest = room(stage, "brick", "asphalt", 0.64), (30, 20, 52)
    left = scenery.lamp_light((stage.some(0, 0.2), 0.2), 0.5, (255, 70, 190), rest)
    right = scenery.lamp_light((stage.some(0.8, 1), 0.4), 0.5, (60, 200, 255), rest)
    signs, x = scenery.layer(stage, scenery.WHITE), stage.some(0.08, 0.4)
    signs.line([(x, 0.1), (x + 0.35, 0.1)], (255, 220, 250), 0.014)
    signs.oval(around(0.9, 0.22, 0.06), None, rim=(210, 250, 255), width=0.014)
    return Scene(back=back, front=signs, ground=0.87, light=ImageChops.add(left, right))


DIM: tuple[Make, ...] = (sunset, lamp_in_fog, blinds, twilight_wood, evening_room)
DARK: tuple[Make, ...] = (night_sky, candle, street_lamp, torch, neon)


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


LEAVES = "a8321a d2571c ea8a26 f2b432 c9a02e 8a4a1e"
GOLD = (255, 238, 208)


def forest(stage: Stage) -> Scene:
    back = scenery.sky(stage, "e8d9b8 f4e3b8 f2c98a").trees(0.5, LEAVES, 8).floor("litter", 0.48)
    return Scene(back=back, front=_fallen(stage), ground=0.87, tint=GOLD)


def avenue(stage: Stage) -> Scene:
    back = scenery.sky(stage, "b9cfe0 e6dcc4 f2cf94", clouds=2).floor("litter", 0.42)
    x = stage.some(0.4, 0.6)
    path = [(x - 0.03, 0.42), (x + 0.03, 0.42), (x + 0.38, 1), (x - 0.38, 1)]
    back.shape(path, stage.colour("b59a78 c4aa86"))
    for step in (0.16, 0.3, 0.46):
        for hand in (-1, 1):
            foot = (x + hand * (0.08 + step), 0.42 + 0.4 * step)
            back.tree(foot, 0.1 + 0.75 * step, LEAVES)
    back.leaves(LEAVES, 30, (0.5, 1), 0.018)
    return Scene(back=back, front=_fallen(stage), ground=0.87, tint=GOLD)


def leaf_pile(stage: Stage) -> Scene:
    back = scenery.covered(stage, "litter", stage.some(0.6, 1.0))
    return Scene(back=back, front=_fallen(stage, 60), ground=0.88, tint=GOLD)


def falling(stage: Stage) -> Scene:
    back = scenery.sky(stage, "f6e6c0 f9edd2 f3d49a")
    back.line([(0, 0.05), (1, stage.some(0.12, 0.2))], (78, 52, 36), 0.025)
    back.leaves(LEAVES, 60, (-0.05, 0.22), 0.05).ridge(0.72, stage.colour("c9a02e b98a3a"), swing=0.03)
    back.floor("litter", 0.76, depth=0.8)
    front = _fallen(stage)
    front.leaves(LEAVES, 9, (0.25, 0.8), 0.03)
    return Scene(back=back, front=front, ground=0.88, tint=GOLD)


def harvest(stage: Stage) -> Scene:
    back = scenery.sky(stage, "8fb4d2 d8dccc f4dca6", clouds=3)
    for height, family in ((0.34, "a8552a b56a30"), (0.42, "c98a34 c2702a")):
        back.ridge(height, stage.colour(family), swing=0.05)
        back.specks(LEAVES, 40, (height + 0.02, height + 0.1), 0.022)
    back.blades(0.55, 0.12, "b98a2c d8a93a e6c15c a8742a", 260)
    return Scene(back=back, front=_fallen(stage), ground=0.87, tint=GOLD)


def snowfield(stage: Stage) -> Scene:
    back = scenery.sky(stage, "9fb8d0 c6d6e4 e6eef5").conifers(0.44, "2f5548 3b6355", 8).floor("snow", 0.44)
    return Scene(back=back, front=_drift(stage, 40), ground=0.88, tint=(232, 240, 252))


def snowstorm(stage: Stage) -> Scene:
    back = scenery.sky(stage, "aebccb c3cedb d9e2ec").ridge(0.5, stage.colour("b7c6d6 c4d1de"), swing=0.07)
    back.floor("snow", 0.6)
    return Scene(back=back, front=_drift(stage, 130), ground=0.88, tint=(224, 233, 246))


def frozen_lake(stage: Stage) -> Scene:
    back = scenery.sky(stage, "6fa9dc a9cdea e2f0fa").crags(0.44, "f4f8fc b3c9de")
    back.floor("ice", 0.42, zoom=0.9)
    return Scene(back=back, front=_drift(stage, 20, 0.93), ground=0.86, tint=(232, 243, 255))


def village(stage: Stage) -> Scene:
    back = scenery.sky(stage, "8fa6c8 bccbe0 e4e6ee")
    for x in (stage.some(-0.05, 0.1), stage.some(0.3, 0.42), stage.some(0.65, 0.78)):
        back.box((x, 0.32, x + 0.25, 0.55), stage.colour("9c5a44 7b6a5c b08a5a 6f7d8c"))
        back.shape([(x - 0.04, 0.33), (x + 0.125, 0.16), (x + 0.29, 0.33)], (246, 250, 254))
        for left in (x + 0.05, x + 0.15):
            back.box((left, 0.38, left + 0.05, 0.46), (255, 220, 130))
    back.floor("snow", 0.52)
    return Scene(back=back, front=_drift(stage, 46), ground=0.88, tint=(230, 238, 252))


def drifts(stage: Stage) -> Scene:
    back = scenery.covered(stage, "snow", stage.some(0.6, 1.0))
    for _ in range(3):
        x, y, long = stage.some(0, 0.9), stage.some(0.05, 0.3), stage.some(0.08, 0.14)
        back.line([(x, y), (x + long, y + long)], (120, 98, 84), 0.012)
        back.line([(x + long / 2, y + long / 2), (x + long, y + long / 3)], (120, 98, 84), 0.008)
    return Scene(back=back, front=_drift(stage, 46), ground=0.88, tint=(236, 243, 255))


def _fallen(stage: Stage, count: int = 36) -> scenery.Canvas:
    return scenery.layer(stage, (190, 90, 30)).leaves(LEAVES, count, (0.87, 1), 0.032)


def _drift(stage: Stage, flakes: int, height: float = 0.89) -> scenery.Canvas:
    layer = scenery.layer(stage, (246, 250, 255)).ridge(height, stage.colour("eef4fb f6faff"), swing=0.02)
    layer.specks("ffffff f2f7ff", flakes, (0, 1), 0.009)
    return layer


AUTUMN: tuple[Make, ...] = (forest, avenue, leaf_pile, falling, harvest)
WINTER: tuple[Make, ...] = (snowfield, snowstorm, frozen_lake, village, drifts)
