"""Publish a dataset: check it, compare the place, send, look at it again, and list the place in a catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builders.describe.renderings import write_without_pixels
from builders.publish.checks import refuse_unchecked, refuse_withheld, rows_by_terms
from builders.publish.folder import FolderTarget
from builders.publish.hub import HubTarget, RepoOptions
from builders.publish.objects import ObjectTarget
from builders.publish.plain_errors import in_plain_words
from builders.publish.target import Changes, Source, Target
from builders.recipe import Recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places.catalog import Catalog, Entry
from shiftdata.data.places.hubs import HubRepo
from shiftdata.data.places.remote import filesystem
from shiftdata.data.places.search import NAMESPACE
from shiftdata.data.places.signatures import SUFFIX, SecretKey
from shiftdata.data.places.store import OnBytes, is_url
from shiftdata.errors import InputError
from shiftdata.files import absolute, locked
from shiftdata.stable import content_hash

SERVER = re.compile(r"(?P<server>https?://[^/]+)(?P<repo>/.+)?")


def target_of(to: str, name: str, work: Path, options: RepoOptions, web: str | None = None) -> Target:
    """The place that an address names, for the dataset of that name; `work` is for notes on this machine.

    `web` is where readers find the place, for one that does not say it itself.
    """
    user, at, _ = to.partition("://")[2].partition("/")[0].rpartition("@")
    if at and ":" in user:  # journals and catalogs would show it
        raise InputError(
            "the address contains a password: leave it out, and keep it where the tool of that kind of place "
            "looks for it (environment, configuration file)"
        )
    if web is not None:
        if not re.fullmatch(r"https?://[^/\s\"\\]+(/[^\s\"\\]*)?", web):
            raise InputError(f"--web is an address such as https://data.lab/shift, got {web!r}")
        web = _with_name(web, name)
    if (repo := _hub_repo(to, name)) is not None:
        if web is not None:
            raise InputError(f"--web is for folders and buckets; {to} is on a Hub, which has its own address")
        return HubTarget(repo, options)
    if options.private or options.gated:
        raise InputError(f"--private and --gated are for repos on a Hub; {to} is not one")
    if to.startswith(("file://", "local://")):
        to = filesystem(to)[1]
    if is_url(to):
        return ObjectTarget(_with_name(to, name), work, web)
    return FolderTarget(Path(_with_name(str(absolute(to)), name)), web)


def _with_name(to: str, name: str) -> str:
    """A place for one dataset: the address itself where it ends in its name, else that name below it."""
    if to.endswith("://"):  # the root of a file system
        return to + name
    plain = to.rstrip("/")
    return plain if plain.split("/")[-1] == name else f"{plain}/{name}"


def _hub_repo(to: str, name: str) -> HubRepo | None:
    """The repo on a Hub; the address of a Hub alone means its repo `shift/<name>`."""
    default = f"{NAMESPACE}/{name}"
    if to.startswith("hf://"):
        path = to.removeprefix("hf://").strip("/").removeprefix("datasets/")
        return HubRepo.parse(f"hf://datasets/{path or default}")
    match = SERVER.fullmatch(to.removeprefix("hf+").rstrip("/"))
    if match is None:
        return None
    return HubRepo.parse(f"hf+{match['server']}{match['repo'] or f'/datasets/{default}'}")


#: Notes on this machine: passed checks, and what was sent where. Without them nothing is lost but time.
WORK = Path("build") / ".work" / "publish"
NAME_DIGITS = 16


@dataclass(frozen=True)
class Publication:
    """A dataset that may be published, the place, and what is to be done there."""

    source: Source
    target: Target
    changes: Changes
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
        web: str | None = None,
        sign: SecretKey | None = None,
        work: Path = WORK,
        on_file: Callable[[str], object] = lambda path: None,
    ) -> Publication:
        """Check the dataset and its licences, and compare it with the place `to`. Nothing is changed there.

        A `recipe` is needed if it is not one of this package. Licences in `allowed` are published though they
        are not known to allow it. `web` is where readers find a folder or bucket, if the place itself does
        not say it. The key `sign` signs the manifest.
        """
        options = options or RepoOptions()
        built = Manifest.read(folder)
        if built.publishes == "nothing":
            raise InputError(
                f"{built.name} is not published, nor its keys and splits: its examples are given to named "
                f"persons ({built.license}). Share the recipe, which others build from their own copy, and "
                f"the card {folder / 'README.md'}: it has counts and no row. Builds are compared by their "
                f"content_id, here {built.content_id}"
            )
        if built.publishes == "splits" and built.pixels_included:
            refuse_unchecked(folder, recipe, work, on_file=on_file)
            folder = write_without_pixels(folder, work / "without_pixels" / built.name)
        target = target_of(to, Manifest.read(folder).name, work, options, web)
        remembered = refuse_unchecked(folder, recipe, work, on_file=on_file)
        source = Source.read(folder)
        if source.manifest.pixels_included:
            notes = refuse_withheld(source.manifest, rows_by_terms(source), allowed)
        else:
            notes = ["its examples are not published: the card says how to build them"]
        if remembered:
            notes.append("checked before, and nothing changed since")
        with in_plain_words(target.address, options.token):
            source = source.at(target.web, work)
            source = source.signed(sign, work) if sign else source
            changes = target.compare(source)
        return cls(source, target, changes, tuple(notes), work, options)

    def lines(self, every_file: bool = False) -> Iterator[str]:
        yield f"{self.source.version}, to {self.target.address}"
        yield from self.changes.lines(self.source, every_file)
        yield from (f"  note: {note}" for note in self.notes)

    def carry_out(self, *, catalog: Path | None = None, on_bytes: OnBytes = lambda count: None) -> list[str]:
        """Send what changed, read it back, list the place in a catalog; return what was done."""
        if catalog is not None:
            _entries(catalog)  # one that cannot be read is an error before anything is sent
        with self._alone(), in_plain_words(self.target.address, self.options.token):
            damaged = self.target.damaged(self.source, self.changes)
            changes = self.changes.sending_again(self.source, damaged)
            if not changes.none:
                self.target.apply(self.source, changes, on_bytes)
            self.target.finish(self.source)
        done = [self._summary(changes)]
        if damaged:
            done.append(f"these were damaged there, and were sent again: {', '.join(damaged)}")
        if catalog is not None:
            done.append(_list_place(catalog, self.source, self.target.address))
        return done

    def _summary(self, changes: Changes) -> str:
        address = self.target.address
        if changes.none:
            return f"{address}: nothing to send, all {len(changes.same)} files are there"
        sent = f"{len(changes.uploads)} files published ({changes.bytes / 1e6:,.1f} MB) and read back"
        return f"{address}: {sent}, {len(changes.same)} were there, {len(changes.deleted)} deleted"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One publication to a place at a time from this machine; the lock goes with its process."""
        self.work.mkdir(parents=True, exist_ok=True)
        lock = self.work / f"{content_hash(self.target.address)[:NAME_DIGITS]}.lock"
        with locked(lock, f"another process is publishing to {self.target.address}: wait for it to end"):
            yield


def _entries(catalog: Path) -> dict[str, Entry]:
    """The entries of a catalog; of one that does not exist yet, none."""
    return dict(Catalog.read(catalog).entries) if catalog.exists() else {}


def _list_place(catalog: Path, source: Source, address: str) -> str:
    """Add a place to the entry of a dataset; places of another version go. Returns what was done."""
    name, sha256, entries = source.manifest.name, source.manifest_hash, _entries(catalog)
    earlier = entries.get(name, Entry(sha256, ()))
    places = dict.fromkeys([*(earlier.places if earlier.manifest == sha256 else ()), address])
    entries[name] = Entry(sha256, tuple(places))
    Catalog(entries).write(catalog)
    gone = [place for place in earlier.places if place not in places]
    dropped = f"; dropped, as of another version: {', '.join(gone)}" if gone else ""
    if Path(f"{catalog}{SUFFIX}").exists():
        dropped += f"; its signature is of the earlier one: shiftdata catalog sign {catalog} ..."
    return f"{catalog}: {name} is at {', '.join(entries[name].places)}{dropped}"
