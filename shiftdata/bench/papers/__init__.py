"""Published numbers and your own, in one format: choose, show, rank, compare.

published, published_tables    what the five papers print, and what each of their tables is
Results                        numbers with their places: choose, store, text, CSV, Markdown, LaTeX, picture
ranking                        ranks of methods, published and your own, and how far rankings agree

`python scripts/check_published`, in a checkout, computes again what the papers' own numbers decide.
"""

from shiftdata.bench.papers.numbers import PAPERS, PublishedTable, citation, published_tables
from shiftdata.bench.papers.ranking import Ranking, ranking
from shiftdata.bench.papers.results import Results, published

__all__ = [
    "PAPERS",
    "PublishedTable",
    "Ranking",
    "Results",
    "citation",
    "published",
    "published_tables",
    "ranking",
]
