"""Common domains of the season: autumn, winter."""

from __future__ import annotations

from builders.shifts.contexts import scenery
from builders.shifts.contexts.scene import Make, Scene, Stage

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
