"""Filters for continuous shifts: score every rendered sample, keep what passes, and say what was left out.

A recipe says `filters=Filters(...)`; the build scores between rendering and packing. The scores and verdicts
of all samples, also of those left out, are published in `filters/<base>.parquet`: labels for a threshold
(`calibrate`), other rules (`judge`) and every report are taken from there, without rendering again.
"""

from builders.filters.calibration import calibrate
from builders.filters.report import Stages, delta_curves, judged_rows, overview, slider_report
from builders.filters.rules import AtLeast, Filters, Slider, Threshold, judge
from builders.filters.scorers import RightClass, Scorer, Sketch, TextAlignment, ToStart, View

__all__ = [
    "AtLeast",
    "Filters",
    "RightClass",
    "Scorer",
    "Sketch",
    "Slider",
    "Stages",
    "TextAlignment",
    "Threshold",
    "ToStart",
    "View",
    "calibrate",
    "delta_curves",
    "judge",
    "judged_rows",
    "overview",
    "slider_report",
]
