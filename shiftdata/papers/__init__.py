"""Published numbers and those of one's own, in one form: choose, show, rank, compare, check.

published, published_tables    what the five papers print, and what each of their tables is
Results                        numbers with their places: choose, store, text, CSV, Markdown, LaTeX, picture
leaderboard                    ranks of methods, published and one's own, and how far rankings agree
check                          computes again what can be, with a verdict for each number
"""

from shiftdata.papers.checks import VERDICTS, Finding, Report, check
from shiftdata.papers.core import Results, published
from shiftdata.papers.papers import PAPERS, Paper
from shiftdata.papers.shipped import PublishedTable, published_tables
from shiftdata.papers.standings import Leaderboard, leaderboard

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
