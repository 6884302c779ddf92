"""Weather on any picture: `render(name, picture, scale, key=...)`, with a continuous scale of 0 to 2.5.

Light is lost on its way through the medium, and the medium's own light takes its place (after Koschmieder: of
a pixel's light the share `exp(-extinction * depth)` arrives, the rest is airlight). Drops, flakes and grains
fly in layers, from far, small and many to near, large and few; snow also stays on what it falls on.

A trajectory is one picture and key under growing scale. Clouds, drops and flakes come from the key alone:
they stay where they are, grow denser, and new ones join them. At scale 0 the picture is untouched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing import (
    Colour,
    Field,
    Key,
    as_floats,
    as_picture,
    laid_over,
    noise,
    shade,
)
from shiftdata.stable import rng

FAR, NEAR = 1.6, 0.7  # distances of the ground at the picture's top and bottom
MAX_SCALE = 2.5
FADE_IN = 0.4  # of the scale: how long a particle takes to appear
FINE = 320  # the least number of pixels along the shorter side while drawing
SNOW = (238, 243, 250)
CAP = 0.022  # thickness at a scale of 1, a share of the shorter side
DRIFT = 0.05  # height at a scale of 1, a share of the height
SHELTER = 0.7  # how much an edge keeps snow from what lies below it


@dataclass(frozen=True)
class Medium:
    """Droplets or dust in the air; figures are for a scale of 1 and a depth of 1.

    air: the airlight.
    extinction: the optical depth for red, green and blue: dust takes blue first, droplets take all alike.
    cells, stretch, patchy: the size, sideways length and contrast of denser and thinner patches.
    settled: how much denser it is at the bottom of the picture than in its middle.
    scatter, spread: how much of the light arrives from near its place only, which blurs, and from how near.
    grain: how speckled the airlight is.
    """

    air: Colour
    extinction: tuple[float, float, float]
    cells: int = 3
    stretch: float = 1
    patchy: float = 0
    settled: float = 0
    scatter: float = 0
    spread: float = 0.02
    grain: float = 0

    def arriving(self, thickness: Field | float) -> Field:
        amount = np.asarray(thickness, dtype=np.float32)[..., np.newaxis]
        return np.asarray(np.exp(-amount * np.array(self.extinction, dtype=np.float32)))


def ground_plane(size: tuple[int, int]) -> Field:
    """The depth of a plane seen from above: its inverse grows evenly from the top row to the bottom row."""
    column = 1 / np.linspace(1 / FAR, 1 / NEAR, size[1], dtype=np.float32)
    return np.repeat(column[:, np.newaxis], size[0], axis=1)


def veil(medium: Medium, pixels: Field, scale: float, depth: Field, draws: np.random.Generator) -> Field:
    """The pixels behind the medium."""
    height, width = depth.shape
    patches = noise(draws, (width, height), medium.cells, stretch=medium.stretch)
    density = 1 + medium.patchy * (2 * patches - 1)
    density *= 1 + medium.settled * np.linspace(-1, 1, height, dtype=np.float32)[:, np.newaxis]
    thickness = scale * depth * density
    if medium.scatter:
        radius = medium.spread * min(width, height)
        soft = as_floats(as_picture(pixels).filter(ImageFilter.GaussianBlur(radius)))
        pixels = laid_over(pixels, soft, 1 - np.exp(-medium.scatter * thickness))
    air = shade(medium.air)
    if medium.grain:
        speckle = noise(draws, (width, height), 100, octaves=2, stretch=medium.stretch)
        air = air * (1 + medium.grain * (2 * speckle - 1))[..., np.newaxis]
    return np.asarray(air + (pixels - air) * medium.arriving(thickness))


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Particles at one depth; lengths are shares of the picture's shorter side.

    count: how many there are in a square picture at the largest scale.
    length: of the streak that the motion leaves; 0 is a round particle.
    blur: how far out of focus they are.
    """

    depth: float
    count: int
    width: float
    colour: Colour
    opacity: float
    length: float = 0
    blur: float = 0


def fall(
    layer: Layer,
    medium: Medium,
    pixels: Field,
    scale: float,
    depth: Field,
    heading: float,
    draws: np.random.Generator,
) -> Field:
    """The pixels behind a layer of particles that move along `heading`, in radians clockwise from the right.

    What stands nearer than the layer hides it, and the medium between veils its colour.
    """
    share = _coverage(layer, (depth.shape[1], depth.shape[0]), scale, heading, draws)
    share *= ((depth - layer.depth) / 0.2 + 0.5).clip(0, 1)
    air = shade(medium.air)
    return laid_over(pixels, air + (shade(layer.colour) - air) * medium.arriving(scale * layer.depth), share)


