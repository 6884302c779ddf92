"""The folders of one dataset's build, and the state of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from builders.albums import Raw
from builders.items import ItemTable
from builders.make import assign
from builders.recipe import Recipe, file_versions
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import RENDERINGS
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.files import swap


@dataclass(frozen=True)
class Workshop:
    """The folders of one dataset's build: the finished one, and all unfinished work next to it."""

    out: Path
    name: str

    @property
    def folder(self) -> Path:
        """The finished dataset."""
        return self.out / NAMESPACE / self.name

    @property
    def work(self) -> Path:
        """The folder of unfinished work, on the disk of the finished folder so that a move is one step."""
        return self.out / ".work" / self.name

    @property
    def fresh(self) -> Path:
        """The dataset while it is packed; whole once its manifest is there."""
        return self.work / "packing"

    def swap(self) -> None:
        """Replace the old dataset by the fresh one; a reader sees one or the other."""
        swap(self.fresh, self.folder, self.work / "replaced")

    def finish_swap(self) -> None:
        """End a swap that was killed between its two moves."""
        if (self.fresh / FILE_NAME).is_file() and not self.folder.exists():
            self.swap()


def earlier(folder: Path, recipe: Recipe, replaced: object | None, *, replace: bool) -> Manifest | None:
    """The manifest of an earlier build of the same recipe; anything else in the way is an error.

    With `replace`, or a raised version, it is not. `replaced` is the mark of a manifest that does not count
    either.
    """
    while folder.exists():
        if (folder / FILE_NAME).is_file():
            manifest, is_old = Manifest.read(folder), mark(folder) == replaced
            if manifest.recipe_id == recipe.recipe_id():
                return None if is_old else manifest
            if replace or _is_raised(manifest.version, recipe.version):
                return None
            was, now = manifest.recipe_id[:12], recipe.recipe_id()[:12]
            raise InputError(
                f"{folder} was built from another recipe (id {was}, now {now}), version {manifest.version}: "
                f"raise the version in the recipe ({recipe.version}) if it is the same dataset with other "
                "content or code; else build into another --out, or pass --replace to overwrite it"
            )
        if not folder.exists():  # it is swapped just now
            continue
        if replace:
            return None
        raise InputError(
            f"{folder} exists and is not a finished dataset: move it away, or pass --replace to delete it"
        )
    return None


def _is_raised(before: str, now: str) -> bool:
    """Return True if a version such as 1.2.0 is above another."""
    try:
        return Version(now) > Version(before)
    except InvalidVersion:
        return False


def mark(folder: Path) -> object | None:
    """Return a mark that changes when another dataset replaces this one, even with the same bytes."""
    try:
        stat = (folder / FILE_NAME).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def wanted_bases(recipe: Recipe, bases: Sequence[str] | None, done: Manifest | None) -> list[str]:
    """The bases to end up with, in the recipe's order; the default base is always among them.

    Those that a raw dataset has no item of are left out, unless they are asked for by name.
    """
    lacking: list[str] = []
    if isinstance(recipe.album, Raw):
        items = ItemTable.of(recipe.album.items())
        lacking = [base.name for base in recipe.bases if not len(assign.candidates(items, base)[0])]
    for name in lacking:
        if name in [*(bases or ()), recipe.default_base]:
            raise InputError(
                f"the raw data of {recipe.name} has no item of the base {name!r}: add what it lacks, "
                "see `shiftdata raw check`"
            )
    asked = {recipe.base(name).name for name in bases or [base.name for base in recipe.bases]} - {*lacking}
    built = {base.name for base in done.bases} if done else set()
    return [base.name for base in recipe.bases if base.name in asked | built | {recipe.default_base}]


def is_complete(folder: Path, done: Manifest, wanted: Sequence[str]) -> bool:
    """Return True if an earlier build has everything that is wanted, made with the same libraries."""
    return (
        {base.name for base in done.bases} == set(wanted)
        and done.versions == file_versions()
        and all(
            (folder / path).is_file() and (folder / path).stat().st_size == record.bytes
            for path, record in done.files.items()
            if path not in RENDERINGS  # they are written again
        )
    )
