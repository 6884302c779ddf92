"""Check a whole dataset: its manifest, every file, and at depth every row of every base."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import OVERRIDES, RENDERINGS
from shiftdata.data.format.written import leak_warnings
from shiftdata.data.places.http import Hub
from shiftdata.data.verifying.contents import file_problems, row_by_row
from shiftdata.data.verifying.files import Files, Progress
from shiftdata.data.verifying.manifest import manifest_problems
from shiftdata.data.verifying.problem import Problem
from shiftdata.data.verifying.tars import tar_problems


def verify(
    name: DatasetName,
    *,
    deep: bool = True,
    against: DatasetName | None = None,
    on_file: Callable[[str], object] = lambda path: None,
    on_bytes: Callable[[int], object] = lambda count: None,
    on_rows: Callable[[int], object] = lambda count: None,
    on_note: Callable[[str], object] = lambda text: None,
) -> list[Problem]:
    """Check every file of a dataset, and with `deep` every row and image; an empty list means all is well.

    A file with another size or hash is one problem, which names the rows in it. Rows and images are checked
    in files that are intact. Files at a URL or on the Hub are fetched once each, a few at a time, and deleted
    when they are checked.

    Args:
        name: a name, `shift/<name>`, a folder, a URL that fsspec reads, or an opened dataset.
        deep: check rows and examples, not only the hashes of files.
        against: another place with the same dataset, such as one that was published without its examples:
            the files of both must be equal.
        on_file: called with the name of each file when it has been hashed.
        on_bytes: called with how many more bytes were fetched or hashed; a negative number takes some back.
        on_rows: called with how many more rows were checked.
        on_note: called with what could not be checked, such as extra files where no list is given, and in
            the end with a summary of what was.

    """
    dataset = open_dataset(name)
    dataset.check_unchanged()
    progress = Progress(on_file, on_bytes, on_rows, on_note)
    folder = dataset.folder
    with (
        nullcontext(str(folder))
        if folder is not None
        else tempfile.TemporaryDirectory(prefix="shiftdata-verify-", ignore_cleanup_errors=True)
    ) as scratch:
        files = Files(dataset, Path(scratch), progress)
        try:
            problems = [*manifest_problems(dataset), *_extra_files(files)]
            in_depth = tar_problems if dataset.manifest.is_webdataset else row_by_row
            problems += in_depth(files) if deep else file_problems(files, dataset.manifest.files)
        except BaseException:
            progress.stopped = True
            raise
    dataset.check_unchanged()
    for line in _summary(dataset, progress.checked, deep=deep):
        on_note(line)
    if against is not None:
        problems += _differences(dataset.manifest, open_dataset(against).manifest)
    return sorted(problems, key=lambda problem: problem.path)


def _summary(dataset: OpenDataset, checked: Counter[str], *, deep: bool) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {what}" for what, count in checked.items())
    yield f"checked: {counts}" if deep else f"checked: {counts}; rows and examples were not read"
    if deep and dataset.manifest.part is not None:
        yield "not checked: whether the part has every row of its whole that it should have; fetch it again"
    yield from leak_warnings(dataset.manifest)
    yield (
        f"manifest.json has the sha256 {dataset.sha256}: compare it with a catalog or the publisher's, since "
        "version, citation, datasheet and the like rest on it alone"
    )


def _differences(manifest: Manifest, other: Manifest) -> Iterator[Problem]:
    """Where a dataset is not the one of another place."""
    for name in ("recipe_id", "content_id"):
        mine, wanted = getattr(manifest, name), getattr(other, name)
        if mine != wanted:
            what = f"has the {name} {mine[:12]}, and {wanted[:12]} was published"
            yield Problem(FILE_NAME, what, "against")
    versions = ", ".join(f"{name} {version}" for name, version in other.versions.items())
    # A card says whether the examples are here.
    skipped = RENDERINGS if manifest.pixels_included != other.pixels_included else ()
    for path, record in other.all_files.items():
        if path not in skipped and manifest.all_files.get(path) != record:
            yield Problem(path, f"is not as it was published; that was built with {versions}", "against")


def _extra_files(files: Files) -> Iterator[Problem]:
    """Files that the manifest does not list, and a manifest that is elsewhere."""
    names, known = files.dataset.store.names(), {*files.dataset.manifest.files, FILE_NAME}
    if names is None:
        note = "extra files could not be looked for: the place gives no list of its files"
        files.progress.report(files.progress.on_note, note)
        return
    for path in sorted(names - known):
        # A link to a folder of known files is not extra: each of them is refused if it leads out.
        if not any(name.startswith(f"{path}/") for name in known):
            what = "is not in the manifest: an extra file; delete it, or build the dataset again"
            yield Problem(path, what, "extra")
    store = files.dataset.store
    for path in OVERRIDES if store.folder is not None or isinstance(store, Hub) else ():
        if path not in (names or ()) and store.has(path):
            yield Problem(path, "is what `datasets` would go by in place of the card: delete it", "extra")
    if files.leads_out(FILE_NAME):
        yield Problem(FILE_NAME, "points out of the dataset's folder: put the file itself there", "link")
