"""The gallery as files: pages that open from a disk, from Pages and Spaces, from any web server.

A dataset's pages are made again only when its manifest, what is asked for, or this package has changed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.paths import README
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.evaluation.pages.shell import ROOMS, data_script, write_assets
from shiftdata.files import write_text
from shiftdata.serve.pages import RECORD
from shiftdata.serve.pages.catalog import Entry, card_picture, catalog_page
from shiftdata.serve.pages.counts import base_names, counts_of
from shiftdata.serve.pages.figures import duplicates
from shiftdata.serve.pages.look_alikes import look_alikes
from shiftdata.serve.pages.pages import COLUMNS, SIDE, Place, cover, pages_of, tasks_of
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import sprite

#: What a dataset's folder was made from; it is written last.
MADE = "made.json"
#: What a card shows, or leads to.
OF_CARDS = (".png", ".jpg", ".jpeg", ".webp", ".md")

#: Called with a dataset's name and how many steps its pages take, then with each step.
Begin: TypeAlias = Callable[[str, int], Callable[[], object]]
#: A file that pages load, and how it is made; None where there is nothing to show.
Part: TypeAlias = tuple[str, Callable[[], bytes | str | None]]


def write_gallery(
    datasets: Sequence[DatasetName],
    out: Path,
    *,
    each: int = 8,
    results: Sequence[Path] = (),
    begin: Begin = lambda name, steps: lambda: None,
) -> Path:
    """Write the pages of some datasets and a front page below `out`, and return the front page.

    Args:
        datasets: names, folders, URLs or opened datasets.
        out: a folder; the front page lists the datasets of this call alone.
        each: how many rows of each group, or trajectories of a continuous shift, the pages show.
        results: folders of pages of predictions, to be listed on the front page.
        begin: is called with a dataset's name and its steps, and gives what to call at each step.

    """
    if each < 1:
        raise InputError(f"each={each}: at least 1 row of a group is shown")
    opened = [open_dataset(name) for name in datasets]
    for name in {one.manifest.name for one in opened}:
        if sum(one.manifest.name == name for one in opened) > 1:
            raise InputError(f"two of the datasets are called {name}: make a gallery of each")
    write_assets(out)
    shown = [_copied(one, out, opened) for one in results]
    entries = []
    for one in opened:
        folder = out / one.manifest.name
        mine = [record for record in shown if record["content_id"] == one.manifest.content_id]
        _write_dataset(one, folder, each, mine, begin)
        picture = f"{folder.name}/card.webp" if (folder / "card.webp").is_file() else ""
        url, repo_id = f"{folder.name}/index.html", f"{NAMESPACE}/{folder.name}"
        entries.append(Entry(manifest=one.manifest, url=url, repo_id=repo_id, picture=picture))
    write_text(out / "index.html", catalog_page(entries, root="", results=shown))
    return out / "index.html"


def _write_dataset(
    dataset: OpenDataset, folder: Path, each: int, results: Sequence[Mapping[str, Any]], begin: Begin
) -> None:
    """All pages of a dataset and what they load; nothing where they are there already.

    They also have the examples that pages of predictions show, and the accuracy along the severity of those.
    """
    accuracy = {name: by for record in results for name, by in record["severity"].items()}
    more: dict[str, list[str]] = {}
    for record in results:
        more.setdefault(record["base"], []).extend(record["keys"])
    more = {base: sorted(set(keys)) for base, keys in sorted(more.items())}
    asked = {"manifest": dataset.sha256, "each": each, "accuracy": accuracy, "more": more, "pages": _code()}
    made, identity = folder / MADE, json.dumps(asked)
    if made.is_file() and made.read_text(encoding="utf-8") == identity:
        return
    made.unlink(missing_ok=True)
    more = _with_pairs(dataset, more)
    place = Place(root="../", here="", up="index.html", each=each, accuracy=accuracy, more=more)
    parts = list(_parts(dataset, place))
    step = begin(dataset.manifest.name, len(parts) + 1)
    for name, make in parts:
        data = make()
        if data is not None:
            _write(folder / name, data)
        step()
    for name, text in pages_of(dataset, place).items():
        write_text(folder / name, text)
    step()
    write_text(made, identity)


def _with_pairs(dataset: OpenDataset, more: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The keys of the pages by base, with those of duplicates and look-alikes, to which links lead."""
    every = {base: list(keys) for base, keys in more.items()}
    if (alike := look_alikes(dataset)) is not None and len(alike.shown):
        every.setdefault(alike.rows.base, []).extend(alike.rows.metadata.keys(alike.shown).to_pylist())
    rows = Rows.of(dataset, base_names(dataset.manifest)[0])
    for pair in rows.keep("duplicates", lambda: duplicates(rows))["pairs"]:
        every.setdefault(pair["base"], []).extend([pair["first"], pair["second"]])
    return {base: sorted(set(keys)) for base, keys in every.items()}


