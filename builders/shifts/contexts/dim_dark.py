"""Common domains of the light: dim, dark."""

from __future__ import annotations

from PIL import Image, ImageChops

from builders.shifts.contexts import scenery
from builders.shifts.contexts.indoor_outdoor import lamp, room, skyline
from builders.shifts.contexts.scene import Make, Pen, Scene, Stage, around


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
