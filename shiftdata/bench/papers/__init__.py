"""Published numbers and your own, in one format: choose, show, rank, compare.

published, published_tables    the numbers that the five papers print, and their tables
Results                        numbers with their places: choose, store, text, CSV, Markdown, picture
ranking                        ranks of methods, published and your own, and the agreement of rankings

`python scripts/check_published`, in a checkout, recomputes what the papers' own numbers decide.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
