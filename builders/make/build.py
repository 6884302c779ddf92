"""Build a dataset: render what is missing, pack, and put the whole into place in one move.

Any number of processes may build one dataset at once, over a shared folder. Each renders and scores blocks
into the spool; who sees that all are there packs, under a lock, and then removes the spool.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from builders.albums.reading import OfFiles, copies_of, read_once, with_copies
from builders.describe.renderings import describe, description_of
from builders.filters import Filters
from builders.filters.scorers import View
from builders.filters.scoring import UnscoredError, decoded, score
from builders.make import assign
from builders.make.assign import Folds
from builders.make.canonical import check_protocols
from builders.make.dropped import write_report
from builders.make.equal import Listed, listed
from builders.make.pack import Rendered, help_to_pack, pack
from builders.make.packing.plan import remove_plans
from builders.make.progress import Reporter, Status, forget, statuses
from builders.make.render import plan_blocks, render, render_item
from builders.make.workshop import Workshop, earlier, is_complete, mark, wanted_bases
from builders.objects import writable
from builders.parts import with_known
from builders.recipe import Recipe
from builders.recipe_files import load_recipe, node_versions
from builders.sample import BadItem
from builders.spool import Spool
from shiftdata.data.executors import ALONE, Executor, Here, Pool, Rank, alike, check_alike
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places.store import is_url
from shiftdata.errors import InputError, LockedError
from shiftdata.files import locked
from shiftdata.threads import available_cores

#: What progress counts.
UNITS: Mapping[str, str] = {"image": "img", "text": " texts", "table": " rows"}
#: Seconds to wait for a finished dataset whose spool has gone: NFS shows it late.
SEEN_WITHIN = 60.0
#: Seconds that a rank waits for the one that packs, before it looks again for jobs to do for it.
LOOK_INTERVAL = 2.0


def build(
    reference: str,
    out: Path = Path("build"),
    *,
    bases: Sequence[str] | None = None,
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
    to some of the recipe's bases; those of an earlier build stay. `executor` runs the costly half (default: a
    pool of `workers`). `replace` allows to overwrite the dataset of another recipe. `out/<name>_dropped.tsv`
    names what could not be used.

    Several processes may build one dataset at once: each as a `rank`, which renders its share of the blocks
    first, then what others have not rendered. They share `out` and the `spool` (a folder or a URL, by default
    in `out`). One of them packs; the others wait for it, unless not `wait`. With `render_only` none does.
    """
    recipe = load_recipe(reference)
    if reference.endswith(".py"):
        reference = str(Path(reference).absolute())  # processes on other nodes work in other folders
    workers = workers or available_cores()
    job = _Build(
        reference=reference,
        recipe=recipe,
        out=out,
        bases=bases,
        executor=executor or (Pool(workers) if workers > 1 else Here()),
        rank=rank or ALONE,
        spools=spools_of(spool, out, recipe.name),
        replace=replace,
        keep_spool=keep_spool,
        quiet=quiet,
    )
    if replace and rank is None:  # a rank that starts late must not build again what the others have built
        job.replaced = mark(job.workshop.folder)
    return job.run(render_only=render_only, wait=wait)


def spools_of(spool: str | Path | None, out: Path, name: str) -> str:
    """The folder or URL with all spools of a dataset."""
    if spool is None:
        return str(Workshop(out, name).work.absolute())
    return f"{str(spool).rstrip('/')}/{name}" if is_url(str(spool)) else str(Path(spool).absolute() / name)


@dataclass(frozen=True, kw_only=True)
class _State:
    """The state of a build. Without the lock it may change at any time."""

    done: Manifest | None  # of a finished dataset of this recipe
    wanted: Sequence[str]
    is_complete: bool


