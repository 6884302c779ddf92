"""The progress of a build: each process leaves its own in the spool, and sees that of the others there."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any

from tqdm import tqdm

from builders.spool import Spool
from shiftdata.data.executors import Rank

FOLDER = "progress"
ENDED, STOPPED = "ended", "stopped"
#: Seconds between two signs of life, and without one until a process counts as lost: NFS shows them late.
BEAT, LOST = 5.0, 90.0
#: Seconds between two states of a bar that nobody watches, as in a log.
IN_LOG = 30.0


@dataclass(kw_only=True)
class Status:
    """The last sign of life of a process that takes part in a build."""

    token: str = field(default_factory=lambda: secrets.token_hex(4))
    rank: int
    world: int
    recipe_id: str
    bases: Sequence[str]
    #: What must be the same for all who fill a spool.
    node: dict[str, str] = field(default_factory=dict)
    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    seen: float = 0.0
    phase: str = "start"
    #: How it ended, if it did and said so.
    end: str = ""
    #: Made by this process in each phase.
    made: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world} ({self.host}, process {self.pid})"

    @property
    def is_at_work(self) -> bool:
        return not self.end and not self.is_lost

    @property
    def is_lost(self) -> bool:
        """True for a process that ended without saying so."""
        return not self.end and time.time() - self.seen > LOST


def statuses(spool: Spool) -> list[Status]:
    """Return the last status of each process that has worked on a spool."""
    names, found = {entry.name for entry in fields(Status)}, []
    for name in sorted(spool.files.listed(FOLDER)):
        with suppress(OSError, ValueError, TypeError):  # it may be removed just now
            raw = json.loads(spool.files.start(name))
            found.append(Status(**{key: value for key, value in raw.items() if key in names}))
    return found


class Reporter:
    """Shows the progress of all processes in a bar, and leaves that of this one where the others see it."""

    def __init__(
        self, spool: Spool, rank: Rank, recipe_id: str, bases: Sequence[str], *, quiet: bool
    ) -> None:
        self.spool, self.quiet = spool, quiet
        self.status = Status(rank=rank.number, world=rank.world, recipe_id=recipe_id, bases=list(bases))
        self._bar: tqdm[Any] = tqdm(disable=True)
        self._others: Counter[str] = Counter()
        self._at_listing = self._total = self._done = 0
        self._lock, self._end = Lock(), Event()
        self._thread = Thread(target=self._beat_on, daemon=True)

    def __enter__(self) -> Reporter:
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(BEAT)
        self.status.end = ENDED if error is None else STOPPED
        self._beat()

    @contextmanager
    def phase(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        """Show a phase, and count what is made in it."""
        status = self.status
        status.phase, self._total, self._done = name, total or 0, 0
        title = f"{name} ({status.rank} of {status.world})" if status.world > 1 else name
        interval = 0.1 if sys.stderr.isatty() else IN_LOG
        self.listed(0)
        with tqdm(
            total=total, desc=title, unit=unit, disable=self.quiet, smoothing=0.05, mininterval=interval
        ) as self._bar:
            self._beat()
            yield
            self._beat()

    def made(self, count: int | bool) -> None:
        """Count what this process made."""
        made = self.status.made
        made[self.status.phase] = made.get(self.status.phase, 0) + count
        self._show()

    def listed(self, done: int) -> None:
        """Say what all processes have made so far, by a listing of now."""
        self._look()
        self._at_listing = done - self._known()
        self._show()

    def _known(self) -> int:
        phase = self.status.phase
        return self.status.made.get(phase, 0) + self._others[phase]

    def _show(self) -> None:
        with self._lock:
            done = self._at_listing + self._known()
            self._done = max(self._done, min(done, self._total) if self._total else done)
            self._bar.update(self._done - self._bar.n)

    def _look(self) -> None:
        """Count what the others made."""
        counted: Counter[str] = Counter()
        for other in statuses(self.spool):
            if other.token != self.status.token:
                counted.update(other.made)
        self._others = counted

    def _beat_on(self) -> None:
        while not self._end.wait(BEAT):
            self._look()
            self._show()
            self._beat()

    def _beat(self) -> None:
        """Give a sign of life; no trouble with it ends a build."""
        status = self.status
        status.seen = time.time()
        with suppress(OSError):
            if self.spool.is_open():
                self.spool.files.write(f"{FOLDER}/{status.token}.json", json.dumps(asdict(status)).encode())
