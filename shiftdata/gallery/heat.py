"""Heat maps are in `shiftdata.pages`."""

from __future__ import annotations

from shiftdata.pages.heat import STEPS, Heat, Square, heat

__all__ = ["STEPS", "Heat", "Square", "heat"]
