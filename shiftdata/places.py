"""Where a dataset is: a folder on this machine, or a repo on the Hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shiftdata.errors import NotFoundError, not_found
from shiftdata.manifest import FILE_NAME, Manifest

__all__ = ["NAMESPACE", "Place", "find", "local_datasets", "search_path"]

NAMESPACE = "shift"


@dataclass(frozen=True)
class Place:
    """A dataset that was found. `folder` is None when it lies on the Hub as `repo_id`."""

    repo_id: str
    folder: Path | None

    @property
    def source(self) -> str:
        """What to hand to `datasets.load_dataset`."""
        return self.repo_id if self.folder is None else str(self.folder)

    def manifest(self) -> Manifest:
        """Read the manifest; from the Hub it is downloaded into the Hub's own cache."""
        if self.folder is not None:
            return Manifest.read(self.folder)
        from huggingface_hub import hf_hub_download

        try:
            path = hf_hub_download(self.repo_id, FILE_NAME, repo_type="dataset")
        except Exception as error:  # every kind of network, access and cache trouble means the same here
            raise self._unreachable(error) from error
        return Manifest.from_json(Path(path).read_text(encoding="utf-8"), f"{self.repo_id}/{FILE_NAME}")

    def _unreachable(self, error: Exception) -> NotFoundError:
        name = self.repo_id.split("/")[-1]
        known = [path.name for path in local_datasets()]
        searched = ", ".join(str(path) for path in search_path())
        first_line = str(error).partition("\n")[0]
        hint = (
            f"Looked in {searched} (set SHIFTDATA_HOME to add folders) "
            f"and on the Hub ({type(error).__name__}: {first_line})"
        )
        return not_found("dataset", name, known, hint)


def search_path() -> list[Path]:
    """The folders that are searched for datasets: $SHIFTDATA_HOME, then ./build/shift and ./shift."""
    home = [Path(part) for part in os.environ.get("SHIFTDATA_HOME", "").split(os.pathsep) if part]
    return [*home, Path("build") / NAMESPACE, Path(NAMESPACE)]


def local_datasets() -> Iterator[Path]:
    """Every folder with a manifest on the search path; of two with one name, the first."""
    seen = set()
    for root in search_path():
        for path in sorted(root.glob(f"*/{FILE_NAME}")):
            if path.parent.name not in seen:
                seen.add(path.parent.name)
                yield path.parent


def find(name: str | Path) -> Place:
    """Find a dataset by path, by name (`sma_emoji`) or by repo id (`shift/sma_emoji`).

    A folder wins over the search path, and that over the Hub. Nothing is read but folder entries.
    """
    folder = Path(name)
    if (folder / FILE_NAME).is_file():
        return Place(f"{NAMESPACE}/{folder.resolve().name}", folder)
    text = str(name)
    owner, _, short = text.rpartition("/")
    if owner in ("", NAMESPACE):
        for root in search_path():
            if (root / short / FILE_NAME).is_file():
                return Place(f"{NAMESPACE}/{short}", root / short)
    if folder.is_absolute() or text.startswith(".") or text.count("/") > 1:
        raise NotFoundError(
            f"{text} holds no {FILE_NAME}: not a shiftdata dataset, or its build has not finished"
        )
    return Place(text if owner else f"{NAMESPACE}/{text}", None)
