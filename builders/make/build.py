"""Build a dataset: render what is missing, pack, and put the whole into place in one move.

Any number of processes may build one dataset at once, over a shared folder. Each renders and scores blocks
into the spool; who sees that all are there packs, under a lock, and then removes the spool.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeAlias

from builders.albums import Files
from builders.describe.renderings import describe, description_of
from builders.filters import Filters
from builders.filters.scorers import View
from builders.filters.scoring import UnscoredError, decoded, score
from builders.make import assign
from builders.make.canonical import check_protocols
from builders.make.dropped import write_report
from builders.make.equal import Listed, listed
from builders.make.near import inspect
from builders.make.pack import Rendered, pack
from builders.make.plan import plan_blocks
from builders.make.progress import Reporter, Status, statuses
from builders.make.render import render, render_item
from builders.make.workshop import Workshop, earlier, is_complete, mark, wanted_bases
from builders.objects import writable
from builders.recipe import Recipe
from builders.recipe_files import load_recipe, node_versions
from builders.sample import BadItem
from builders.spool import Spool
from shiftdata.data.executors import ALONE, Executor, Here, Pool, Rank, alike, check_alike
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places.search import NAMESPACE
from shiftdata.data.places.store import is_url
from shiftdata.errors import InputError, LockedError, not_found
from shiftdata.evaluation.export import export_tars
from shiftdata.files import locked
from shiftdata.threads import available_cores

Format: TypeAlias = Literal["parquet", "webdataset", "both"]

ALL = "all"  # of the canonical splits, as tars
#: What progress counts.
UNITS: Mapping[str, str] = {"image": "img", "text": " texts", "table": " rows"}
#: Seconds to wait for a finished dataset to be seen, when its spool has gone: NFS shows it late.
PATIENCE = 60.0


def build(
    reference: str,
    out: Path = Path("build"),
    *,
    format: Format = "parquet",  # noqa: A002
    bases: Sequence[str] | None = None,
    configs: Sequence[str] = (),
    workers: int | None = None,
    executor: Executor | None = None,
    rank: Rank | None = None,
    spool: str | Path | None = None,
    render_only: bool = False,
    wait: bool = True,
    replace: bool = False,
    keep_spool: bool = False,
    quiet: bool = False,
) -> Path:
    """Build the dataset of a recipe into `out/shift/<name>`, and return that folder.

    Killed at any moment and called again, it goes on and ends in the same bytes. `bases` limits what is built
    to some of the recipe's bases; those of an earlier build stay. `executor` says where the costly half runs
    (default: a pool of `workers`). `replace` allows to overwrite the dataset of another recipe. With the
    format "both" it is also written as tars, in `out/shift/<name>_wds`; with "webdataset" that alone, and its
    folder is returned. The tars have the canonical splits that `configs` names ("all" of them), next to those
    of an earlier build: each repeats the bytes of its rows, so none is there unless asked for. What could not
    be used is named in `out/<name>_dropped.tsv`.

    Several processes may build one dataset at once: each as a `rank`, which renders its share of the blocks
    first, then what is missing of others'. They share `out`, and the `spool` (a folder or a URL; default: in
    `out`). One of them packs; the others wait for it, unless `wait` is false. With `render_only` none does.
    """
    recipe = load_recipe(reference)
    if reference.endswith(".py"):
        reference = str(Path(reference).absolute())  # processes on other nodes work in other folders
    workers = workers or available_cores()
    one = _Build(
        reference=reference,
        recipe=recipe,
        out=out,
        format=format,
        bases=bases,
        configs=_checked(recipe, format, configs),
        executor=executor or (Pool(workers) if workers > 1 else Here()),
        rank=rank or ALONE,
        spools=spools_of(spool, out, recipe.name),
        replace=replace,
        keep_spool=keep_spool,
        quiet=quiet,
    )
    if replace and rank is None:  # a rank that starts late must not build again what the others have built
        one.replaced.update((folder, mark(folder)) for folder in one.look().folders)
    return one.run(render_only=render_only, wait=wait)


def spools_of(spool: str | Path | None, out: Path, name: str) -> str:
    """The folder or URL with all spools of a dataset."""
    if spool is None:
        return str(Workshop(out, name).work.absolute())
    return f"{str(spool).rstrip('/')}/{name}" if is_url(str(spool)) else str(Path(spool).absolute() / name)


@dataclass(frozen=True, kw_only=True)
class _State:
    """The state of a build: finished and wanted parts. Without the lock it may change at any time."""

    workshop: Workshop
    folders: Sequence[Path]
    done: Mapping[Path, Manifest | None]
    wanted: Sequence[str]
    configs: Sequence[str]
    complete: Collection[Path]

    @property
    def needs_parquet(self) -> bool:
        keep, tars = self.workshop.keep_parquet, self.workshop.tars
        return self.workshop.folder not in self.complete and (keep or tars not in self.complete)

    @property
    def needs_tars(self) -> bool:
        return self.workshop.tars in self.folders and self.workshop.tars not in self.complete


@dataclass(frozen=True, kw_only=True)
class _Build:
    """One process that builds a dataset, alone or with others."""

    reference: str
    recipe: Recipe
    out: Path
    format: Format
    bases: Sequence[str] | None
    configs: Collection[str]
    executor: Executor
    rank: Rank
    spools: str
    replace: bool
    keep_spool: bool
    quiet: bool
    #: Marks of datasets of this recipe that are to be replaced too.
    replaced: dict[Path, object] = field(default_factory=dict)

    def run(self, *, render_only: bool, wait: bool) -> Path:
        """Go on until the dataset is finished, or there is nothing left to do here."""
        while True:
            state = self.look()
            if renders := state.needs_parquet:
                self.spool.open({"dataset": self.recipe.name, "recipe_id": self.recipe.recipe_id()})
                renders = self.look().needs_parquet  # or was it packed, and the spool removed, just before?
            status = Reporter(self.spool, self.rank, self.recipe.recipe_id(), state.wanted, quiet=self.quiet)
            if renders:
                status.status.node = self._check_others()
            with status as reporter:
                rendered = self._render(state, reporter) if renders else None
                if renders and rendered is None:
                    self._await_finished()
                elif render_only or self._finish_alone(rendered, state.workshop, reporter, wait=wait):
                    return state.workshop.tars if self.format == "webdataset" else state.workshop.folder

    def look(self) -> _State:
        """See what is there."""
        recipe = self.recipe
        keep = self.format != "webdataset" or (self.out / NAMESPACE / recipe.name).exists()
        shop = Workshop(self.out, recipe.name, keep)
        folders = [shop.folder] if self.format == "parquet" else [shop.folder, shop.tars]
        done = {
            folder: earlier(folder, recipe, self.replaced.get(folder), replace=self.replace)
            for folder in folders
        }
        there = {folder: manifest for folder, manifest in done.items() if manifest is not None}
        wanted = wanted_bases(recipe, self.bases, list(there.values()))
        configs = self._wanted_configs(done.get(shop.folder), done.get(shop.tars))
        complete = {
            folder
            for folder, manifest in there.items()
            if is_complete(folder, manifest, [*wanted, *(configs if folder == shop.tars else ())])
        }
        return _State(
            workshop=shop, folders=folders, done=done, wanted=wanted, configs=configs, complete=complete
        )

    def _wanted_configs(self, parquet: Manifest | None, tars: Manifest | None) -> list[str]:
        """The canonical splits to end up with as tars; those that the data could not fill are none."""
        kept = {base.name for base in tars.bases if base.task} if tars else set()
        names = [protocol.config_name for protocol in self.recipe.protocols]
        return [
            name
            for name in names
            if name in {*self.configs, *kept} and (parquet is None or parquet.canonical(name))
        ]

    @cached_property
    def spool(self) -> Spool:
        """The spool of the blocks that today's code renders."""
        return Spool(f"{self.spools}/spool-{self.recipe.pixels_id()[:16]}")

    @property
    def _unit(self) -> str:
        return UNITS[self.recipe.encoding.modality]

    @cached_property
    def _content(self) -> tuple[Listed, dict[str, int]]:
        """The album's items, and their folds by origin; both are checked."""
        content = listed(self.recipe.album)
        items = content.items
        assign.check_items(self.recipe, items)
        fold_of = assign.folds(items)
        assign.check_splits(self.recipe, fold_of)
        check_protocols(self.recipe, items, fold_of)
        if not self.quiet:
            for line in (*content.warnings(), *self._near_duplicates(content)):
                _say(line)
        return content, fold_of

    def _near_duplicates(self, content: Listed) -> Iterator[str]:
        """Warn, once, of pictures that look like others, where they are files at hand."""
        if self.rank.number == 0 and isinstance(content.album, Files):
            yield from inspect(content.album, content.items).warnings()

    def _check_others(self) -> dict[str, str]:
        """Refuse to work beside processes that have other code or libraries; give those of this one."""
        node = node_versions(self.reference)
        for other in statuses(self.spool):
            if other.is_at_work and other.node and other.recipe_id == self.recipe.recipe_id():
                check_alike(f"this process works beside {other}, and", node, other.node)
        return node

    def _render(self, state: _State, reporter: Reporter) -> Rendered | None:
        """Render and score what is missing; None where the spool was removed meanwhile."""
        content, fold_of = self._content
        items = content.items
        plan = plan_blocks(self.recipe, state.wanted, items, fold_of)
        blocks = {block.id: block for of_base in plan.values() for block in of_base}

        def on_listed(done: Collection[str]) -> None:
            reporter.listed(sum(block.weight for name, block in blocks.items() if name in done))

        with reporter.phase("render", sum(block.weight for block in blocks.values()), self._unit):
            render(
                self.reference,
                list(blocks.values()),
                self.spool,
                self.executor,
                self.rank,
                on_done=lambda block: reporter.made(block.weight),
                on_listed=on_listed,
            )
        ids = {base: [block.id for block in of_base] for base, of_base in plan.items()}
        rendered = Rendered(
            recipe=self.recipe, content=content, fold_of=fold_of, spool=self.spool, blocks=ids
        )
        shifted = {name: block.items for name, block in blocks.items() if block.layer == "shift"}
        if self.recipe.filters is not None and self.spool.is_open():
            load = alike(partial(_filters, self.reference), partial(node_versions, self.reference))
            with reporter.phase("score", len(shifted), "block"):
                score(
                    load,
                    self.spool,
                    shifted,
                    lambda: _content(rendered),
                    self.executor,
                    self.rank,
                    on_done=reporter.made,
                    on_listed=reporter.listed,
                )
        return rendered if self.spool.is_open() else None

    def _await_finished(self) -> None:
        """Wait until a dataset is seen whose spool was removed."""
        until = time.monotonic() + PATIENCE
        while self.look().needs_parquet and time.monotonic() < until:
            time.sleep(1)

    def _finish_alone(
        self, rendered: Rendered | None, workshop: Workshop, reporter: Reporter, *, wait: bool
    ) -> bool:
        """Pack, while no other process does; False if not all is there after all.

        Without `wait` it is left to the other process, if there is one.
        """
        workshop.work.mkdir(parents=True, exist_ok=True)
        name, lock = self.recipe.name, workshop.work / "lock"
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(lock, f"another process is packing {name}"))
            except LockedError:
                _say(f"{self.rank}: another process packs {name}" + (", waiting for it" if wait else ""))
                if not wait:
                    return True
                with reporter.phase("wait", None, "s"):
                    stack.enter_context(locked(lock, "", wait=-1))
            return self._finish(rendered, workshop, reporter)

    def _finish(self, rendered: Rendered | None, workshop: Workshop, reporter: Reporter) -> bool:
        """Pack and tidy up, under the lock; False if not all is there after all."""
        workshop.finish_swap()
        state = self.look()
        workshop = state.workshop
        if state.needs_parquet:
            if rendered is None or not self._is_whole(rendered, state.wanted):
                return False
            try:
                self._pack(rendered, workshop, reporter)
            except UnscoredError:
                return False
        if state.needs_tars:
            self._export(workshop, state.configs, reporter)
        for folder, done in state.done.items():
            if done and folder in state.complete:
                _update_description(folder, done, self.recipe)
        if workshop.folder.exists():
            write_report(self.out, self.recipe, workshop.folder)
        if not workshop.keep_parquet:
            shutil.rmtree(workshop.folder, ignore_errors=True)
        if not self.keep_spool:
            self._remove_spools(state.wanted, reporter.status.token)
        return True

    def _is_whole(self, rendered: Rendered, wanted: Sequence[str]) -> bool:
        """Return True if the spool has everything that is to be packed."""
        if set(rendered.blocks) != set(wanted) or not self.spool.is_open():
            return False
        there = self.spool.listing()
        return not ({block for blocks in rendered.blocks.values() for block in blocks} - there.get("", set()))

    def _pack(self, rendered: Rendered, workshop: Workshop, reporter: Reporter) -> None:
        """Pack into a folder beside the finished one, then swap."""
        shutil.rmtree(workshop.fresh, ignore_errors=True)
        with reporter.phase("pack", None, self._unit):
            pack(rendered, workshop.fresh, reporter.made)
        workshop.swap()

    def _export(self, workshop: Workshop, wanted: Sequence[str], reporter: Reporter) -> None:
        """Write the finished dataset in WebDataset format; its Parquet files have every rendered byte."""
        manifest = Manifest.read(workshop.folder)
        configs = [base.name for base in manifest.bases] + [one for one in wanted if manifest.canonical(one)]
        rows = sum(split.rows for name in configs for split in manifest.splits_of(name).values())
        with reporter.phase("tars", rows, self._unit):
            export_tars(
                workshop.folder, workshop.tars, configs=configs, overwrite=True, on_samples=reporter.made
            )

    def _remove_spools(self, packed: Sequence[str], token: str) -> None:
        """Remove the spool, and those of other versions of the recipe, but those that others still need."""
        place = writable(self.spools)
        for folder in place.folders():
            if folder.startswith(("spool-", ".spool-")):
                spool = Spool(f"{self.spools}/{folder}")
                others = [status for status in statuses(spool) if status.token != token and status.is_at_work]
                if not any(self._needs(other, packed) for other in others):
                    spool.clear()

    def _needs(self, other: Status, packed: Sequence[str]) -> bool:
        """Return True if another process makes something that was not packed."""
        return other.recipe_id != self.recipe.recipe_id() or not set(other.bases) <= set(packed)


