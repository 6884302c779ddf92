"""Filters for continuous shifts: score every rendered sample, keep what passes, and report what was left out.

A recipe says `filters=Filters(...)`; the build scores between rendering and packing. The scores and verdicts
of all samples, also of those left out, are published in `filters/<base>.parquet`: other rules (`judge`) and
every report need no rendering.
"""

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
    "delta_curves",
    "judge",
    "judged_rows",
    "overview",
    "slider_report",
]
