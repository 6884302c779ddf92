from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.serve.explore import atlas, neighbours
from tests.shared import dataset_of


def rows_of(folder: Path, base: str | None = None) -> Metadata:
    dataset = sd.open_dataset(folder)
    return read_metadata(dataset, base or dataset.manifest.default_base)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places by the first two components: UMAP needs half a minute to start."""

    def first_two(vectors: Any, at: Any, far: Any) -> Any:
        return np.asarray(vectors[:, :2], np.float32)

    monkeypatch.setattr(neighbours, "_umap", first_two)
    monkeypatch.setattr(neighbours, "find_spec", bool)


@pytest.fixture
def view_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package that has the two files that the server and the export look for."""
    folder = tmp_path / "atlas"
    (folder / "static").mkdir(parents=True)
    (folder / "static" / "index.html").write_text("<!doctype html>")
    (folder / "index.js").write_text("export default {};")
    monkeypatch.setattr(atlas, "component", lambda: folder / "index.js")
    monkeypatch.setattr(atlas, "application", lambda: folder / "static")
    for module in ("app", "space"):
        monkeypatch.setattr(f"shiftdata.serve.explore.{module}.version", lambda name: "0.26.0")
    return folder


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: dataset_of(tmp_path_factory, kind) for kind in ("stylized", "continuous", "text", "table")}