def _coverage(
    layer: Layer, size: tuple[int, int], scale: float, heading: float, draws: np.random.Generator
) -> Field:
    """Return the share of each pixel that the layer's particles cover, 0 to 1."""
    width, height = size
    short = min(size)
    fine = max(2, math.ceil(FINE / short))
    unit = short * fine
    count = round(layer.count * max(size) / short)
    x, y, large, turn, strong = draws.random((5, count))
    reach = layer.length + layer.width
    x = (x * (width / short + 2 * reach) - reach) * unit
    y = (y * (height / short + 2 * reach) - reach) * unit
    half = 0.5 * unit * layer.width * (0.6 + 0.8 * large**2)
    angle = heading + 0.06 * (turn - 0.5)
    run = 0.5 * unit * layer.length * (0.6 + 0.8 * large)
    shown = ((scale - np.arange(count) * (MAX_SCALE / count)) / FADE_IN).clip(0, 1)
    level = np.rint(255 * layer.opacity * (0.5 + 0.5 * strong) * shown).astype(np.int64)
    dx, dy = run * np.cos(angle), run * np.sin(angle)
    canvas = Image.new("L", (width * fine, height * fine))
    draw = ImageDraw.Draw(canvas)
    for i in np.argsort(level, kind="stable")[np.count_nonzero(level == 0) :].tolist():
        if layer.length:
            ends = (x[i] - dx[i], y[i] - dy[i], x[i] + dx[i], y[i] + dy[i])
            draw.line(ends, fill=int(level[i]), width=max(1, round(2 * half[i])))
        else:
            box = (x[i] - half[i], y[i] - half[i], x[i] + half[i], y[i] + half[i])
            draw.ellipse(box, fill=int(level[i]))
    covered = canvas.reduce(fine)
    if layer.blur:
        covered = covered.filter(ImageFilter.GaussianBlur(layer.blur * short))
    return np.asarray(covered, dtype=np.float32) / np.float32(255)


def settled(picture: Image.Image, scale: float, depth: Field, draws: np.random.Generator) -> Field:
    """Return the share of each pixel that snow covers, 0 to 1: what a flake meets first, and the ground."""
    width, height = picture.size
    landing = _landing(picture, depth)
    thickness = CAP * min(width, height) * scale * (0.3 + 1.4 * noise(draws, picture.size, 10, octaves=3))
    share = np.zeros_like(landing)
    for down in range(-int(thickness.max() / 2) - 1, int(thickness.max()) + 1):
        reach = thickness - (down if down > 0 else -2 * down)
        share = np.maximum(share, np.minimum(_moved(landing, down), reach.clip(0, 1)))
    crest = 1 - DRIFT * scale * (0.2 + 1.6 * noise(draws, (width, 1), 4, octaves=2))
    rows = (np.arange(height, dtype=np.float32)[:, np.newaxis] + 0.5) / height
    return np.asarray(np.maximum(share, ((rows - crest) * 60).clip(0, 1)), dtype=np.float32)


def _landing(picture: Image.Image, depth: Field) -> Field:
    """Return where snow lands, 0 to 1: on edges of colour or depth that no edge above shelters."""
    short = min(picture.size)
    step = max(1, round(0.012 * short))
    soft = as_floats(picture.filter(ImageFilter.GaussianBlur(0.008 * short)))
    change = np.abs(_moved(soft, step) - _moved(soft, -step)).max(axis=-1)
    nearer = _moved(depth, step) - _moved(depth, -step)
    edge = np.maximum(change / 0.25 - 0.3, nearer / 0.3 - 0.5).clip(0, 1)
    above = np.cumsum(_moved(edge, 3 * step), axis=0) / step
    return np.asarray(edge * np.exp(-SHELTER * above), dtype=np.float32)


def _moved(values: Field, down: int) -> Field:
    """The field some rows lower; its first or last row fills what comes free."""
    rows = (np.arange(len(values)) - down).clip(0, len(values) - 1)
    return np.asarray(values[rows])


@dataclass(frozen=True, kw_only=True)
class Weather:
    """A medium and the layers of particles in it, from far to near.

    heading, sway: the way of the particles in degrees clockwise from the right, and how far a draw turns it.
    dimming: how much light never reaches the scene, as an optical depth.
    settles: whether what falls stays.
    """

    medium: Medium
    layers: tuple[Layer, ...] = ()
    heading: float = 90
    sway: float = 0
    dimming: float = 0
    settles: bool = False


