"""Styles drawn line by line: brush strokes, hatching, traces, bolts, leaves."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from builders.shifts.drawing import FINE, Colour, finished, palette, pick, picture, ramp, smooth_noise
from builders.shifts.drawing import Doubles as Field

from .parts import canvas


def lightning(rng: np.random.Generator) -> Image.Image:
    """Forked white-blue bolts with a glow on a storm sky."""
    sky, cloud_colour, glow, core = palette(rng, "0a1045 2b2f77 5f8bff f4f8ff")
    ground = picture(ramp(smooth_noise(rng, 4), [sky, cloud_colour]))
    bolts = Image.new("RGB", (FINE, FINE))
    for _ in range(int(rng.integers(4, 8))):
        _bolt(rng, ImageDraw.Draw(bolts), (rng.uniform(0, FINE), 0.0), rng.uniform(-0.4, 0.4), 5, glow)
    halo = bolts.filter(ImageFilter.GaussianBlur(12))
    lit = ImageChops.add(ImageChops.add(ground, ImageChops.add(halo, halo)), bolts)
    sharp = bolts.convert("L").point(lambda value: 255 if value else 0)
    lit.paste(core, mask=sharp)
    return finished(lit)


def _bolt(
    rng: np.random.Generator,
    draw: ImageDraw.ImageDraw,
    start: tuple[float, float],
    lean: float,
    width: int,
    colour: Colour,
) -> None:
    x, y = start
    while y < FINE and width > 0:
        step = rng.uniform(14, 32)
        end = (x + step * math.tan(lean * 0.8 + rng.uniform(-0.7, 0.7)), y + step)
        draw.line([(x, y), end], fill=colour, width=width)
        x, y = end
        if rng.random() < 0.16:
            _bolt(rng, draw, (x, y), float(rng.choice([-0.8, 0.8])), width - 2, colour)


def leaves(rng: np.random.Generator) -> Image.Image:
    """Overlapping pointed leaves with a light midrib."""
    colours = palette(rng, "1b4d1b 2e8b2e 7bc043 b8e04a 0f3310 e2f0a0", turn=0.03)
    image, draw = canvas(colours[4])
    size = rng.uniform(45, 85)
    turn = rng.uniform(0, 2 * math.pi)
    along = np.linspace(0, 1, 14)
    for x, y in rng.uniform(-20, FINE + 20, (int(52000 / size), 2)):
        length = size * rng.uniform(0.7, 1.3)
        angle = turn + rng.normal(0, 0.7)
        half = np.sin(np.pi * along) * length * rng.uniform(0.16, 0.24)
        forth, side = np.concatenate([along, along[::-1]]) * length, np.concatenate([half, -half[::-1]])
        across = x + forth * math.cos(angle) - side * math.sin(angle)
        down = y + forth * math.sin(angle) + side * math.cos(angle)
        draw.polygon(_points(across, down), fill=pick(rng, colours[:4]), outline=colours[4])
        tip = (x + length * math.cos(angle), y + length * math.sin(angle))
        draw.line([(x, y), tip], fill=colours[5], width=2)
    return finished(image)


def circuit(rng: np.random.Generator) -> Image.Image:
    """A green board with golden traces, pads and dark chips."""
    board, trace, pad, chip = palette(rng, "0b6b3a d9c04a f2ead0 101418", turn=0.02)
    image, draw = canvas(board)
    pitch = int(rng.integers(14, 24))
    for _ in range(int(9000 / pitch / 3)):
        x, y = (rng.integers(0, FINE // pitch, 2) * pitch).tolist()
        points = [(x, y)]
        for _ in range(int(rng.integers(2, 5))):
            dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (1, -1))[int(rng.integers(6))]
            run = pitch * int(rng.integers(1, 6))
            x, y = x + dx * run, y + dy * run
            points.append((x, y))
        draw.line(points, fill=trace, width=4)
        for px, py in (points[0], points[-1]):
            draw.ellipse([px - 6, py - 6, px + 6, py + 6], fill=pad, outline=trace)
    for _ in range(int(rng.integers(4, 9))):
        left, top = (rng.integers(0, FINE // pitch, 2) * pitch).tolist()
        wide, high = (rng.integers(3, 6, 2) * pitch).tolist()
        draw.rectangle([left, top, left + wide, top + high], fill=chip, outline=pad, width=3)
    return finished(image)


def scribbles(rng: np.random.Generator) -> Image.Image:
    """Loops of wax crayon in primary colours on white."""
    colours = palette(rng, "e4002b 0057b8 ffc600 00873e", turn=0.015)
    image, draw = canvas((250, 250, 246))
    time = np.linspace(0, 1, 220)
    for _ in range(int(rng.integers(14, 24))):
        x, y = rng.uniform(0, FINE, 2)
        loops, radius = rng.uniform(4, 9), rng.uniform(20, 60)
        drift = rng.uniform(-220, 220, 2)
        across = x + drift[0] * time + radius * np.cos(2 * np.pi * loops * time)
        down = y + drift[1] * time + radius * np.sin(2 * np.pi * loops * time)
        draw.line(_points(across, down), fill=pick(rng, colours), width=int(rng.integers(4, 8)))
    return finished(image)


def _points(across: Field, down: Field) -> list[float]:
    return np.stack([across, down], axis=1).ravel().tolist()
