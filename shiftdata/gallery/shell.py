"""The shell of pages is in `shiftdata.pages`, where reports and leaderboards can use it too."""

from __future__ import annotations

from shiftdata.pages.shell import POLICY, as_data, as_size, asset_hash, assets, environment, render

__all__ = ["POLICY", "as_data", "as_size", "asset_hash", "assets", "environment", "render"]