def _update_description(folder: Path, done: Manifest, recipe: Recipe) -> None:
    """Bring the description of a finished dataset, and its renderings, up to date with the recipe."""
    bases = [
        base if base.task else replace(base, summary=recipe.base(base.name).summary) for base in done.bases
    ]
    manifest = replace(done, **description_of(recipe), bases=bases)
    describe(folder, manifest)


def _checked(recipe: Recipe, made: Format, configs: Sequence[str]) -> list[str]:
    """The canonical splits that are asked for as tars."""
    names = [protocol.config_name for protocol in recipe.protocols]
    if configs and made == "parquet":
        raise InputError(
            f"configs={','.join(configs)} are for tars: build with the format webdataset or both"
        )
    for name in configs:
        if name not in [*names, ALL]:
            raise not_found("canonical split", name, [*names, ALL], f"It was asked of {recipe.name}.")
    return names if ALL in configs else list(configs)


def _filters(reference: str) -> Filters:
    filters = load_recipe(reference).filters
    if filters is None:
        raise InputError(f"the recipe {reference} changed while it was built: it has no filters any more")
    return filters


def _content(rendered: Rendered) -> Iterator[View]:
    """The untouched content, as it would be published."""
    for item in rendered.content.items:
        try:
            for sample in render_item(rendered.recipe, "content", item):
                picture = decoded(rendered.recipe.encoding.encode(sample))
                yield View(
                    key=sample.key, picture=picture, start=picture, label=item.label, origin=item.origin
                )
        except BadItem:
            continue  # counted where it is rendered


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
