"""Reports on records: tables like the papers', comparisons, ranks, failures, versions.

report(records, rules=[..])    a Report: text, Markdown, LaTeX, CSV, or one HTML page
difference(a, b)               what differs between two sweeps
"""

from __future__ import annotations

from shiftdata.bench.reporting.making import Report, difference, report

__all__ = ["Report", "difference", "report"]
