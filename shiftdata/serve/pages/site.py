"""The gallery as files: pages that open from a disk, from Pages and Spaces, from any web server.

A dataset's pages are made again only when its manifest, the request, or this package has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.paths import README
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.evaluation.pages.shell import ROOMS, data_script, render, write_assets
from shiftdata.files import write_text
from shiftdata.serve.pages.duplicates_page import last_duplicates
from shiftdata.serve.pages.pages import (
    Place,
    card_picture,
    counts_of,
    cover,
    entry_of,
    pages_of,
    tasks_of,
    wall,
)
from shiftdata.serve.pages.rows import Rows
from shiftdata.stable import content_hash

#: The request that a dataset's folder was made for; it is written last.
REQUEST = "made.json"
#: Files that a card shows or leads to.
OF_CARDS = (".png", ".jpg", ".jpeg", ".webp", ".md")

#: Called with a dataset's name and how many steps its pages take, then with each step.
Begin: TypeAlias = Callable[[str, int], Callable[[], object]]
#: A file that pages load, and the function that makes it; None where there is nothing to show.
Part: TypeAlias = tuple[str, Callable[[], bytes | str | None]]


def write_gallery(
    datasets: Sequence[DatasetName],
    out: Path,
    *,
    each: int = 8,
    begin: Begin = lambda name, steps: lambda: None,
) -> Path:
    """Write the pages of some datasets and a front page of these alone below `out`; return the front page.

    The pages show `each` rows of each group, or trajectories of a continuous shift. `begin` gets a dataset's
    name and its steps, and gives what to call at each step.
    """
    if each < 1:
        raise InputError(f"each={each}: at least 1 row of a group is shown")
    opened = [open_dataset(name) for name in datasets]
    names = [dataset.manifest.name for dataset in opened]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two of the datasets are called {min(repeated)}: make a gallery of each")
    write_assets(out)
    entries = []
    for dataset in opened:
        manifest, folder = dataset.manifest, out / dataset.manifest.name
        _write_dataset(dataset, folder, each, begin)
        picture = f"{folder.name}/card.webp" if (folder / "card.webp").is_file() else ""
        url, repo_id = f"{folder.name}/index.html", f"{NAMESPACE}/{folder.name}"
        entries.append(entry_of(manifest, url, repo_id, picture))
    write_text(out / "index.html", render("catalog.html", root="", entries=entries, others=(), endpoint=""))
    return out / "index.html"


def _write_dataset(dataset: OpenDataset, folder: Path, each: int, begin: Begin) -> None:
    """Write all pages of a dataset and what they load, if they are not up to date."""
    request = folder / REQUEST
    found = last_duplicates(dataset.manifest)
    duplicates = "" if found is None else content_hash(json.dumps(found.to_dict()))
    identity = json.dumps(
        {"manifest": dataset.sha256, "each": each, "duplicates": duplicates, "pages": _code()}
    )
    if request.is_file() and request.read_text(encoding="utf-8") == identity:
        return
    request.unlink(missing_ok=True)
    place = Place(each=each)
    parts = list(_parts(dataset, place))
    step = begin(dataset.manifest.name, len(parts) + 1)
    for name, make in parts:
        data = make()
        if data is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        step()
    for name, text in pages_of(dataset, place).items():
        write_text(folder / name, text)
    step()
    write_text(request, identity)


def _parts(dataset: OpenDataset, place: Place) -> Iterator[Part]:
    """Return every file that the pages load, by name, with the function that makes it."""
    manifest = dataset.manifest
    yield "card.webp", partial(card_picture, dataset)
    for path in manifest.files:
        if path.endswith(OF_CARDS) and "/" not in path and path != README:
            yield path, partial(dataset.read_file, path)
    for number, task in enumerate(tasks_of(manifest)):
        yield _script(f"counts/{number}", partial(counts_of, dataset, *task))
    for base in (base.name for base in manifest.ordered_bases):
        rows = Rows.of(dataset, base)
        sample = place.sample(rows)
        yield _script(f"keys/{base}", partial(_keys, rows, sample))
        for label in sorted({label for label, _ in sample}):
            name = f"{base}-{label}"
            mine = {nuisance: at for (own, nuisance), at in sorted(sample.items()) if own == label}
            yield _script(f"rows/{name}", partial(_details, rows, mine))
            if rows.has_pictures:
                for step in range(len(rows.severities) if rows.is_continuous else 1):
                    yield f"data/covers/{name}-{step}.webp", partial(cover, rows, label, step)
                for nuisance, at in mine.items():
                    yield f"data/groups/{name}-{nuisance}.webp", partial(wall, rows, at)


def _details(rows: Rows, sample: Mapping[int, IntArray]) -> dict[int, list[dict[str, Any]]]:
    """Return all that is known of some rows of a label, by nuisance; read at once."""
    records = iter(rows.details(np.concatenate([*sample.values()])))
    return {nuisance: [next(records) for _ in at] for nuisance, at in sample.items()}


def _keys(rows: Rows, sample: Mapping[tuple[int, int], IntArray]) -> dict[str, tuple[int, int]]:
    """Return the group of each key of the pages."""
    return {key: group for group, at in sample.items() for key in rows.metadata.keys(at).to_pylist()}


def _script(name: str, make: Callable[[], Mapping[Any, Any]]) -> Part:
    return f"data/{name}.js", lambda: data_script(name, make())


def _code() -> str:
    """Return a hash of the code and assets of the pages: another release makes them again."""
    digest = hashlib.sha256()
    for room in (ROOMS / "evaluation/pages", Path(__file__).parent):
        for file in sorted(path for path in room.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(file.read_bytes())
    return digest.hexdigest()
