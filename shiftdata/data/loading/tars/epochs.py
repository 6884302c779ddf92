"""Which epoch an iteration is, known to every process that has a copy of a pipeline."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from shiftdata.files import locked

#: Seconds to wait for another worker that takes its epoch.
PATIENCE = 30.0
#: Iterations of workers that are remembered: those of several loaders at once, and no more.
REMEMBERED = 16


class Epochs:
    """Counts epochs in a small file, so that the workers of a `DataLoader` agree, persistent or not.

    Workers get a copy of the pipeline and report nothing back. Those of one iteration have torch's base seed
    in common: the first of them to begin takes the next epoch, the others join it. A worker that is already
    in that epoch belongs to another iteration (the user has seeded torch alike), which takes the next one.
    """

    def __init__(self) -> None:
        self._begin(0, 0)

    def _begin(self, epoch: int, start: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="shiftdata-epochs-"))
        weakref.finalize(self, _remove, self._folder, os.getpid())
        self._begun = (0, 0)  # this process, and the iterations that it has begun
        self._write({"next": epoch, "start": start, "by_workers": False, "begun": []})

    def choose(self, epoch: int, start: int = 0) -> None:
        """Say which epoch comes next, from which sample on."""
        with self._lock():
            # What has begun stays: a worker may be late for an iteration that was left with its first batch.
            self._write(self._read() | {"next": epoch, "start": start, "by_workers": False})

    def begin(self) -> tuple[int, int]:
        """The epoch of an iteration that begins in this process, and the sample it starts from."""
        worker = worker_info()
        process, count = self._begun
        self._begun = (os.getpid(), count + 1 if process == os.getpid() else 1)
        with self._lock():
            known = self._read()
            epoch, start = known["next"], known["start"]
            if worker is not None:
                mine = [worker.seed - worker.id, self._begun[1]]
                last = next((one for one in reversed(known["begun"]) if one["of"] == mine), None)
                if last is not None and worker.id not in last["workers"]:
                    last["workers"].append(worker.id)
                    self._write(known)
                    return last["epoch"], last["start"]
                entry = {"of": mine, "epoch": epoch, "start": start, "workers": [worker.id]}
                known["begun"] = [*known["begun"], entry][-REMEMBERED:]
            self._write(known | {"next": epoch + 1, "start": 0, "by_workers": worker is not None})
        return epoch, start

    def go_on(self, epoch: int) -> None:
        """Say that this process resumes an epoch: the one after it comes next."""
        with self._lock():
            self._write(self._read() | {"next": epoch + 1, "start": 0})

    @property
    def next(self) -> tuple[int, int]:
        """The epoch of the next iteration and where it starts."""
        with self._lock():
            known = self._read()
        return known["next"], known["start"]

    @property
    def in_workers(self) -> bool:
        """Whether the iteration that was begun last is one of workers."""
        with self._lock():
            return bool(self._read()["by_workers"])

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "next": self.next}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["_folder"].is_dir():
            self._folder, self._begun = state["_folder"], (0, 0)
        else:  # on another machine
            self._begin(*state["next"])

    def _lock(self) -> Any:
        return locked(self._folder / ".lock", f"{self._folder} is in use by another process", wait=PATIENCE)

    def _read(self) -> dict[str, Any]:
        return dict(json.loads((self._folder / "epochs.json").read_text()))

    def _write(self, known: dict[str, Any]) -> None:
        (self._folder / "epochs.json").write_text(json.dumps(known))


def worker_info() -> Any:
    """Which worker of a torch `DataLoader` this process is; None if it is none."""
    torch = sys.modules.get("torch.utils.data")  # who has not imported it is no worker
    return torch.get_worker_info() if torch else None


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a worker that was forked
        shutil.rmtree(folder, ignore_errors=True)
