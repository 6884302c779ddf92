"""Common domains of the place: indoor, outdoor."""

from __future__ import annotations

from builders.shifts.contexts import scenery
from builders.shifts.contexts.scene import Make, Scene, Stage, around

DAY = "5aa2e2 93c6f0 d9ebf7"
WARM = (255, 244, 226)
IRON = (62, 68, 76)
HUSH = (206, 178, 146)


def room(stage: Stage, paper: str, boards: str, edge: float) -> scenery.Canvas:
    """A wall and a floor that meet at a height."""
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
    view = scenery.sky(stage, DAY, clouds=3).image.crop((0, 0, stage.px(0.5), stage.px(0.5)))
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
    """A lamp on a rod, with a cone as its shade."""
    back.line([(x, foot), (x, 0.3)], (70, 60, 54), 0.018)
    shade = [(x - 0.05, 0.15), (x + 0.05, 0.15), (x + 0.12, 0.32), (x - 0.12, 0.32)]
    back.shape(shade, back.stage.colour("ffe9b0 f6d98a fff0c8"))


def street(stage: Stage) -> Scene:
    back, x = scenery.sky(stage, DAY, clouds=2), -0.05
    while x < 1:
        wide = stage.some(0.22, 0.36)
        back.panel("facade", (x, stage.some(0.06, 0.28), x + wide, 0.56))
        x += wide + 0.01
    back.floor("asphalt", 0.58).box((0, 0.55, 1, 0.61), (178, 174, 168))
    for start in (0.05, 0.4, 0.75):
        back.box((start, 0.73, start + 0.2, 0.755), (238, 236, 226))
    return Scene(back=back, ground=0.9)


def square(stage: Stage) -> Scene:
    back, left = scenery.sky(stage, DAY, clouds=2), stage.some(-0.1, 0.15)
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
    back = scenery.sky(stage, DAY, clouds=3)
    skyline(back, 0.3, "8fa2b2 9fb0be 7b8fa2")
    back.floor("asphalt", 0.46)
    point = stage.some(0.35, 0.65)
    for x in (-1.4, -0.75, -0.2, 0.35, 0.9, 1.5):
        near, far = point + x, point + 0.3 * x
        back.shape([(far, 0.5), (far + 0.012, 0.5), (near + 0.05, 1), (near, 1)], (240, 240, 234))
    return Scene(back=back, ground=0.87)


def bus_stop(stage: Stage) -> Scene:
    back = scenery.sky(stage, DAY, clouds=2).wall("brick", (stage.some(0.12, 0.22), 0.6), 0.9)
    back.floor("paving", 0.6, depth=0.6)
    pole = stage.any((0.08, 0.9))
    for x in (stage.some(0.05, 0.2), stage.some(0.5, 0.7)):
        back.box((x, 0.28, x + 0.17, 0.5), (112, 148, 176), rim=(236, 232, 224), width=0.02)
    back.line([(pole, 0.16), (pole, 0.76)], (90, 94, 100), 0.02)
    sign = stage.colour("1f6fc4 d8382f 2f9a4a")
    back.oval(around(pole, 0.15, 0.08), sign, rim=scenery.WHITE, width=0.02)
    return Scene(back=back, ground=0.88)


def skyline(back: scenery.Canvas, height: float, family: str) -> None:
    """Towers, one tone each, filled to the bottom."""
    x = 0.0
    while x < 1:
        wide = back.stage.some(0.06, 0.14)
        top = height - back.stage.some(-0.06, 0.2)
        back.box((x, top, x + wide, 1), back.stage.colour(family))
        x += wide


INDOOR: tuple[Make, ...] = (parlour, shelf, rug, window, desk)
OUTDOOR: tuple[Make, ...] = (street, square, rooftop, parking, bus_stop)
