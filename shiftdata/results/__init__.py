"""Published numbers and those of one's own, in one form: choose, show, rank, compare, check.

published, published_tables    what the five papers print, and what each of their tables is
Results                        numbers with their places: choose, store, text, CSV, Markdown, LaTeX, picture
leaderboard                    ranks of methods, published and one's own, and how far rankings agree
check                          computes again what can be, with a verdict for each number
"""

from shiftdata.results.checks import VERDICTS, Finding, Report, check
from shiftdata.results.core import Results, published
from shiftdata.results.papers import PAPERS, Paper
from shiftdata.results.shipped import PublishedTable, published_tables
from shiftdata.results.standings import Leaderboard, leaderboard

__all__ = [
    "PAPERS",
    "VERDICTS",
    "Finding",
    "Leaderboard",
    "Paper",
    "PublishedTable",
    "Report",
    "Results",
    "check",
    "leaderboard",
    "published",
    "published_tables",
]
