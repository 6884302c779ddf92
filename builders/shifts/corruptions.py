"""The 19 corruptions of ImageNet-C in five severities: `corrupt(name, picture, severity, key=...)`.

Names and order are those of Hendrycks and Dietterich (2019), code and figures our own. Lengths and noise go
with the picture's side, so that 32 and 256 pixels look alike.
"""

from __future__ import annotations

import io
import math
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing import (
    Doubles,
    Field,
    Key,
    as_floats,
    as_picture,
    cells,
    cloud,
    grid,
    laid_over,
    noise,
    shade,
)
from builders.shifts.weather import render
from shiftdata.stable import rng
from shiftdata.untrusted.pictures import decoded_picture

#: The side for which figures are written: that of ImageNet-C. CIFAR-10-C has others for 32 pixels.
SIDE = 224


def length(picture: Image.Image, pixels: float) -> float:
    """So many pixels of 224, in this picture; a length grows a little slower than the side."""
    return float(pixels * (min(picture.size) / SIDE) ** 0.7)


def noisy(picture: Image.Image, spread: float) -> float:
    """A standard deviation of noise in each pixel: less in a small picture, whose pixels show more each."""
    return float(spread * (min(picture.size) / SIDE) ** 0.5)


def sampled(pixels: Field, x: Field, y: Field) -> Field:
    """The pixels at places between pixels, by columns `x` and rows `y`; beyond the edge is the edge."""
    height, width = pixels.shape[:2]
    x, y = x.clip(0, width - 1), y.clip(0, height - 1)
    left, top = np.minimum(x.astype(np.int64), width - 2), np.minimum(y.astype(np.int64), height - 2)
    across, down = (x - left)[..., np.newaxis], (y - top)[..., np.newaxis]
    flat, at = pixels.reshape(-1, 3), top * width + left
    above = flat[at] + across * (flat[at + 1] - flat[at])
    below = flat[at + width] + across * (flat[at + width + 1] - flat[at + width])
    return np.asarray(above + down * (below - above), dtype=np.float32)


def places(picture: Image.Image) -> tuple[Field, Field]:
    """The column and the row of every pixel."""
    rows, columns = np.indices((picture.height, picture.width), dtype=np.float32)
    return columns, rows


def gaussian_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Noise of a dark sensor: as strong in the light as in the dark."""
    spread = noisy(picture, (0.08, 0.12, 0.18, 0.26, 0.38)[severity])
    return as_floats(picture) + np.float32(spread) * _normal(picture, draws)


def shot_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Too few photons: each pixel counts them, `photons` on average where it is white.

    By the inverse of Anscombe's transform, which makes Poisson counts of normal draws.
    """
    photons = (60, 25, 12, 6, 3)[severity] / noisy(picture, 1) ** 2
    mean = np.sqrt(as_floats(picture) * np.float32(photons) + np.float32(0.375))
    counts = np.maximum(mean + 0.5 * _normal(picture, draws), 0) ** 2 - np.float32(0.375)
    return np.asarray(np.rint(counts).clip(0) / np.float32(photons), dtype=np.float32)


def impulse_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Salt and pepper in each colour: values that were lost, at none or at full."""
    share = (0.03, 0.06, 0.1, 0.17, 0.27)[severity] * noisy(picture, 1) ** 2
    lost, full = draws.random((2, picture.height, picture.width, 3), dtype=np.float32)
    return np.asarray(np.where(lost < share, full > 0.5, as_floats(picture)), dtype=np.float32)


def speckle_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Noise that goes with the light: none in black."""
    spread = noisy(picture, (0.15, 0.22, 0.32, 0.45, 0.6)[severity])
    return as_floats(picture) * (1 + np.float32(spread) * _normal(picture, draws))


def _normal(picture: Image.Image, draws: np.random.Generator) -> Field:
    return draws.standard_normal((picture.height, picture.width, 3), dtype=np.float32)


