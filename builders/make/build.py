"""Build a dataset: render what is missing, pack, and put the whole into place in one move."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from tqdm import tqdm

from builders.describe.renderings import describe, description_of
from builders.filters import Filters
from builders.filters.scorers import View
from builders.filters.scoring import decoded, score
from builders.make import assign
from builders.make.canonical import check_protocols
from builders.make.dropped import write_report
from builders.make.pack import Rendered, pack
from builders.make.render import Block, cut_into_blocks, render, render_item
from builders.recipe import Recipe, file_versions, load_recipe, node_versions
from builders.sample import BadItem, Item
from builders.spool import Spool
from shiftdata.errors import InputError
from shiftdata.executors import Executor, Here, Pool, alike
from shiftdata.exporting.webdataset import export
from shiftdata.files import locked, swap
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.format.paths import RENDERINGS
from shiftdata.places.search import NAMESPACE
from shiftdata.threads import available_cores

Format: TypeAlias = Literal["parquet", "webdataset", "both"]


@dataclass(frozen=True)
class Workshop:
    """Where a build of one dataset happens: the finished folder, and everything unfinished beside it."""

    out: Path
    name: str
    keep_parquet: bool = True

    @property
    def folder(self) -> Path:
        """The finished dataset, as Parquet; where only tars are wanted, it is nobody else's."""
        return self.out / NAMESPACE / self.name if self.keep_parquet else self.work / "parquet"

    @property
    def tars(self) -> Path:
        """The finished dataset in WebDataset format."""
        return self.out / NAMESPACE / f"{self.name}_wds"

    @property
    def work(self) -> Path:
        """What is unfinished; on the same disk as the finished folder, so that a move is one step."""
        return self.out / ".work" / self.name

    @property
    def fresh(self) -> Path:
        """The dataset while it is packed; whole once its manifest is there."""
        return self.work / "packing"

    def swap(self) -> None:
        """Put the fresh dataset in the place of the old one; a reader sees one or the other."""
        swap(self.fresh, self.folder, self.work / "replaced")

    def finish_swap(self) -> None:
        """End a swap that was killed between its two moves."""
        if (self.fresh / FILE_NAME).is_file() and not self.folder.exists():
            self.swap()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One build of a dataset at a time; the lock goes with its process, however that ends."""
        self.work.mkdir(parents=True, exist_ok=True)
        message = f"another process is building {self.name} in {self.out}: wait for it to end"
        with locked(self.work / "lock", message):
            yield


def build(
    reference: str,
    out: Path = Path("build"),
    *,
    format: Format = "parquet",  # noqa: A002
    bases: Sequence[str] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    replace: bool = False,
    keep_spool: bool = False,
    quiet: bool = False,
) -> Path:
    """Build the dataset of a recipe into `out/shift/<name>`, and return that folder.

    Killed at any moment and called again, it goes on and ends in the same bytes. `bases` limits what is built
    to some of the recipe's bases; those of an earlier build stay. `executor` says where the costly half runs
    (default: a pool of `workers`). `replace` allows to overwrite the dataset of another recipe. With the
    format "both" it is also written as tars, in `out/shift/<name>_wds`; with "webdataset" that alone, and its
    folder is returned. What could not be used is named in `out/<name>_dropped.tsv`.
    """
    recipe = load_recipe(reference)
    if reference.endswith(".py"):
        reference = str(Path(reference).absolute())  # processes on other nodes work in other folders
    keep = format != "webdataset" or (out / NAMESPACE / recipe.name).exists()
    workshop = Workshop(out, recipe.name, keep)
    with workshop.locked():
        workshop.finish_swap()
        folders = [workshop.folder] if format == "parquet" else [workshop.folder, workshop.tars]
        earlier = {folder: _earlier(folder, recipe, replace) for folder in folders}
        wanted = _wanted(recipe, bases, [done for done in earlier.values() if done is not None])
        complete = {folder for folder, done in earlier.items() if done and _complete(folder, done, wanted)}
        if workshop.folder not in complete and (keep or workshop.tars not in complete):
            _make(reference, recipe, wanted, workshop, workers, executor, keep_spool, quiet)
        if format != "parquet" and workshop.tars not in complete:
            _export(workshop, quiet)
        for folder, done in earlier.items():
            if done and folder in complete:
                _update_description(folder, done, recipe)
        if workshop.folder.exists():
            write_report(out, recipe, workshop.folder)
        if not keep:
            shutil.rmtree(workshop.folder, ignore_errors=True)
    return folders[-1] if format == "webdataset" else workshop.folder


def _make(
    reference: str,
    recipe: Recipe,
    wanted: Sequence[str],
    workshop: Workshop,
    workers: int | None,
    executor: Executor | None,
    keep_spool: bool,
    quiet: bool,
) -> None:
    """Render what is missing, and pack it as Parquet."""
    items = recipe.album.items()
    assign.check_items(recipe, items)
    fold_of = assign.folds(items)
    assign.check_splits(recipe, fold_of)
    check_protocols(recipe, items, fold_of)
    blocks = plan_blocks(recipe, wanted, items, fold_of)
    spool = Spool(workshop.work.absolute() / f"spool-{recipe.pixels_id()[:16]}")
    workers = workers or available_cores()
    executor = executor or (Pool(workers) if workers > 1 else Here())
    _render(reference, blocks, spool, executor, quiet)
    ids = {base: [block.id for block in of_base] for base, of_base in blocks.items()}
    rendered = Rendered(recipe=recipe, items=items, fold_of=fold_of, spool=spool, blocks=ids)
    _score(reference, rendered, blocks, executor, quiet)
    _pack(rendered, workshop, quiet)
    if not keep_spool:
        for folder in workshop.work.glob("spool-*"):  # also those of other versions of the recipe
            shutil.rmtree(folder)


def plan_blocks(
    recipe: Recipe, bases: Sequence[str], items: Sequence[Item], fold_of: dict[str, int]
) -> dict[str, list[Block]]:
    """The blocks of each base. A larger base is the blocks of the smaller ones and some more."""
    plan: dict[str, list[Block]] = {}
    for layer in ("content", "shift"):
        blocks: list[Block] = []
        taken: set[str] = set()
        of_layer = [base for base in recipe.bases if base.layer == layer]
        for base in sorted(of_layer, key=lambda base: base.per_group or len(items) + 1):
            picked = assign.pick(items, fold_of, base)
            blocks = blocks + cut_into_blocks(
                recipe, layer, [item for item in picked if item.key not in taken]
            )
            taken |= {item.key for item in picked}
            if base.name in bases:
                plan[base.name] = blocks
    return {base.name: plan[base.name] for base in recipe.bases if base.name in plan}


def _earlier(folder: Path, recipe: Recipe, replace: bool) -> Manifest | None:
    """The manifest of an earlier build of the same recipe; anything else in the way is an error."""
    if not folder.exists() or replace:
        return None
    if not (folder / FILE_NAME).is_file():
        raise InputError(
            f"{folder} exists and is not a finished dataset: move it away, or pass --replace to delete it"
        )
    manifest = Manifest.read(folder)
    if manifest.recipe_id != recipe.recipe_id():
        was, now = manifest.recipe_id[:12], recipe.recipe_id()[:12]
        raise InputError(
            f"{folder} was built from another recipe (id {was}, now {now}): "
            "build into another --out, or pass --replace to overwrite it"
        )
    return manifest


def _wanted(recipe: Recipe, bases: Sequence[str] | None, earlier: Sequence[Manifest]) -> list[str]:
    """The bases to end up with, in the recipe's order; the default base is always among them."""
    asked = {recipe.base(name).name for name in bases} if bases else {base.name for base in recipe.bases}
    kept = {base.name for done in earlier for base in done.bases}
    return [base.name for base in recipe.bases if base.name in asked | kept | {recipe.default_base}]


