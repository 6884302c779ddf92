"""Check a whole dataset: its manifest, every file, and at depth every row of every base."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from shiftdata.dataset import DatasetName, open_dataset
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.verifying.base import Site, check_base
from shiftdata.verifying.form import manifest_problems, refuse
from shiftdata.verifying.order import origin_problems
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.repo import Folder, Remote, Repo
from shiftdata.verifying.splits import dataset_problems
from shiftdata.verifying.tars import tar_problems
from shiftdata.verifying.work import Listener, Work

#: Written from the manifest, so compared with a fresh rendering (`python -m builders check`), not by hash.
RENDERINGS = {FILE_NAME, "README.md", "croissant.json"}


def verify(
    name: DatasetName,
    *,
    deep: bool = True,
    against: DatasetName | None = None,
    on_file: Callable[[str], object] | None = None,
    on_bytes: Callable[[int], object] | None = None,
    on_rows: Callable[[int], object] | None = None,
    on_note: Callable[[str], object] | None = None,
) -> list[Problem]:
    """Check every file of a dataset, and with `deep` every row and image; an empty list means all is well.

    A damaged file hides no other problem: rows are checked as far as they can be read. Files at a URL or on
    the Hub are fetched once each, a few at a time, and deleted when they are checked.

    Args:
        name: a name, `shift/<name>`, a folder, or a URL that fsspec reads.
        deep: check rows and examples, not only the hashes of files.
        against: another place with the same dataset, such as one that was published without its examples:
            the files of both must be equal.
        on_file: called with the name of each file when it has been hashed.
        on_bytes: called with how many more bytes were fetched or hashed.
        on_rows: called with how many more rows were checked.
        on_note: called with what could not be looked at, such as extra files where no list is given.

    """
    opened = open_dataset(name)
    manifest = opened.manifest
    written = opened.store.read(FILE_NAME)
    refuse(manifest)
    listener = Listener(on_file=on_file, on_bytes=on_bytes, on_rows=on_rows, on_note=on_note)
    with ExitStack() as stack:
        repo: Repo
        if opened.folder is not None:
            work = stack.enter_context(Work(listener))
            repo = Folder(opened.folder, work)
        else:
            # Entered first, so that it goes when no thread writes to it any more.
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="shiftdata-verify-"))
            work = stack.enter_context(Work(listener, remote=True))
            repo = Remote(opened.store, Path(scratch), work)
        site = Site(manifest, repo, work)
        problems = [*manifest_problems(manifest, written), *_extra_files(site)]
        in_depth = tar_problems if manifest.is_webdataset else _rows
        problems += in_depth(site) if deep else _files(site, sorted(manifest.files))
    if against is not None:
        problems += _differences(manifest, open_dataset(against).manifest)
    return sorted(problems, key=lambda problem: problem.path)


def _differences(manifest: Manifest, other: Manifest) -> Iterator[Problem]:
    """Where a dataset is not the one of another place."""
    for name in ("recipe_id", "content_id"):
        mine, wanted = getattr(manifest, name), getattr(other, name)
        if mine != wanted:
            what = f"has the {name} {mine[:12]}, and {wanted[:12]} was published"
            yield Problem(path=FILE_NAME, what=what, kind="against")
    versions = ", ".join(f"{name} {version}" for name, version in other.versions.items())
    for path, record in other.all_files.items():
        if manifest.all_files.get(path) != record:
            what = f"is not as it was published; that was built with {versions}"
            yield Problem(path=path, what=what, kind="against")


def _extra_files(site: Site) -> Iterator[Problem]:
    """Files that no manifest knows, and renderings that lead elsewhere."""
    names = site.repo.names()
    if names is None:
        site.work.note("extra files could not be looked for: the place gives no list of its files")
        return
    known = set(site.manifest.files) | RENDERINGS
    for path in sorted(names - known):
        # A link to a folder of known files is not extra: each of them is refused if it leads out.
        if not any(name.startswith(f"{path}/") for name in known):
            what = "is not in the manifest: an extra file; delete it, or build the dataset again"
            yield Problem(path=path, what=what, kind="extra")
    for path in sorted(names & RENDERINGS):
        refused = site.repo.refused(path)
        if refused:
            yield refused


def _files(site: Site, paths: Sequence[str]) -> list[Problem]:
    """Files by length and hash alone."""

    def check(path: str) -> Problem | None:
        held = site.hold(path)
        held.release()
        return held.fault

    return [fault for fault in site.work.each(check, paths) if fault]


def _rows(site: Site) -> list[Problem]:
    """Every file, and every row of every base."""
    found = [check_base(site, base) for base in site.manifest.bases]
    problems = [problem for one in found for problem in one.problems]
    done = {path for one in found for path in one.paths}
    problems += _files(site, sorted(set(site.manifest.files) - done))
    whole = all(one.whole for one in found)
    origins = [one.origins for one in found if one.origins is not None]
    if origins:
        problems += origin_problems(site.manifest, pa.concat_tables(origins), whole)
    terms = sum((one.terms for one in found), Counter[tuple[str, str]]())
    problems += dataset_problems(site.manifest, terms if whole else None)
    return problems
