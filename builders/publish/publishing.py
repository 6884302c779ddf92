"""Publish a dataset: check it, plan, send, look at it again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from builders.publish.checking import refuse_unchecked
from builders.publish.faults import told_plainly
from builders.publish.hub import RepoOptions
from builders.publish.listing import entries_of, list_place
from builders.publish.plan import Plan, Target, Tell, Verify
from builders.publish.source import Source
from builders.publish.targets import target_of
from builders.publish.terms import refuse_withheld
from builders.recipe import Recipe
from shiftdata.errors import StorageError
from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.manifest import Manifest
from shiftdata.stable import content_hash

#: Notes on this machine: passed checks, and what was sent where. Without them nothing is lost but time.
WORK = Path("build") / ".work" / "publish"
NAME_DIGITS = 16


@dataclass(frozen=True)
class Publication:
    """A dataset that may be published, the place, and what is to be done there."""

    source: Source
    target: Target
    plan: Plan
    notes: tuple[str, ...]
    work: Path
    options: RepoOptions

    @classmethod
    def prepare(
        cls,
        folder: Path,
        to: str,
        *,
        recipe: Recipe | None = None,
        allowed: Collection[str] = (),
        options: RepoOptions | None = None,
        recheck: bool = False,
        work: Path = WORK,
        on_file: Callable[[str], object] = lambda path: None,
    ) -> Publication:
        """Check the dataset and its licences, and compare it with the place. Nothing is changed there.

        Args:
            folder: the built dataset.
            to: a folder, a URL, or a repo on a Hub (`target_of`).
            recipe: the recipe that it was built from, if it is none of the house.
            allowed: licences that may be published though they are not known to allow it.
            options: what is asked of a repo on a Hub.
            recheck: do not trust a check that passed before.
            work: where notes on this machine are kept.
            on_file: called with each file that is checked.

        """
        options = options or RepoOptions()
        target = target_of(to, Manifest.read(folder).name, work, options)
        spared = refuse_unchecked(folder, recipe, work, recheck=recheck, on_file=on_file)
        source = Source.read(folder)
        notes = refuse_withheld(source.name, source.rows_by_terms(), allowed)
        if ATTRIBUTION not in source.files:
            notes.append(f"it has no {ATTRIBUTION}, as it was built by an earlier version: build it again")
        if spared:
            notes.append("checked before, and nothing changed since (--recheck checks again)")
        with told_plainly(target.address, [options.token]):
            plan = target.plan(source)
        return cls(source, target, plan, tuple(notes), work, options)

    def lines(self, every_file: bool = False) -> Iterator[str]:
        """What is printed of it before anything is done."""
        manifest = self.source.manifest
        named = f"{manifest.name} {manifest.version}, content {manifest.content_id[:16]}"
        yield f"{named}, to {self.target.address}"
        yield from self.plan.lines(self.source, every_file)
        yield from (f"  note: {note}" for note in self.notes)

    def carry_out(
        self, *, verify: Verify = "hash", catalog: Path | None = None, tell: Tell = lambda count: None
    ) -> list[str]:
        """Send what is to be sent, look at it again, and put the place into a catalog; give what was done."""
        if catalog is not None:
            entries_of(catalog)  # one that cannot be read is better found now
        told = told_plainly(self.target.address, [self.options.token])
        with self._alone(), told:
            revision = self.plan.revision
            if not self.plan.idle:
                revision = self.target.carry_out(self.source, self.plan, verify, tell)
            more = self.target.finish(self.source, revision)
        done = [self._said(verify), *([more] if more else [])]
        if catalog is not None:
            source = self.source
            done.append(list_place(catalog, source.name, source.manifest_hash, self.target.address))
        return done

    def _said(self, verify: Verify) -> str:
        plan, address = self.plan, self.target.address
        if plan.idle:
            return f"{address}: nothing to send, all {len(plan.same)} files are there"
        seen = "compared by their hashes" if verify == "hash" else "compared by their sizes"
        sent = f"{len(plan.uploads)} files published ({plan.bytes / 1e6:,.1f} MB) and {seen}"
        return f"{address}: {sent}, {len(plan.same)} were there, {len(plan.deleted)} deleted"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One publication to a place at a time from this machine; the lock goes with its process."""
        self.work.mkdir(parents=True, exist_ok=True)
        lock = self.work / f"{content_hash(self.target.address)[:NAME_DIGITS]}.lock"
        try:
            with FileLock(lock, timeout=0):
                yield
        except Timeout as error:
            raise StorageError(
                f"another process is publishing to {self.target.address}: wait for it to end"
            ) from error
