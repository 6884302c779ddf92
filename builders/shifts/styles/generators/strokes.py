"""Styles drawn line by line: brush strokes, hatching, traces, bolts, leaves."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from builders.shifts.drawing.noise import FINE, finished, grid, smooth_noise
from builders.shifts.drawing.palettes import Colour, palette, pick, picture, ramp


def brush_strokes(rng: np.random.Generator) -> Image.Image:
    """Short thick strokes along a swirling flow, night blue and yellow."""
    colours = palette(rng, "1a3f86 1f5fa8 2f7cc0 4ea3d8 f2c14e 16336e")
    image = Image.new("RGB", (FINE, FINE), colours[1])
    draw = ImageDraw.Draw(image)
    flow = smooth_noise(rng, int(rng.integers(2, 5))) * rng.uniform(5, 9)
    tone = smooth_noise(rng, 4) * len(colours)
    length, width = rng.uniform(22, 40), int(rng.integers(7, 13))
    for x, y in rng.uniform(0, FINE, (2600, 2)):
        turn = flow[int(y), int(x)]
        number = int(tone[int(y), int(x)] + rng.uniform(-0.8, 0.8)) % len(colours)
        dx, dy = math.cos(turn) * length / 2, math.sin(turn) * length / 2
        draw.line([(x - dx, y - dy), (x + dx, y + dy)], fill=_lighter(rng, colours[number]), width=width)
    return finished(image)


def crosshatch(rng: np.random.Generator) -> Image.Image:
    """Sepia pen lines in several directions, denser where it is darker."""
    paper, ink = palette(rng, "f3e6c8 3a2314")
    image = Image.new("RGB", (FINE, FINE), paper)
    draw = ImageDraw.Draw(image)
    shade = smooth_noise(rng, int(rng.integers(3, 6)))
    base = rng.uniform(0, math.pi)
    for layer, floor in enumerate((0.15, 0.4, 0.6)):
        turn = base + layer * math.pi / 3
        for x, y in rng.uniform(0, FINE, (1500, 2)):
            if shade[int(y), int(x)] < floor:
                continue
            half = rng.uniform(12, 30)
            dx, dy = math.cos(turn) * half, math.sin(turn) * half
            draw.line([(x - dx, y - dy), (x + dx, y + dy)], fill=ink, width=2)
    return finished(image)


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
    """One bolt downwards from a point, with thinner forks."""
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
    image = Image.new("RGB", (FINE, FINE), colours[4])
    draw = ImageDraw.Draw(image)
    size = rng.uniform(45, 85)
    turn = rng.uniform(0, 2 * math.pi)
    along = np.linspace(0, 1, 14)
    for x, y in rng.uniform(-20, FINE + 20, (int(52000 / size), 2)):
        length = size * rng.uniform(0.7, 1.3)
        angle = turn + rng.normal(0, 0.7)
        half = np.sin(np.pi * along) * length * rng.uniform(0.16, 0.24)
        forth, side = np.concatenate([along, along[::-1]]) * length, np.concatenate([half, -half[::-1]])
        outline = np.stack(
            [
                x + forth * math.cos(angle) - side * math.sin(angle),
                y + forth * math.sin(angle) + side * math.cos(angle),
            ],
            axis=1,
        )
        draw.polygon(outline.ravel().tolist(), fill=pick(rng, colours[:4]), outline=colours[4])
        tip = (x + length * math.cos(angle), y + length * math.sin(angle))
        draw.line([(x, y), tip], fill=colours[5], width=2)
    return finished(image)


def neon_grid(rng: np.random.Generator) -> Image.Image:
    """Glowing pink and cyan lines in perspective on near black."""
    night, pink, cyan = palette(rng, "12021f ff2bd6 18f0ff")
    image = Image.new("RGB", (FINE, FINE))
    draw = ImageDraw.Draw(image)
    horizon, vanish = rng.uniform(-0.6, -0.1) * FINE, rng.uniform(0.2, 0.8) * FINE
    lines = int(rng.integers(10, 18))
    for number in range(-2 * lines, 3 * lines):
        draw.line([(vanish, horizon), (vanish + (number - lines / 2) * 120, FINE)], fill=pink, width=5)
    for number in range(lines):
        y = FINE * (number / lines) ** rng.uniform(1.2, 1.3)
        draw.line([(0, y), (FINE, y)], fill=cyan, width=5)
    halo = image.filter(ImageFilter.GaussianBlur(9))
    ground = Image.new("RGB", (FINE, FINE), night)
    turned = ImageChops.add(ImageChops.add(ground, ImageChops.add(halo, halo)), image)
    return finished(turned.rotate(90 * int(rng.integers(4))))


def circuit(rng: np.random.Generator) -> Image.Image:
    """A green board with golden traces, pads and dark chips."""
    board, trace, pad, chip = palette(rng, "0b6b3a d9c04a f2ead0 101418", turn=0.02)
    image = Image.new("RGB", (FINE, FINE), board)
    draw = ImageDraw.Draw(image)
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
    image = Image.new("RGB", (FINE, FINE), (250, 250, 246))
    draw = ImageDraw.Draw(image)
    time = np.linspace(0, 1, 220)
    for _ in range(int(rng.integers(14, 24))):
        x, y = rng.uniform(0, FINE, 2)
        loops, radius = rng.uniform(4, 9), rng.uniform(20, 60)
        drift = rng.uniform(-220, 220, 2)
        points = np.stack(
            [
                x + drift[0] * time + radius * np.cos(2 * np.pi * loops * time),
                y + drift[1] * time + radius * np.sin(2 * np.pi * loops * time),
            ],
            axis=1,
        )
        draw.line(points.ravel().tolist(), fill=pick(rng, colours), width=int(rng.integers(4, 8)))
    return finished(image)


def fingerprint_lines(rng: np.random.Generator) -> Image.Image:
    """Fine parallel ridges round a loop, black on white."""
    paper, ink = palette(rng, "f7f7f7 101010")
    x, y = grid(rng.uniform(0, math.pi))
    bend = smooth_noise(rng, 3) * rng.uniform(0.2, 0.5)
    ridges = np.sin(2 * np.pi * (np.hypot(x, y * rng.uniform(0.5, 0.9)) + bend) * rng.uniform(18, 28))
    return finished(picture(ramp(0.5 + 2 * ridges, [ink, paper])))


def _lighter(rng: np.random.Generator, colour: Colour) -> Colour:
    change = float(rng.uniform(0.85, 1.2))
    red, green, blue = (min(255, round(part * change)) for part in colour)
    return red, green, blue