_FLAKE = (250, 252, 255)
_DROP = (214, 222, 230)
_SAND = (226, 172, 110)

FIGURES: dict[str, Weather] = {
    "snow": Weather(
        medium=Medium((168, 180, 198), (0.34, 0.32, 0.28), patchy=0.3, scatter=0.3),
        layers=(
            Layer(depth=1.1, count=700, width=0.009, colour=_FLAKE, opacity=0.85),
            Layer(depth=0.7, count=320, width=0.016, colour=_FLAKE, opacity=0.95),
            Layer(depth=0.4, count=90, width=0.028, colour=_FLAKE, opacity=0.95, blur=0.003),
            Layer(depth=0.15, count=14, width=0.06, colour=_FLAKE, opacity=0.8, length=0.03, blur=0.012),
        ),
        heading=80,
        sway=25,
        dimming=0.13,
        settles=True,
    ),
    "rain": Weather(
        medium=Medium((118, 127, 139), (0.36, 0.35, 0.33), patchy=0.3, scatter=0.35),
        layers=(
            Layer(depth=1.1, count=560, width=0.004, length=0.07, colour=_DROP, opacity=0.6),
            Layer(depth=0.6, count=210, width=0.007, length=0.14, colour=_DROP, opacity=0.65),
            Layer(depth=0.3, count=36, width=0.012, length=0.3, colour=_DROP, opacity=0.55, blur=0.004),
        ),
        heading=90,
        sway=22,
        dimming=0.12,
    ),
    "fog": Weather(
        medium=Medium((206, 211, 216), (0.62, 0.62, 0.62), patchy=0.45, stretch=2, scatter=0.6, spread=0.03)
    ),
    "smog": Weather(
        medium=Medium(
            (160, 147, 120), (0.42, 0.50, 0.66), cells=2, stretch=2.5, patchy=0.3, settled=0.2, scatter=0.3
        ),
        dimming=0.08,
    ),
    "dust": Weather(
        medium=Medium(
            (205, 176, 134), (0.40, 0.48, 0.62), cells=4, patchy=0.7, settled=0.5, scatter=0.25, grain=0.08
        ),
        layers=(
            Layer(depth=0.8, count=500, width=0.006, colour=(226, 200, 160), opacity=0.7),
            Layer(depth=0.4, count=160, width=0.011, colour=(128, 102, 70), opacity=0.45, blur=0.002),
            Layer(depth=0.2, count=24, width=0.04, colour=(232, 208, 170), opacity=0.35, blur=0.008),
        ),
        sway=40,
    ),
    "sandstorm": Weather(
        medium=Medium(
            (186, 124, 66), (0.30, 0.38, 0.50), cells=5, stretch=3, patchy=0.6, scatter=0.3, grain=0.18
        ),
        layers=(
            Layer(depth=0.8, count=420, width=0.005, length=0.03, colour=(222, 168, 104), opacity=0.65),
            Layer(depth=0.5, count=300, width=0.005, length=0.03, colour=(134, 84, 42), opacity=0.5),
            Layer(depth=0.2, count=26, width=0.014, length=0.25, colour=_SAND, opacity=0.45, blur=0.005),
        ),
        heading=4,
        sway=8,
        dimming=0.1,
    ),
}

WEATHERS = tuple(FIGURES)


def render(name: str, picture: Image.Image, scale: float, *, key: Key) -> Image.Image:
    """The RGB picture in the weather `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the scale. Distances are those of a plane seen
    from above, 1.6 away at the picture's top and 0.7 at its bottom.
    """
    if scale == 0:
        return picture.copy()
    weather, names, depth = FIGURES[name], ("weather", name, *key), ground_plane(picture.size)
    pixels = as_floats(picture) * np.float32(math.exp(-weather.dimming * scale))
    if weather.settles:
        pixels = laid_over(pixels, shade(SNOW), settled(picture, scale, depth, rng(*names, "settled")))
    pixels = veil(weather.medium, pixels, scale, depth, rng(*names, "medium"))
    heading = math.radians(weather.heading + weather.sway * rng(*names, "wind").uniform(-1, 1))
    for number, layer in enumerate(weather.layers):
        draws = rng(*names, "layer", number)
        pixels = fall(layer, weather.medium, pixels, scale, depth, heading, draws)
    return as_picture(pixels)
