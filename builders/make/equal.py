"""Equal content is one origin, whatever its files are called: found when an album is listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from builders.albums import Album, Hashed, LeavesOut
from builders.sample import Item
from shiftdata.data.format.names import shown
from shiftdata.data.format.records import EqualContent

MOST_SETS = 3  # that a message names
MOST_ITEMS = 4  # of a set


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The items of an album, with one origin for equal content; `equal` has each set of such items."""

    album: Album
    items: tuple[Item, ...]
    equal: Sequence[tuple[Item, ...]]

    @property
    def counts(self) -> EqualContent:
        """Count equal content for the manifest and the card."""
        return EqualContent(
            items=sum(map(len, self.equal)),
            sets=len(self.equal),
            labels=len(self._conflicts),
            nuisances=sum(len({item.nuisance for item in members}) > 1 for members in self.equal),
        )

    @property
    def _conflicts(self) -> Sequence[tuple[Item, ...]]:
        return [members for members in self.equal if len({item.label for item in members}) > 1]

    def warnings(self) -> Iterator[str]:
        """Name equal content for its owner before a build, and what to do."""
        counts = self.counts
        if counts.sets:
            yield (
                f"note: equal bytes: {counts.items:,} items are {counts.sets:,} when each counts once, "
                f"such as {self._named(self.equal[0])}; equal items share an origin, and so a split"
            )
        if self._conflicts:
            named = "; ".join(map(self._named, self._conflicts[:MOST_SETS]))
            yield (
                f"warning: equal bytes under several labels ({counts.labels:,}): {named}. Where only one "
                "label can be right, keep that item and delete the others. Observations that may differ can "
                "stay: no split leaks, but a model sees different labels for one input"
            )

    def _named(self, members: Sequence[Item]) -> str:
        """Name some items of a set with their labels, those of other labels first."""
        first = list({item.label: item for item in reversed(members)}.values())
        others = [item for item in members if item not in first]
        chosen = sorted([*first, *others][:MOST_ITEMS], key=lambda item: item.key)
        names = [f"{self._place(item)} ({shown(item.label)})" for item in chosen]
        more = f" and {len(members) - len(chosen):,} more" if len(members) > len(chosen) else ""
        return " = ".join(names) + more

    def _place(self, item: Item) -> str:
        return shown(self.album.place(item)) if isinstance(self.album, LeavesOut) else item.key


def listed(album: Album) -> Listed:
    """List an album, each connected component of given origins and equal content as one origin.

    The origin is named as the first of those it joins, so that the order of the items does not matter.
    """
    items = album.items()
    digests = album.digests() if isinstance(album, Hashed) else {}
    sets: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        # Those of a scale are named by their origin, and strong shifts make equal ones by chance.
        if item.severity is None and (digest := digests.get(item.key)):
            sets[digest].append(item)
    equal = sorted(
        (tuple(members) for members in sets.values() if len(members) > 1), key=lambda members: members[0].key
    )
    name = _joined(equal)
    items = tuple(_renamed(item, name) for item in items)
    return Listed(
        album=album, items=items, equal=[tuple(_renamed(item, name) for item in of) for of in equal]
    )


def _joined(equal: Sequence[Sequence[Item]]) -> Mapping[str, str]:
    """The first origin that each origin is joined with."""
    parent: dict[str, str] = {}

    def first(origin: str) -> str:
        while (above := parent.setdefault(origin, origin)) != origin:
            parent[origin] = parent.setdefault(above, above)  # halves the way for the next search
            origin = above
        return origin

    for members in equal:
        for item in members[1:]:
            low, high = sorted((first(members[0].origin), first(item.origin)))
            parent[high] = low
    return {origin: first(origin) for origin in list(parent)}


def _renamed(item: Item, name: Mapping[str, str]) -> Item:
    origin = name.get(item.origin, item.origin)
    return item if origin == item.origin else replace(item, origin=origin)