def _complete(folder: Path, done: Manifest, wanted: Sequence[str]) -> bool:
    """Whether an earlier build has everything that is wanted, made with the same libraries."""
    return (
        {base.name for base in done.bases} == set(wanted)
        and done.versions == file_versions()
        and all(
            (folder / path).is_file() and (folder / path).stat().st_size == record.bytes
            for path, record in done.files.items()
            if path not in RENDERINGS  # they are written anew
        )
    )


def _update_description(folder: Path, done: Manifest, recipe: Recipe) -> None:
    """Bring the description of a finished dataset, and its renderings, up to date with the recipe."""
    bases = [replace(base, summary=recipe.base(base.name).summary) for base in done.bases]
    manifest = replace(done, **description_of(recipe), bases=bases)
    describe(folder, manifest)


def _render(
    reference: str, blocks: dict[str, list[Block]], spool: Spool, executor: Executor, quiet: bool
) -> None:
    every = {block.id: block for of_base in blocks.values() for block in of_base}
    missing = [block for block in every.values() if block.id not in spool]
    total = sum(block.weight for block in every.values())
    finished = total - sum(block.weight for block in missing)
    with tqdm(total=total, initial=finished, desc="render", unit="img", disable=quiet, smoothing=0.05) as bar:
        render(reference, missing, spool, executor, on_done=lambda block: bar.update(block.weight))


def _score(
    reference: str, rendered: Rendered, blocks: dict[str, list[Block]], executor: Executor, quiet: bool
) -> None:
    """Score what the filters judge; what was scored before is not scored again."""
    if rendered.recipe.filters is None:
        return
    items = {block.id: block.items for of in blocks.values() for block in of if block.layer == "shift"}
    load = alike(partial(_filters, reference), partial(node_versions, reference))
    with tqdm(total=len(items), desc="score", unit="block", disable=quiet) as bar:
        score(load, rendered.spool, items, lambda: _content(rendered), executor, bar.update)


def _filters(reference: str) -> Filters:
    filters = load_recipe(reference).filters
    if filters is None:
        raise InputError(f"the recipe {reference} changed while it was built: it has no filters any more")
    return filters


def _content(rendered: Rendered) -> Iterator[View]:
    """The untouched content, as it would be published."""
    for item in rendered.items:
        try:
            for sample in render_item(rendered.recipe, "content", item):
                picture = decoded(rendered.recipe.encoding.encode(sample))
                yield View(
                    key=sample.key, picture=picture, start=picture, label=item.label, origin=item.origin
                )
        except BadItem:
            continue  # counted where it is rendered


def _pack(rendered: Rendered, workshop: Workshop, quiet: bool) -> None:
    """Pack into a folder beside the finished one, then swap."""
    shutil.rmtree(workshop.fresh, ignore_errors=True)
    with tqdm(desc="pack", unit="img", disable=quiet) as bar:
        pack(rendered, workshop.fresh, bar.update)
    workshop.swap()


def _export(workshop: Workshop, quiet: bool) -> None:
    """Write the finished dataset in WebDataset format; its Parquet files have every rendered byte."""
    with tqdm(total=Manifest.read(workshop.folder).rows, desc="tars", unit="img", disable=quiet) as bar:
        export(workshop.folder, workshop.tars, overwrite=True, on_samples=bar.update)