@dataclass(kw_only=True)
class _Build:
    """One process that builds a dataset, alone or with others."""

    reference: str
    recipe: Recipe
    out: Path
    bases: Sequence[str] | None
    executor: Executor
    rank: Rank
    spools: str
    replace: bool
    keep_spool: bool
    quiet: bool
    #: The mark of a dataset of this recipe that is to be replaced too.
    replaced: object = None
    #: The rows of all bases, if nothing is dropped.
    planned: int | None = None

    def run(self, *, render_only: bool, wait: bool) -> Path:
        """Go on until the dataset is finished, or there is nothing left to do here."""
        with Reporter(self.spools, self.rank, quiet=self.quiet) as reporter:
            self._read_files(reporter)
            while True:
                state = self.look()
                renders = not state.is_complete
                if renders:
                    self.spool.open({"dataset": self.recipe.name, "recipe_id": self.recipe.recipe_id()})
                    renders = not self.look().is_complete  # or was it packed, and the spool removed, by now?
                reporter.join(self.spool, self.recipe.recipe_id(), state.wanted)
                if renders:
                    reporter.status.node = self._check_others(reporter)
                rendered = self._render(state, reporter) if renders else None
                if renders and rendered is None:
                    self._await_finished()
                elif render_only or self._finish_alone(rendered, reporter, wait=wait):
                    return self.workshop.folder

    def _read_files(self, reporter: Reporter) -> None:
        """Read the album's raw files once, together with other ranks; from then on their copies are read."""
        album = self.recipe.album
        if isinstance(album, OfFiles):
            with reporter.phase("read", None, " files"):
                reads = read_once(
                    album,
                    self.spools,
                    self.workshop.work,
                    self.rank,
                    on_listed=reporter.listed,
                    on_files=reporter.made,
                )
            self.recipe = dataclasses.replace(self.recipe, album=with_known(album, reads=reads))

    def look(self) -> _State:
        """Compare what is there with what is wanted."""
        folder = self.workshop.folder
        done = earlier(folder, self.recipe, self.replaced, replace=self.replace)
        wanted = wanted_bases(self.recipe, self.bases, done)
        return _State(
            done=done, wanted=wanted, is_complete=done is not None and is_complete(folder, done, wanted)
        )

    @property
    def workshop(self) -> Workshop:
        return Workshop(self.out, self.recipe.name)

    @cached_property
    def spool(self) -> Spool:
        """The spool of the blocks that today's code renders."""
        return Spool(f"{self.spools}/spool-{self.recipe.pixels_id()[:16]}")

    @property
    def _unit(self) -> str:
        return UNITS[self.recipe.encoding.modality]

    @cached_property
    def _content(self) -> tuple[Listed, Folds]:
        """The album's items, and the fold of each; both are checked."""
        content = listed(self.recipe.album, self.workshop.work)
        items = content.items
        assign.check_items(self.recipe, items)
        fold_of = assign.folds(items)
        assign.check_splits(self.recipe, items, fold_of)
        check_protocols(self.recipe, items, fold_of)
        if not self.quiet:
            for line in content.warnings():
                _say(line)
        return content, fold_of

    def _check_others(self, reporter: Reporter) -> dict[str, str]:
        """Refuse to work with processes that have other code or libraries; return those of this one."""
        node, own = node_versions(self.reference), reporter.status
        for status in statuses(self.spools):
            is_beside = (status.spool, status.recipe_id) == (own.spool, own.recipe_id)
            if is_beside and status.is_at_work and status.node:
                check_alike(f"this process works with {status}, and", node, status.node)
        return node

    def _render(self, state: _State, reporter: Reporter) -> Rendered | None:
        """Render and score what is missing; None where the spool was removed meanwhile."""
        with reporter.phase("plan", None, ""):
            content, fold_of = self._content
            items = content.items
            plan = plan_blocks(self.recipe, state.wanted, items, fold_of)
        blocks = {block.id: block for of_base in plan.values() for block in of_base}
        self.planned = sum(block.weight for of_base in plan.values() for block in of_base)

        def on_listed(done: Collection[str]) -> None:
            reporter.listed(sum(block.weight for name, block in blocks.items() if name in done))

        with reporter.phase("render", sum(block.weight for block in blocks.values()), self._unit):
            render(
                self.recipe,
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
            recipe=self.recipe,
            content=content,
            fold_of=fold_of,
            spool=self.spool,
            blocks=ids,
            versions=partial(node_versions, self.reference),
        )
        shifted = [block for block in blocks.values() if block.layer == "shift"]
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
        until = time.monotonic() + SEEN_WITHIN
        while not self.look().is_complete and time.monotonic() < until:
            time.sleep(1)

    def _finish_alone(self, rendered: Rendered | None, reporter: Reporter, *, wait: bool) -> bool:
        """Pack, while no other process does; False if not all is there after all.

        Without `wait` it is left to the other process, if there is one.
        """
        self.workshop.work.mkdir(parents=True, exist_ok=True)
        name, lock = self.recipe.name, self.workshop.work / "lock"
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(lock, f"another process is packing {name}"))
            except LockedError:
                _say(f"{self.rank}: another process packs {name}" + (", waiting for it" if wait else ""))
                if not wait:
                    return True
                with reporter.phase("wait", None, "s"):
                    while not self._entered(stack, lock):
                        if rendered is not None:
                            help_to_pack(rendered, self.workshop.work, self.executor, self.rank)
            return self._finish(rendered, reporter)

    @staticmethod
    def _entered(stack: ExitStack, lock: Path) -> bool:
        """Wait for the lock for a while; return True once it is held."""
        try:
            stack.enter_context(locked(lock, "", wait=LOOK_INTERVAL))
        except LockedError:
            return False
        return True

    def _finish(self, rendered: Rendered | None, reporter: Reporter) -> bool:
        """Pack and tidy up, under the lock; False if not all is there after all."""
        workshop = self.workshop
        workshop.finish_swap()
        state = self.look()
        if state.done and state.is_complete:
            _update_description(workshop.folder, state.done, self.recipe)
        elif rendered is None or not self._is_whole(rendered, state.wanted):
            return False
        else:
            try:
                self._pack(rendered, workshop, reporter)
            except UnscoredError:
                return False
        remove_plans(workshop.work)
        write_report(self.out, self.recipe, workshop.folder)
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
        """Pack into a folder next to the finished one, then swap."""
        with reporter.phase("pack", self.planned, self._unit):
            pack(
                rendered,
                workshop.fresh,
                workshop.work,
                executor=self.executor,
                rank=self.rank,
                on_rows=reporter.made,
            )
        workshop.swap()

    def _remove_spools(self, packed: Sequence[str], token: str) -> None:
        """Remove the spool, and those of other versions of the recipe, but those that others still need."""
        place, others = writable(self.spools), statuses(self.spools)
        needed = {
            status.spool
            for status in others
            if status.token != token and status.is_at_work and self._needs(status, packed)
        }
        for folder in filter(is_spool, place.folders() - needed):
            Spool(f"{self.spools}/{folder}").clear()
        if not needed:
            for folder in place.folders():
                if folder.startswith("copies-"):
                    writable(f"{self.spools}/{folder}").clear()
            forget(place)
            for scratch in self.workshop.work.glob(".*-*"):  # of processes that were killed
                shutil.rmtree(scratch, ignore_errors=True)

    def _needs(self, other: Status, packed: Sequence[str]) -> bool:
        """Return True if another process makes something that was not packed."""
        return other.recipe_id != self.recipe.recipe_id() or not set(other.bases) <= set(packed)


def is_spool(folder: str) -> bool:
    """Return True for the name of a spool, or of what is left of one that was being removed."""
    return folder.startswith(("spool-", ".spool-"))


def _update_description(folder: Path, done: Manifest, recipe: Recipe) -> None:
    """Bring the description of a finished dataset, and its renderings, up to date with the recipe."""
    bases = [
        base if base.task else replace(base, summary=recipe.base(base.name).summary) for base in done.bases
    ]
    manifest = replace(done, **description_of(recipe), bases=bases)
    describe(folder, manifest)


def _filters(reference: str) -> Filters:
    filters = load_recipe(reference).filters
    if filters is None:
        raise InputError(f"the recipe {reference} changed while it was built: it has no filters now")
    return filters


def _content(rendered: Rendered) -> Iterator[View]:
    """The untouched content, as it would be published."""
    copies = copies_of(rendered.recipe.album)
    for item, data in with_copies(rendered.content.items, copies):
        try:
            for sample in render_item(rendered.recipe, "content", item, data):
                picture = decoded(rendered.recipe.encoding.encode(sample))
                yield View(
                    key=sample.key, picture=picture, start=picture, label=item.label, origin=item.origin
                )
        except BadItem:
            continue  # counted where it is rendered


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