def _parts(dataset: OpenDataset, place: Place) -> Iterator[Part]:
    """Every file that the pages load, by name, and how it is made."""
    manifest = dataset.manifest
    yield "card.webp", partial(card_picture, dataset)
    for path in manifest.files:
        if path.endswith(OF_CARDS) and "/" not in path and path != README:
            yield path, partial(dataset.read_file, path)
    if (alike := look_alikes(dataset)) is not None:
        yield _script("look_alikes", alike.data)
        yield "data/look_alikes.webp", alike.sprite
    for number, task in enumerate(tasks_of(manifest, place)):
        yield _script(f"counts/{number}", partial(counts_of, dataset, *task))
    for base in base_names(manifest):
        rows = Rows.of(dataset, base)
        sample = place.sample(rows)
        yield _script(f"keys/{base}", partial(_keys, rows, sample))
        for label in sorted({label for label, _ in sample}):
            mine = {nuisance: at for (one, nuisance), at in sample.items() if one == label}
            yield from _of_label(rows, label, mine)


def _of_label(rows: Rows, label: int, sample: Mapping[int, Indices]) -> Iterator[Part]:
    """What the pages load of one label: its rows, its line of the matrix, the pictures of its groups."""
    name = f"{rows.base}-{label}"
    yield _script(f"rows/{name}", partial(_details, rows, sample))
    if rows.modality != "image" or not rows.dataset.manifest.pixels_included:
        return
    for step in range(len(rows.severities) if rows.is_continuous else 1):
        yield f"data/covers/{name}-{step}.webp", partial(cover, rows, label, step)
    for nuisance, at in sorted(sample.items()):
        yield f"data/groups/{name}-{nuisance}.webp", partial(_group, rows, at)


def _details(rows: Rows, sample: Mapping[int, Indices]) -> dict[int, list[dict[str, Any]]]:
    """All that is known of some rows of a label, by nuisance; read at once."""
    order = sorted(sample)
    known = iter(rows.details(np.concatenate([sample[nuisance] for nuisance in order])))
    return {nuisance: [next(known) for _ in sample[nuisance]] for nuisance in order}


def _group(rows: Rows, at: Indices) -> bytes:
    return sprite(rows.examples(at), SIDE, COLUMNS)


def _keys(rows: Rows, sample: Mapping[tuple[int, int], Indices]) -> dict[str, list[int]]:
    """In which group each key of the pages is."""
    at = np.concatenate([*sample.values(), np.empty(0, np.int64)]).astype(np.int64)
    groups = [list(group) for group, mine in sample.items() for _ in range(len(mine))]
    return dict(zip(rows.metadata.keys(at).to_pylist() if len(at) else [], groups, strict=True))


def _script(name: str, make: Callable[[], Mapping[Any, Any]]) -> Part:
    return f"data/{name}.js", lambda: data_script(name, make())


def _write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def _code() -> str:
    """What the pages are made with: another release makes them anew."""
    digest = hashlib.sha256()
    for room in (ROOMS / "evaluation/pages", Path(__file__).parent):
        for file in sorted(one for one in room.rglob("*") if one.is_file() and one.suffix != ".pyc"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _copied(result: Path, out: Path, datasets: Sequence[OpenDataset]) -> dict[str, Any]:
    """What the front page says of a page of predictions, which is copied beside the others."""
    record = result / RECORD
    if not record.is_file():
        raise InputError(
            f"{result} has no {RECORD}: give a folder that `shiftdata evaluate ... --page` has written"
        )
    known: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    if not {"base", "keys", "severity", "content_id", "lines"} <= known.keys():
        raise InputError(f"{record} is of another version of shiftdata: write the page again")
    folder = out / "predictions" / result.resolve().name
    if folder.resolve() != result.resolve():
        shutil.copytree(result, folder, dirs_exist_ok=True)
    same = any(one.manifest.content_id == known["content_id"] for one in datasets)
    place = {"dataset": f"../../{known['dataset']}/" if same else ""}
    (folder / "data" / "place.js").write_text(data_script("place", place), encoding="utf-8")
    return known | {"url": f"predictions/{folder.name}/index.html"}