def gaussian_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Every point spread to a soft spot."""
    return _soft(picture, length(picture, (1.5, 2.2, 3.1, 4.4, 6.2)[severity]))


def defocus_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The lens out of focus: every point spread to a disc with a sharp edge, as wide as the aperture."""
    radius = length(picture, (2.6, 3.8, 5.5, 7.8, 11)[severity])
    reach = math.ceil(radius)
    # The share of each pixel that lies within the disc, of 8 x 8 places in it.
    fine = (np.arange(8 * (2 * reach + 1)) + 0.5) / 8 - reach - 0.5
    inside = np.hypot(fine, fine[:, np.newaxis]) < radius
    return _spread(picture, inside.reshape(2 * reach + 1, 8, 2 * reach + 1, 8).mean((1, 3)))


def glass_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Seen through frosted glass: every point is thrown to a place nearby."""
    far = length(picture, (1.6, 2.6, 4, 6, 8.5)[severity])
    columns, rows = places(picture)
    # The sum of two even draws: mostly near, seldom far.
    thrown = draws.random((2, 2, *columns.shape), dtype=np.float32).sum(axis=0) - 1
    x, y = np.float32(far) * thrown
    return _soft(as_picture(sampled(_soft(picture, 0.25 * far), columns + x, rows + y)), 0.2 * far)


def motion_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The camera moves along a straight line while the shutter is open."""
    half = length(picture, (6, 10, 16, 24, 34)[severity]) / 2
    angle = draws.uniform(0, math.pi)
    reach = math.ceil(half) + 1
    way = np.linspace(-half, half, 8 * reach + 1)
    x, y = reach + way * math.cos(angle), reach + way * math.sin(angle)
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1))
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    for right, down in np.ndindex(2, 2):  # each place on the way is shared by the four pixels round it
        share = np.abs(1 - right - (x - left)) * np.abs(1 - down - (y - top))
        np.add.at(kernel, (top + down, left + right), share)
    return _spread(picture, kernel)


def zoom_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The lens zooms in while the shutter is open."""
    most = (0.06, 0.1, 0.15, 0.22, 0.32)[severity]
    width, height = picture.size
    steps = 2 + min(14, math.ceil(most * max(width, height) / 2))
    total = np.zeros((height, width, 3), dtype=np.float32)
    for zoom in np.linspace(1, 1 + most, steps).tolist():
        x, y = 0.5 * width * (1 - 1 / zoom), 0.5 * height * (1 - 1 / zoom)
        box = (x, y, width - x, height - y)
        total += np.asarray(picture.resize(picture.size, Image.Resampling.BILINEAR, box=box))
    return total / np.float32(255 * steps)


def _soft(picture: Image.Image, radius: float) -> Field:
    return as_floats(picture.filter(ImageFilter.GaussianBlur(radius)))


def _spread(picture: Image.Image, kernel: Doubles) -> Field:
    """The picture with every point spread to the kernel; beyond its edge it goes on as in a mirror."""
    reach = len(kernel) // 2
    sides = (reach, reach)
    padded = np.pad(np.asarray(picture, dtype=np.float64) / 255, (sides, sides, (0, 0)), mode="symmetric")
    size = padded.shape[:2]
    filtered = np.fft.rfft2(padded, axes=(0, 1)) * np.fft.rfft2(kernel / kernel.sum(), size)[..., np.newaxis]
    whole = np.fft.irfft2(filtered, size, axes=(0, 1))
    return np.asarray(whole[2 * reach :, 2 * reach :], dtype=np.float32)


def brightness(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Too much light: every colour is raised, and what would be brighter than full goes white."""
    pixels = as_floats(picture)
    value = pixels.max(axis=-1, keepdims=True)
    raised = value + (0.1, 0.2, 0.3, 0.41, 0.53)[severity]
    # Hue and saturation are kept, but not in the dark, where they are mostly noise.
    lit = pixels + (np.minimum(raised, 1) - value) * (pixels + 0.1) / (value + 0.1)
    return np.asarray(lit + (1 - lit) * np.maximum(raised - 1, 0))


