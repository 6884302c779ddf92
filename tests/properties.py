"""How many examples a property draws whose examples take long: a share of the profile's, short or long."""

from __future__ import annotations

from hypothesis import settings


def share(part: float) -> settings:
    """Draw this part of the profile's examples: for properties whose every example takes long."""
    return settings(max_examples=max(5, round(part * settings.default.max_examples)))
