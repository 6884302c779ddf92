"""NICO++'s public part and DomainNet in small, with the odd cases of each."""

from __future__ import annotations

NICO = "track_1/track_1"
