"""One view of all processes that build a dataset, from the signs of life that they leave."""

from __future__ import annotations

import time
from collections.abc import Sequence

from builders.make.progress import Phase, Status

#: The phases with something to count, in their order; others are shown for a process alone.
COUNTED = ("read", "render", "score", "pack")
#: The units of a duration, in seconds, and how many of each are better said in the next.
UNITS = ((1, "s", 120), (60, "min", 120), (3600, "h", 48), (86400, "days", float("inf")))


def overview(signs: Sequence[Status]) -> list[str]:
    """Describe each process in a line, and then each phase of all of them."""
    return [*_aligned([_cells(sign) for sign in sorted(signs, key=_order)]), *_whole(signs)]


def _order(sign: Status) -> tuple[int, str, int]:
    return sign.rank, sign.host, sign.pid


def _cells(sign: Status) -> list[str]:
    """Return rank, host, process, phase, what it made, its rate, and its last sign of life."""
    phase = sign.phases[-1] if sign.phases else Phase(name="", unit="")
    counts = phase.name in COUNTED
    ago = duration(max(0.0, time.time() - sign.seen))
    life = f"seen {ago} ago" if sign.is_at_work else f"ended {ago} ago" if sign.ended else f"LOST {ago} ago"
    rate = f"{phase.rate:,.1f} {phase.unit}/s" if counts and sign.is_at_work else ""
    made = f"{phase.made:,} {phase.unit}" if counts else ""
    rank = f"rank {sign.rank} of {sign.world}" if sign.world > 1 else "alone"
    return [rank, sign.host, f"process {sign.pid}", phase.name, made, rate, life]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _whole(signs: Sequence[Status]) -> list[str]:
    """Describe each phase of those that fill the latest spool, and those that have none yet."""
    spool = max(signs, key=lambda sign: (sign.spool != "", sign.seen)).spool if signs else ""
    team = [sign for sign in signs if sign.spool in ("", spool)]
    lines = []
    for name in COUNTED:
        at_work = [sign.phases[-1] for sign in team if sign.is_at_work and sign.phases[-1:]]
        phases = [phase for sign in team for phase in sign.phases if phase.name == name]
        if phases:
            rate = sum(phase.rate for phase in at_work if phase.name == name)
            lines.append(f"all: {name} {_progress(phases, rate)}")
    return lines


def _progress(phases: Sequence[Phase], rate: float) -> str:
    """Say what is made of all, and how long the rest takes at the rate of those at work."""
    first, unit = min(phases, key=lambda phase: phase.since), phases[0].unit
    # A listing may be old, and what a process made shortly before it was killed is in no sign of life.
    done = max(first.found + sum(phase.made for phase in phases), *(phase.done for phase in phases))
    total = max((phase.total or 0 for phase in phases), default=0)
    if not total:
        return f"{done:,} {unit}"
    done = min(done, total)
    text = f"{done:,} of {total:,} {unit} ({done / total:.0%})"
    if rate > 0 and done < total:
        text += f", {rate:,.1f} {unit}/s, about {duration((total - done) / rate)} left"
    return text


def duration(seconds: float) -> str:
    """Return a duration in the unit that leaves few digits."""
    size, unit = next((size, unit) for size, unit, most in UNITS if seconds < size * most)
    return f"{seconds / size:.0f} {unit}"
