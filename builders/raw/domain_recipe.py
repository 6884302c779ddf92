"""What the recipes of public domain datasets have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from builders.encode import FileEncoding
from builders.raw.album import RawAlbum
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from shiftdata.data.format.front_matter import MOST_VIRTUAL
from shiftdata.evaluation.protocols import UDA, DomainBed, HoldOut, LeaveOneDomainOut, Protocol

RELEASED = "2026-11-22"
#: DomainBed's three trials.
TRIAL_SEEDS = (0, 1, 2)


def domain_recipe(
    *,
    album: RawAlbum,
    domains: Sequence[str],
    title: str,
    summary: str,
    creators: Sequence[str],
    citation: str,
    pairs: Sequence[tuple[str, str]] | None = None,
    first: Sequence[Protocol] = (),
    more: Sequence[Protocol] = (),
    in_domainbed: bool = False,
) -> Recipe:
    """A dataset of whole domains, with the authors' files and without leave to publish them.

    Each domain is left out once, by both protocols that papers use; `pairs` are the sources and targets of
    adaptation, by default all. `first` are protocols that matter more, `more` some that matter less.
    `in_domainbed` adds the cuts of the two codes, by the files.
    """
    pairs = list(permutations(domains, 2)) if pairs is None else pairs
    return Recipe(
        name=album.name,
        family="domain",
        version="1.0.0",
        released=RELEASED,
        creators=tuple(creators),
        title=title,
        summary=summary,
        citation=citation,
        album=album,
        nuisance="domain",
        shift=Domains(names=tuple(domains)),
        encoding=FileEncoding(),
        bases=(Base(name="all", summary="Every picture of every domain."),),
        default_base="all",
        protocols=(
            *first,
            *(LeaveOneDomainOut(test=domain) for domain in domains),
            *(DomainBed(test=domain) for domain in domains),
            *more,
            *(cuts_of_codes(domains) if in_domainbed else ()),
            *(UDA(source=source, target=target) for source, target in pairs),
        ),
        virtual=min(len(first) + len(domains), MOST_VIRTUAL // 3),  # a set of each of three is a config
        on_empty="report",
        publishes="splits",
    )


def cuts_of_codes(
    domains: Sequence[str], groups: Sequence[Sequence[str]] | None = None
) -> tuple[Protocol, ...]:
    """What DomainBed cuts by its trial seeds, and DomainBed-v2 of its lists, testing one domain or group."""
    by_seed = (DomainBed(variant="code", test=one, seed=seed) for one in domains for seed in TRIAL_SEEDS)
    tested = groups or [(domain,) for domain in domains]
    return (*by_seed, *(HoldOut(variant="code", test=tuple(one)) for one in tested))
