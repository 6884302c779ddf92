"""Filters for continuous shifts: score every rendered sample, keep what passes, and report what was left out.

A recipe says `filters=Filters(...)`; the build scores between rendering and packing. The scores and verdicts
of all samples, also of those left out, are published in `filters/<base>.parquet`: other rules (`judge`) and
every report need no rendering.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
