"""The progress of a build, and the signs of life that each process leaves next to the spools."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from tqdm import tqdm

from builders.objects import Writable, writable
from builders.spool import Spool
from shiftdata.data.executors import Rank
from shiftdata.progress import in_notebook, progress
from shiftdata.untrusted.texts import read_json

FOLDER = "progress"
#: Seconds between two signs of life, and until a process without one counts as lost: NFS shows them late.
BEAT, LOST = 5.0, 90.0
#: Signs of life over which a rate is measured: a minute.
RECENT = 13
#: Seconds between two states of a bar that nobody watches, as in a log.
IN_LOG = 30.0


@dataclass(kw_only=True)
class Phase:
    """A phase of a build in one process."""

    name: str
    unit: str
    #: All that is to be made, by all processes; None where that is not known.
    total: int | None = None
    since: float = field(default_factory=time.time)
    #: By this process, and by it a second of late.
    made: int = 0
    rate: float = 0.0
    #: By all processes: when this one looked first, and now as far as it knows.
    found: int = 0
    done: int = 0


def _namespace() -> str:
    """Name the boot and the namespace in which process numbers count; "" where the system names none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


@dataclass(kw_only=True)
class Status:
    """The last sign of life of a process that takes part in a build."""

    token: str = field(default_factory=lambda: secrets.token_hex(4))
    rank: int
    world: int
    #: The folder of its spool, the recipe and the bases are known once raw files are read.
    spool: str = ""
    recipe_id: str = ""
    bases: Sequence[str] = ()
    #: What must be the same for all who fill a spool.
    node: dict[str, str] = field(default_factory=dict)
    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    namespace: str = field(default_factory=_namespace)
    #: In the order in which they began.
    phases: list[Phase] = field(default_factory=list)
    seen: float = 0.0
    ended: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world} ({self.host}, process {self.pid})"

    @property
    def is_at_work(self) -> bool:
        """False for a process that ended, whether it left word or not."""
        return not self.ended and time.time() - self.seen <= LOST and not self._is_gone

    @property
    def _is_gone(self) -> bool:
        """Return True for a process of this machine that does not exist any more."""
        is_here = self.namespace != "" and self.namespace == _namespace()
        return is_here and not Path(f"/proc/{self.pid}").exists()

    @classmethod
    def read(cls, data: bytes) -> Status:
        """Read a sign of life; fields of another version of this code are left out."""
        raw = _known(cls, read_json(data))
        return cls(**raw | {"phases": [Phase(**_known(Phase, phase)) for phase in raw.get("phases", ())]})


def _known(kind: type[Any], raw: dict[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in fields(kind)}
    return {name: value for name, value in raw.items() if name in names}


def statuses(spools: str | Path) -> list[Status]:
    """Return the last status of each process that has worked on a dataset with these spools."""
    place, read = writable(spools), []
    for name in sorted(place.listed(FOLDER)):
        with suppress(OSError, ValueError, TypeError, AttributeError):  # it may be removed just now
            read.append(Status.read(place.start(name)))
    return read


def forget(place: Writable, token: str | None = None) -> None:
    """Remove the sign of life of one process, or of all, and the folder once it is empty."""
    for name in [f"{FOLDER}/{token}.json"] if token else place.listed(FOLDER):
        place.delete(name)
    if place.folder is not None:
        with suppress(OSError):
            (place.folder / FOLDER).rmdir()


class Reporter:
    """Shows the progress in a bar, and leaves signs of life where other processes see them.

    They begin with the first phase. Once the process has a spool, they are left while that is in use.
    """

    def __init__(self, spools: str, rank: Rank, *, quiet: bool) -> None:
        self.place, self.quiet = writable(spools), quiet
        self.status = Status(rank=rank.number, world=rank.world)
        self._spool: Spool | None = None
        self._bar: tqdm[Any] = progress("", None, "", quiet=True)
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._lock, self._end = Lock(), Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._end.set()
        self._thread.join(BEAT)
        self.status.ended = True
        with suppress(OSError):
            if self._spool is not None and self._spool.is_open():
                self._beat()
            else:  # what it made is packed, or was not begun
                forget(self.place, self.status.token)

    def join(self, spool: Spool, recipe_id: str, bases: Sequence[str]) -> None:
        """Say on which spool this process works, for which recipe and bases."""
        self._spool, status = spool, self.status
        status.spool = spool.files.address.rpartition("/")[2]
        status.recipe_id, status.bases = recipe_id, list(bases)

    @contextmanager
    def phase(self, name: str, total: int | None, unit: str) -> Iterator[None]:
        """Show a phase, and count what is made in it; one without a unit has no bar."""
        rank, world = self.status.rank, self.status.world
        title = f"{name} ({rank} of {world})" if world > 1 else name
        interval = 0.1 if sys.stderr.isatty() or in_notebook() else IN_LOG
        options: dict[str, Any] = {
            "disable": self.quiet or not unit,
            "unit_scale": False,
            "smoothing": 0.05,
            "mininterval": interval,
        }
        with self._lock:
            self._recent.clear()
            before = [phase for phase in self.status.phases if phase.name != name]
            self.status.phases = [*before, Phase(name=name, unit=unit.strip(), total=total)]
        self._beat()
        if self._thread is None:
            self._thread = Thread(target=self._beat_on, daemon=True)
            self._thread.start()
        with progress(title, total, unit, **options) as self._bar:
            yield

    def made(self, count: int | bool) -> None:
        """Count what this process made."""
        phase = self.status.phases[-1]
        phase.made += count
        phase.done += count
        self._bar.update(count)

    def listed(self, done: int, total: int | None = None) -> None:
        """Show what all processes have made so far, by a listing of now, and what is to be made."""
        phase = self.status.phases[-1]
        if total is not None:
            phase.total = self._bar.total = total
        if not phase.made:
            phase.found = done
        self._bar.update(max(0, done - phase.done))
        phase.done = max(phase.done, done)

    def _beat_on(self) -> None:
        while not self._end.wait(BEAT):
            self._beat()

    def _beat(self) -> None:
        """Give a sign of life; no trouble with it ends a build."""
        with self._lock:
            status, phase = self.status, self.status.phases[-1]
            status.seen = time.time()
            self._recent.append((status.seen, phase.made))
            began, before = self._recent[0]
            phase.rate = (phase.made - before) / (status.seen - began) if status.seen > began else 0.0
            data = json.dumps(asdict(status)).encode()
        with suppress(OSError):
            if self._spool is None or self._spool.is_open():
                self.place.write(f"{FOLDER}/{status.token}.json", data)
