"""What a publication will do to a place, worked out before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from builders.publish.source import Source
from shiftdata.format.manifest import FileRecord

#: How a file that was sent is looked at again: all of its bytes, or only how many there are.
Verify: TypeAlias = Literal["hash", "size"]
Tell: TypeAlias = Callable[[int], object]

MOST_FOREIGN = 5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The changes of a place.

    `uploads` are in the order in which they are sent, and `changed` are those of them that replace a file.
    `foreign` files lie there and are not of this dataset: they stay. `revision` is the commit that the plan
    was made for, where a place has commits.
    """

    uploads: tuple[str, ...]
    changed: frozenset[str]
    same: tuple[str, ...]
    deleted: tuple[str, ...]
    foreign: tuple[str, ...]
    bytes: int
    revision: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def idle(self) -> bool:
        """Whether the place holds the dataset already."""
        return not self.uploads and not self.deleted

    def lines(self, source: Source, every_file: bool) -> Iterator[str]:
        """What is printed of it."""
        new = [path for path in self.uploads if path not in self.changed]
        for word, paths in (("new", new), ("changed", sorted(self.changed)), ("the same", self.same)):
            size = sum(source.files[path].bytes for path in paths)
            yield f"  {word:<10}{len(paths):>6,} files {size / 1e6:>10,.1f} MB"
        yield f"  {'to delete':<10}{len(self.deleted):>6,} files"
        if every_file:
            for path in self.uploads:
                sign = "~" if path in self.changed else "+"
                yield f"    {sign} {path} ({source.files[path].bytes:,} bytes)"
            yield from (f"    - {path}" for path in self.deleted)
        if self.foreign:
            more = len(self.foreign) - MOST_FOREIGN
            named = ", ".join(self.foreign[:MOST_FOREIGN]) + (f" and {more:,} more" if more > 0 else "")
            yield f"  not of this dataset, left alone: {named}"
        yield from (f"  note: {note}" for note in self.notes)


class Target(Protocol):
    """A place that datasets are published to."""

    @property
    def address(self) -> str:
        """How readers name it: in a catalog, or in `shiftdata verify`."""

    def plan(self, source: Source) -> Plan:
        """Compare the place with the dataset; nothing is changed."""

    def carry_out(self, source: Source, plan: Plan, verify: Verify, tell: Tell) -> str | None:
        """Send what is to be sent, data first and the manifest last, and look at it again.

        Give the commit that it made, where the place has commits.
        """

    def finish(self, source: Source, revision: str | None) -> str:
        """What is left to do for a place that holds the dataset, if anything; give what was done."""


def compare(
    source: Source,
    there: Collection[str],
    is_same: Callable[[str, FileRecord], bool],
    owned: Collection[str],
    *,
    revision: str | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:
    """The plan for a place that holds the files `there`, of which only those in `owned` may be deleted."""
    same = tuple(path for path, record in source.files.items() if path in there and is_same(path, record))
    uploads = tuple(path for path in source.files if path not in set(same))
    left = sorted(path for path in there if path not in source.files)
    return Plan(
        uploads=uploads,
        changed=frozenset(uploads) & frozenset(there),
        same=same,
        deleted=tuple(path for path in left if path in owned),
        foreign=tuple(path for path in left if path not in owned and not _hidden(path)),
        bytes=sum(source.files[path].bytes for path in uploads),
        revision=revision,
        notes=notes,
    )


def _hidden(path: str) -> bool:
    """Whether a file is of a tool's keeping, such as `.gitattributes`."""
    return any(part.startswith(".") for part in path.split("/"))
