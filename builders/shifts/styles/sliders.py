"""The eight style shifts of CNS-Bench as sliders: from the untouched picture to a whole style, step by step.

A slider paints with a code that runs from the picture's own style to that of a style picture, and adds a look
(`looks`); both grow with one *strength* from 0 to 1. Over the first half of the way the result is blended
with the untouched picture. `assets/sliders.tsv` has the measured strength of each scale, with which the mean
distance to the untouched picture grows evenly (`scripts/regenerate_sliders.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image

from builders.shifts.drawing import Key, as_doubles, as_picture
from builders.shifts.styles import network
from builders.shifts.styles.bank import BANK, StyleBank, read_bank
from builders.shifts.styles.looks import LOOKS
from builders.shifts.styles.network import FloatArray, mix
from builders.shifts.stylizers import Arbitrary
from shiftdata.stable import content_hash, rng
from shiftdata.untrusted.texts import read_csv

CODES = BANK.with_name("sliders.parquet")
CALIBRATION = BANK.with_name("sliders.tsv")

SLIDERS = tuple(LOOKS)
SCALES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)

BLENDED_UNTIL = 0.5  # the strength from which nothing of the untouched picture is blended in


@dataclass(frozen=True, eq=False)
class Subject:
    """A picture to shift, with what the network computes of it once for all styles."""

    image: Image.Image
    features: FloatArray
    own: FloatArray

    @staticmethod
    def of(image: Image.Image) -> Subject:
        plain = image.convert("RGB")
        return Subject(plain, network.features(plain), network.code(plain))


def slide(subject: Subject, slider: str, style_picture: int, strength: float, key: Key) -> Image.Image:
    """The subject in a style, so strong; strokes and grain of one `key` stay in place at every strength."""
    if strength == 0:
        return subject.image
    code = mix(subject.own, style_codes().code(slider, style_picture), strength)
    untouched = as_doubles(subject.image)
    painted = as_doubles(network.paint(subject.features, code, subject.image.size))
    look = LOOKS[slider](painted, untouched, rng(*key)).clip(0, 1)
    styled = painted + strength * (look - painted)
    return as_picture(untouched + blend_at(strength) * (styled - untouched))


def blend_at(strength: float) -> float:
    """Return the share of the styled picture that is blended over the untouched one."""
    return min(1.0, strength / BLENDED_UNTIL)


def strength_at(slider: str, scale: float) -> float:
    """The strength that belongs to a scale, between measured scales on a straight line."""
    return float(np.interp(scale, SCALES, _calibration()[slider]))


@cache
def style_codes() -> StyleBank:
    """The codes of every slider's style pictures."""
    return read_bank(CODES, Arbitrary())


@cache
def _calibration() -> dict[str, tuple[float, ...]]:
    rows = read_csv(CALIBRATION, delimiter="\t")
    return {
        name: (0.0, *(float(row["strength"]) for row in rows if row["shift"] == name)) for name in SLIDERS
    }


def fingerprint() -> str:
    """A hash of codes and calibration, part of what determines a dataset."""
    return content_hash(style_codes().fingerprint(), CALIBRATION.read_bytes())
