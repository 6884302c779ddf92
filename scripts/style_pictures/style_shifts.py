"""Style pictures of the eight style shifts of CNS-Bench, drawn from a seed like those of the style bank."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing import (
    FINE,
    Colour,
    cells,
    cloud,
    finished,
    flat,
    grid,
    palette,
    pick,
    picture,
    ramp,
    smooth_noise,
    warp,
    where,
)

from .parts import canvas, shaded


def cartoon(rng: np.random.Generator) -> Image.Image:
    """Flat bright shapes inside bold black outlines."""
    colours = palette(rng, "ff4d4d ffd23f 3fb8ff 5ad45a ff8fd0 ffffff", turn=0.04)
    x, y = grid(rng.uniform(0, np.pi))
    dx, dy = warp(rng, 5, rng.uniform(0.04, 0.08))
    columns = int(rng.integers(3, 6))
    shape = cells(rng, columns, x + dx, y + dy)
    outline = shape.second - shape.first < rng.uniform(0.025, 0.04)
    fill = flat(rng.integers(0, len(colours), columns**2)[shape.number], colours)
    return finished(picture(where(outline, 10.0, fill)))


def plush_toy(rng: np.random.Generator) -> Image.Image:
    """Soft short fur in patches of warm colours."""
    colours = palette(rng, "c98a5b e8b98a f3d9c0 d98ea0 a8643c f0c0a8", turn=0.05)
    patch = smooth_noise(rng, 3) * len(colours)
    flow = smooth_noise(rng, int(rng.integers(2, 4))) * rng.uniform(3, 6)
    image, draw = canvas(colours[0])
    length = rng.uniform(14, 24)
    for x, y in rng.uniform(0, FINE, (9000, 2)):
        turn = flow[int(y), int(x)] + rng.normal(0, 0.5)
        colour = shaded(colours[int(patch[int(y), int(x)]) % len(colours)], rng.uniform(0.6, 1.25))
        end = (x + math.cos(turn) * length, y + math.sin(turn) * length)
        draw.line([(x, y), end], fill=colour, width=3)
    return finished(image.filter(ImageFilter.GaussianBlur(1.5)))


def pencil_sketch(rng: np.random.Generator) -> Image.Image:
    """Grey hatching on white paper, denser where it is darker."""
    image, draw = canvas((248, 248, 246))
    tone = smooth_noise(rng, int(rng.integers(3, 5)))
    base, pitch = rng.uniform(0, math.pi), rng.uniform(1200, 1900)
    for layer, floor in enumerate((0.35, 0.55, 0.7)):
        turn = base + layer * rng.uniform(0.7, 1.2)
        for x, y in rng.uniform(0, FINE, (int(pitch), 2)):
            if tone[int(y), int(x)] < floor:
                continue
            half, grey = rng.uniform(14, 34), int(rng.integers(50, 130))
            dx, dy = math.cos(turn) * half, math.sin(turn) * half
            draw.line([(x - dx, y - dy), (x + dx, y + dy)], fill=(grey, grey, grey), width=2)
    return finished(image)


def painting(rng: np.random.Generator) -> Image.Image:
    """Thick strokes of oil paint laid over each other along a flow."""
    colours = palette(rng, "24507a c8853a 7a3b2e e6d3a3 3f6b4a 8fb0c4 d9a441", turn=0.04)
    image, draw = canvas(colours[0])
    flow = smooth_noise(rng, int(rng.integers(2, 4))) * rng.uniform(4, 7)
    tone = smooth_noise(rng, 4) * len(colours) * 1.5
    for x, y in rng.uniform(0, FINE, (900, 2)):
        turn, length = flow[int(y), int(x)], rng.uniform(30, 70)
        colour = colours[int(tone[int(y), int(x)] + rng.uniform(-0.6, 0.6)) % len(colours)]
        for bristle in range(-7, 8, 2):  # a brush leaves streaks
            px, py = x - bristle * math.sin(turn), y + bristle * math.cos(turn)
            end = (px + math.cos(turn) * length, py + math.sin(turn) * length)
            draw.line([(px, py), end], fill=shaded(colour, rng.uniform(0.75, 1.25)), width=3)
    return finished(image)


def sculpture(rng: np.random.Generator) -> Image.Image:
    """Hewn pale stone: soft grey bumps lit from one side, with grain."""
    stone = palette(rng, "5a5a5c 9a9a98 d4d2cc f4f3ef", turn=0.01)
    height = cloud(rng, int(rng.integers(3, 6)), 3) * rng.uniform(50, 80)
    down, across = np.gradient(height)
    turn = rng.uniform(0, 2 * math.pi)
    light = 0.55 + 0.6 * (down * math.sin(turn) + across * math.cos(turn))
    return finished(picture(ramp(light + 0.12 * (cloud(rng, 64, 2) - 0.5), stone)))


def graffiti(rng: np.random.Generator) -> Image.Image:
    """Saturated spray paint with soft rims, drips and black lines on a concrete wall."""
    colours = palette(rng, "ff1fa0 00d5ff ffe600 7cff00 8a2be2 ff5a00", turn=0.03)
    image = picture(ramp(cloud(rng, 24, 4), [(120, 120, 118), (176, 174, 170)]))
    for _ in range(int(rng.integers(12, 18))):
        mask = Image.new("L", image.size)
        draw = ImageDraw.Draw(mask)
        x, y = rng.uniform(0, FINE, 2)
        reach = rng.uniform(35, 80)
        points = rng.normal((x, y), reach, (6, 2))
        draw.line(points.ravel().tolist(), fill=235, width=int(reach * 0.6), joint="curve")
        for drip in rng.uniform(-reach, reach, 3) + x:
            draw.line([(drip, y), (drip, y + reach * rng.uniform(1.5, 3))], fill=235, width=6)
        image.paste(pick(rng, colours), mask=mask.filter(ImageFilter.GaussianBlur(rng.uniform(1, 6))))
        if rng.random() < 0.5:
            marker = (points + 8).ravel().tolist()
            ImageDraw.Draw(image).line(marker, fill=(12, 10, 16), width=9, joint="curve")
    return finished(image)


def video_game(rng: np.random.Generator) -> Image.Image:
    """Square pixels of a small bright palette, as on an old console."""
    colours = palette(rng, "1d2b53 ff004d 29adff 00e436 ffec27 ffa300 fff1e8 7e2553", turn=0.02)
    side = int(rng.choice([16, 22, 32]))
    terrain = cloud(rng, int(rng.integers(3, 5)), 3, side) * 9 + rng.uniform(-0.7, 0.7, (side, side))
    pixels = flat(terrain.clip(0).astype(np.int64), colours)
    return picture(pixels).resize((256, 256), Image.Resampling.NEAREST)


def tattoo(rng: np.random.Generator) -> Image.Image:
    """Bold curved lines and dots of dark ink on skin."""
    skin = palette(rng, str(rng.choice(["e8b896", "c68a62", "f0cdb4", "a8714c"])), turn=0.01)[0]
    ink: Colour = (28, 34, 44)
    image = picture(ramp(cloud(rng, 12, 4), [shaded(skin, 0.9), shaded(skin, 1.06)]))
    draw = ImageDraw.Draw(image)
    time = np.linspace(0, 1, 80)
    for _ in range(int(rng.integers(16, 24))):
        x, y = rng.uniform(0, FINE, 2)
        turn, bend, size = rng.uniform(0, 2 * math.pi), rng.uniform(2, 6), rng.uniform(50, 120)
        angle = turn + bend * time
        radius = size * (1 - 0.75 * time)
        width = rng.uniform(5, 16) * np.sin(np.pi * time)  # tribal: thick in the middle, pointed ends
        for px, py, half in zip(x + radius * np.cos(angle), y + radius * np.sin(angle), width, strict=True):
            draw.ellipse([px - half, py - half, px + half, py + half], fill=ink)
    for x, y in rng.uniform(0, FINE, (120, 2)):
        draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=ink)
    return finished(image.filter(ImageFilter.GaussianBlur(1)))
