"""The six weathers in figures: what hangs in the air, what falls, from where the wind comes."""

from __future__ import annotations

from dataclasses import dataclass

from builders.shifts.weather.haze import Medium
from builders.shifts.weather.particles import Layer


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
