"""Small charts: curves or bars over severity, side by side, drawn with Pillow alone."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from shiftdata.pictures import INK, PADDING, PAPER, font

Floats = NDArray[np.float64]
PLOT = (280, 180)
LINE = 20
FINE = 3  # curves are drawn this much larger and then made smaller: Pillow's own lines have hard edges
FAINT = (225, 225, 225)
BAND = 0.18


@dataclass(frozen=True)
class Panel:
    """Curves over severity by name, some with a band from low to high; or `bars`, which may be equal."""

    title: str
    severities: Sequence[float]
    curves: Mapping[str, Floats]
    bands: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    bars: bool = False


def draw(panels: Sequence[Panel]) -> Image.Image:
    """Panels side by side."""
    pictures = [_drawn(panel) for panel in panels]
    width = sum(picture.width for picture in pictures)
    sheet = Image.new("RGB", (width, max(picture.height for picture in pictures)), PAPER)
    x = 0
    for picture in pictures:
        sheet.paste(picture, (x, 0))
        x += picture.width
    return sheet


def _drawn(panel: Panel) -> Image.Image:
    """A panel: title, plot, and the names of its curves below."""
    values = np.concatenate([*panel.curves.values(), *(end for band in panel.bands.values() for end in band)])
    ticks = _ticks(values[np.isfinite(values)])
    names = [f"{tick:,.10g}" for tick in ticks]
    left = round(max(map(font().getlength, names))) + 2 * PADDING
    legend = max((round(font().getlength(name)) for name in panel.curves), default=0) + 4 * PADDING
    width = left + max(PLOT[0], legend, round(font().getlength(panel.title))) + 2 * PADDING
    plot = (left, LINE + PADDING)
    height = plot[1] + PLOT[1] + 2 * LINE + len(panel.curves) * LINE + PADDING
    picture = Image.new("RGB", (width, height), PAPER)
    picture.paste(_plot(panel, ticks), plot)
    pen = ImageDraw.Draw(picture)
    pen.text((left, PADDING), panel.title, INK, font())
    for tick, name in zip(ticks, names, strict=True):
        pen.text((left - PADDING, plot[1] + _across(tick, ticks, PLOT[1])), name, INK, font(), anchor="rm")
    below = plot[1] + PLOT[1] + PADDING
    for step in panel.severities:
        pen.text((left + _along(step, panel.severities), below), f"{step:g}", INK, font(), anchor="mt")
    for number, (name, colour) in enumerate(zip(panel.curves, _colours(len(panel.curves)), strict=True)):
        y = below + LINE + number * LINE + LINE // 2
        pen.line((left, y, left + 2 * PADDING, y), colour, 3)
        pen.text((left + 3 * PADDING, y), name, INK, font(), anchor="lm")
    return picture


def _plot(panel: Panel, ticks: Sequence[float]) -> Image.Image:
    """The curves on their grid."""
    size = (PLOT[0] * FINE, PLOT[1] * FINE)
    plot = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(plot)
    for tick in ticks:
        y = FINE * _across(tick, ticks, PLOT[1])
        pen.line((0, y, size[0], y), FAINT, FINE)
    xs = [FINE * _along(step, panel.severities) for step in panel.severities]

    def points(values: Floats) -> list[tuple[float, float]]:
        ys = (FINE * _across(value, ticks, PLOT[1]) for value in values.tolist())
        return [(x, y) for x, y, value in zip(xs, ys, values, strict=True) if np.isfinite(value)]

    colours = dict(zip(panel.curves, _colours(len(panel.curves)), strict=True))
    for name, (low, high) in panel.bands.items():
        outline = points(low) + points(high)[::-1]
        if len(outline) > 2:
            mask = Image.new("L", size)
            ImageDraw.Draw(mask).polygon(outline, fill=round(255 * BAND))
            plot.paste(colours[name], mask=mask)
    bar = min(np.diff(xs)) / (len(panel.curves) + 1)
    for number, (name, values) in enumerate(panel.curves.items()):
        if not panel.bars:
            pen.line(points(values), colours[name], 2 * FINE, joint="curve")
        for x, y in points(values):
            if panel.bars:
                start = x + bar * (number - len(panel.curves) / 2)
                ground = FINE * _across(0, ticks, PLOT[1])
                pen.rectangle((start, y, start + bar - FINE, ground), colours[name])
            else:
                pen.circle((x, y), 3 * FINE, colours[name])
    return plot.resize(PLOT, Image.Resampling.LANCZOS)


def _ticks(values: Floats) -> list[float]:
    """Round numbers over the range of some values and 0."""
    low, high = min(0.0, values.min(initial=0)), max(0.0, values.max(initial=0))
    rough = max(high - low, 1e-6) / 4
    unit = 10 ** np.floor(np.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [float(step * n) for n in range(round(np.floor(low / step)), round(np.ceil(high / step)) + 1)]


def _along(step: float, steps: Sequence[float]) -> float:
    """Where a severity lies in the plot, from the left."""
    room = PLOT[0] - 6 * PADDING
    return 3 * PADDING + room * (step - steps[0]) / (steps[-1] - steps[0])


def _across(value: float, ticks: Sequence[float], height: int) -> float:
    """Where a value lies in the plot, from the top."""
    room = height - 2 * PADDING
    return PADDING + room * (ticks[-1] - value) / (ticks[-1] - ticks[0])


def _colours(count: int) -> list[tuple[int, int, int]]:
    """Colours that are told apart: around the wheel, light and dark in turn."""
    found = []
    for number in range(count):
        red, green, blue = colorsys.hls_to_rgb(0.58 + number / count, 0.32 if number % 2 else 0.48, 0.75)
        found.append((round(255 * red), round(255 * green), round(255 * blue)))
    return found
