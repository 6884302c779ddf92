"""Check a dataset, in a folder or at a URL, against its manifest: files by hash, rows and images by content.

`shiftdata.evaluation.verify` also recomputes canonical splits by their protocols.
"""

from __future__ import annotations

from shiftdata.data.verifying.audit import verify as verify
from shiftdata.data.verifying.files import Problem as Problem
from shiftdata.data.verifying.files import shortened as shortened
