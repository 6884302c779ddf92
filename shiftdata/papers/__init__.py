"""Published numbers and your own, in one format: choose, show, rank, compare.

published, published_tables    what the five papers print, and what each of their tables is
Results                        numbers with their places: choose, store, text, CSV, Markdown, LaTeX, picture
leaderboard                    ranks of methods, published and your own, and how far rankings agree

`python scripts/check_published`, in a checkout, computes again what the papers' own numbers decide.
"""

from shiftdata.papers.core import Results, published
from shiftdata.papers.papers import PAPERS, Paper
from shiftdata.papers.shipped import PublishedTable, published_tables
from shiftdata.papers.standings import Leaderboard, leaderboard

__all__ = [
    "PAPERS",
    "Leaderboard",
    "Paper",
    "PublishedTable",
    "Results",
    "leaderboard",
    "published",
    "published_tables",
]
