"""Unique domains of what accompanies the object, all drawn here: no picture shows a second class."""

from __future__ import annotations

import math

import numpy as np

from builders.shifts.contexts import scenery
from builders.shifts.contexts.attributes_actions import studio
from builders.shifts.contexts.scene import Make, Pen, Scene, Stage, around

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
