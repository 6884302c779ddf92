"""The pictures on a dataset's card: some examples, and how many rows each group has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from builders.describe.contact_sheet import contact_sheet
from builders.filters import judged_rows, overview
from shiftdata.files import whole_file
from shiftdata.format.conditions import rows_matching
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import metadata_file
from shiftdata.pictures import Panel, draw, panel_of

PREVIEW = "preview.jpg"
GROUPS = "groups.png"
FILTERS = "filters.png"


def write_pictures(folder: Path, manifest: Manifest) -> list[Path]:
    """Draw the pictures of a packed dataset's card into its folder."""
    drawn = {}
    if manifest.roles.modality == "image":
        drawn[PREVIEW] = contact_sheet(folder, manifest, cell=56, most=(12, 14))
    panels = _panels(folder, manifest)
    if panels:
        drawn[GROUPS] = draw(panels)
    if f"filters/{manifest.default_base}.parquet" in manifest.files:
        drawn[FILTERS] = overview(judged_rows(folder, manifest.default_base))
    for name, picture in drawn.items():
        with whole_file(folder / name) as temporary:
            jpeg = name.endswith(".jpg")
            picture.save(temporary, "JPEG" if jpeg else "PNG", quality=85, optimize=not jpeg)
    return [folder / name for name in drawn]


def _panels(folder: Path, manifest: Manifest) -> list[Panel]:
    """The training rows of the default base and of the largest canonical split, where they can be drawn."""
    rows = pq.read_table(folder / metadata_file(manifest.default_base, "train"))
    tables = [(manifest.default_base, rows)]
    if manifest.configs:
        largest = max(manifest.configs, key=lambda config: config.splits["train"].groups)
        tables.append((largest.name, rows_matching(rows, largest.filters)))
    shape = (len(manifest.labels), len(manifest.nuisances))
    panels = []
    for title, table in tables:
        groups = table["group"].drop_null().to_numpy()
        counts = np.bincount(groups, minlength=shape[0] * shape[1]).reshape(shape)
        panel = panel_of(f"{title}, training rows", manifest.labels, manifest.nuisances, counts)
        panels += [panel] if panel else []
    uneven = [panel for panel in panels if panel.counts.min() < panel.counts.max()]
    return uneven or panels[:1]  # a square of equal numbers says nothing beside another
