"""What was sent to a place without commits, noted on this machine, so that a run can go on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shiftdata.files import write_text
from shiftdata.stable import content_hash

NAME_DIGITS = 16


@dataclass(frozen=True)
class Sent:
    """A file that arrived whole: its hash, and what the place said of it then."""

    sha256: str
    stamp: str


@dataclass
class Journal:
    """The notes on one place; every change is written at once, as a whole file.

    `owned` are the files of the dataset that lies there, and of the one that is on its way: a run that was
    stopped has taken the old manifest away, which would have told.
    """

    path: Path
    url: str
    owned: set[str] = field(default_factory=set)
    sent: dict[str, Sent] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str, work: Path) -> Journal:
        """The notes on a place; none, where there are none or they cannot be read."""
        path = work / f"{content_hash(url)[:NAME_DIGITS]}.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            sent = {name: Sent(**record) for name, record in raw["sent"].items()}
            return cls(path, url, set(raw["owned"]), sent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(path, url)

    def begin(self, owned: Iterable[str]) -> None:
        """Note which files there are ours."""
        self.owned = set(owned)
        self._write()

    def note(self, path: str, sent: Sent) -> None:
        """Note a file that arrived."""
        self.sent[path] = sent
        self._write()

    def forget(self, path: str) -> None:
        """Forget a file that is about to change."""
        if self.sent.pop(path, None):
            self._write()

    def _write(self) -> None:
        notes = {name: asdict(record) for name, record in sorted(self.sent.items())}
        text = json.dumps({"url": self.url, "owned": sorted(self.owned), "sent": notes}, indent=1)
        write_text(self.path, text + "\n")