def contrast(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Every colour nearer to the picture's mean colour."""
    kept = (0.7, 0.5, 0.33, 0.19, 0.07)[severity]
    pixels = as_floats(picture)
    mean = pixels.mean(axis=(0, 1), dtype=np.float64)
    return np.asarray(mean + kept * (pixels - mean))


def saturate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Colours too strong or too weak, whichever is drawn; hue and value are kept, and grey stays grey."""
    amount = (0.25, 0.45, 0.65, 0.82, 1.0)[severity]
    pixels = as_floats(picture)
    value = pixels.max(axis=-1, keepdims=True)
    if draws.random() < 0.5:
        return np.asarray(value - (value - pixels) * np.float32(1 - amount))
    saturation = (value - pixels.min(axis=-1, keepdims=True)) / np.maximum(value, 1e-6)
    # Where there is next to no colour little is added, so as not to make a hue of noise.
    factor = 1 + amount * (1 - saturation) / (saturation + 0.05)
    return np.asarray(value - (value - pixels) * factor)


def elastic_transform(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture on rubber, drawn this way and that."""
    amount = (0.05, 0.08, 0.115, 0.155, 0.2)[severity] * min(picture.size)
    columns, rows = places(picture)
    x, y = (noise(draws, picture.size, 5, octaves=2) - 0.5 for _ in range(2))
    return sampled(as_floats(picture), columns + amount * x, rows + amount * y)


def pixelate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Fewer pixels, each drawn as a block: of 32 along a side 22 to 5 are left, of 256 77 to 18."""
    share = 2.75 * min(picture.size) ** -0.4 * 0.7**severity
    few = picture.resize([round(side * share) for side in picture.size], Image.Resampling.BOX)
    return as_floats(few.resize(picture.size, Image.Resampling.NEAREST))


def jpeg_compression(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Stored as a JPEG file that is too small for it; better ones in a small picture, of few blocks."""
    quality = (30, 20, 13, 8, 4.5)[severity] / noisy(picture, 1)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=max(1, min(95, math.ceil(quality))))
    return as_floats(decoded_picture(file.getvalue(), picture.mode))


PLATES = 3  # of ice, of which every picture sees a part
PLATE = 400
MILKY, CLEAR = shade((150, 178, 205)), shade((248, 252, 255))
DROPS_SIDE = 384  # the least number of pixels along the shorter side while drawing
SPLASHES = 100
WATER, MUD = shade((190, 214, 222)), shade((112, 80, 46))


