"""What reading cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class ReadStats:
    """Counts since a reader was made, of one process; metadata and manifest are not among them.

    `asked` are the bytes of the examples that were given, `fetched` those that came from the shards by byte
    range, in `requests`. `row_groups` were read instead where bytes cannot be addressed.
    """

    asked: int = 0
    fetched: int = 0
    requests: int = 0
    cache_hits: int = 0
    row_groups: int = 0