def frost(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind ice; with severity the ice reaches farther in and grows thicker."""
    reach, thick = ((0.4, 0.6), (0.65, 0.68), (0.9, 0.76), (1.15, 0.84), (1.4, 0.92))[severity]
    ice = _part_of_a_plate(picture.size, draws)
    width, height = picture.size
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    rim = np.maximum(np.abs(x), np.abs(y)[:, np.newaxis])
    grown = (rim - 1 + reach + 0.6 * (noise(draws, picture.size, 4) - 0.5) + 0.5 * (ice - 0.5)) / 0.5
    colour = MILKY + (CLEAR - MILKY) * ice[..., np.newaxis]
    return laid_over(as_floats(picture), colour, thick * grown.clip(0, 1) * (0.45 + 0.55 * ice))


def _part_of_a_plate(size: tuple[int, int], draws: np.random.Generator) -> Field:
    """Return the brightness of ice, 0 to 1: two thirds of a plate along the longer side, turned at random."""
    number, turn, *corner = draws.random(4)
    plate = _plate(int(PLATES * number)).transpose(Image.Transpose(int(7 * turn)))
    wide, high = (PLATE * 0.66 * side / max(size) for side in size)
    x, y = corner[0] * (PLATE - wide), corner[1] * (PLATE - high)
    return as_floats(plate.resize(size, Image.Resampling.BOX, box=(x, y, x + wide, y + high)))


@cache
def _plate(number: int) -> Image.Image:
    """A plate of frosted glass, from dark to bright: ferns that grew over each other, and needles between."""
    draws = rng("frost", number)
    bright = 0.3 * cloud(draws, 5, 4, PLATE)
    for columns in (3, 5, 8):
        bright = np.maximum(bright, _ferns(columns, draws))
    grain = cloud(draws, 50, 2, PLATE)
    return Image.fromarray(np.rint(255 * (bright * (0.5 + 0.7 * grain)).clip(0, 1)).astype(np.uint8))


def _ferns(columns: int, draws: np.random.Generator) -> Doubles:
    """Grains of ice, each a fern: twigs leave a stem on both sides, and finer ones leave the twigs."""
    x, y = grid(side=PLATE)
    bend = 0.35 / columns
    x = x + bend * (cloud(draws, columns, 3, PLATE) - 0.5)
    y = y + bend * (cloud(draws, columns, 3, PLATE) - 0.5)
    grain = cells(draws, columns, x + 0.5, y + 0.5)
    turn = draws.uniform(0, 2 * math.pi, columns**2)[grain.number]
    dx, dy = columns * grain.dx, columns * grain.dy
    along, aside = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
    side = np.abs(aside)
    ragged = cloud(draws, 8 * columns, 2, PLATE)
    twig = _ridge(9 * (along - 0.65 * side) + 0.6 * ragged) ** 2
    fine = _ridge(26 * (along + 0.8 * side) + ragged) ** 2
    stem = np.exp(-side / 0.02)
    fade = (1.25 - 1.1 * side - 0.35 * np.abs(along)).clip(0, 1)
    return np.asarray(np.maximum(stem, fade * (0.25 + twig * (0.45 + 0.5 * fine))) * (0.5 + 0.7 * ragged))


def _ridge(way: Doubles) -> Doubles:
    """1 at each whole number, 0 halfway between."""
    return np.asarray(np.abs(2 * (way - np.floor(way)) - 1))


def spatter(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind drops; a drop that is there stays at every higher severity."""
    shown, share = ((0.17, 0.36), (0.29, 0.38), (0.45, 0.4), (0.72, 0.9), (1.0, 0.95))[severity]
    height = _drops(picture.size, shown, draws)
    body = (height * 2.5).clip(0, 1)[..., np.newaxis]
    down, right = np.gradient(height)
    light = (-(down + right) * min(picture.size) / 60).clip(-0.25, 0.35)[..., np.newaxis]
    liquid, gloss = (WATER, 0.55) if severity < 3 else (MUD, 0.35)
    pixels = as_floats(picture)
    return np.asarray(pixels + body * (share * (liquid - pixels) + gloss * light))


def _drops(size: tuple[int, int], shown: float, draws: np.random.Generator) -> Field:
    """Return the height of the liquid: splashes, each a drop with smaller ones flung from it."""
    short = min(size)
    fine = max(1, math.ceil(DROPS_SIDE / short))
    unit = fine * short
    canvas = Image.new("L", (size[0] * fine, size[1] * fine))
    draw = ImageDraw.Draw(canvas)
    count = round(SPLASHES * max(size) / short)
    for number in range(count):
        x, y, large, way = draws.random(4)
        flung = draws.random((3, 9))
        if number >= shown * count:
            break
        x, y, radius = x * canvas.width, y * canvas.height, unit * (0.008 + 0.035 * large**3)
        draw.circle((x, y), radius, fill=255)
        for far, turn, small in flung.T.tolist():
            angle = 2 * math.pi * way + 1.2 * (turn - 0.5)
            reach = radius * (1 + 6 * far)
            drop = radius * (0.12 + 0.4 * small) * (1.1 - far)
            draw.circle((x + reach * math.cos(angle), y + reach * math.sin(angle)), drop, fill=255)
    return as_floats(canvas.filter(ImageFilter.GaussianBlur(0.007 * unit)).reduce(fine))


AIR = shade((226, 229, 233))


def snow(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Flakes in the air and what lies already: `builders.shifts.weather` at five of its scales."""
    scale = (0.5, 0.9, 1.35, 1.9, 2.5)[severity]
    return as_floats(render("snow", picture, scale, key=(int(draws.integers(2**62)),)))


def fog(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """White clouds of uneven density, without depth; `builders.shifts.weather` has a fog that knows depth."""
    thick = (0.35, 0.6, 0.95, 1.45, 2.2)[severity]
    cloud = noise(draws, picture.size, 3, octaves=5)
    return laid_over(as_floats(picture), AIR, 1 - np.exp(-thick * (0.3 + 1.4 * cloud)))


SEVERITIES = (1, 2, 3, 4, 5)

_DRAW = {
    draw.__name__: draw
    for draw in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        speckle_noise,
        gaussian_blur,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        saturate,
        elastic_transform,
        pixelate,
        jpeg_compression,
        spatter,
    )
}

CORRUPTIONS = tuple(_DRAW)


def corrupt(name: str, picture: Image.Image, severity: int, *, key: Key) -> Image.Image:
    """The RGB picture under the corruption `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the severity, so that the same noise, ice and
    drops grow from one severity to the next.
    """
    return as_picture(_DRAW[name](picture, severity - 1, rng("corruption", name, *key)))
