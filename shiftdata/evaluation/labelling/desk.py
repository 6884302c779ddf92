"""What a server of labels knows: what it asks, where labels go, who may answer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError
from shiftdata.evaluation.labelling.table import Key
from shiftdata.evaluation.labelling.work import Work
from shiftdata.evaluation.labelling.writing import LabelFile
from shiftdata.serve.hosts import Hosts
from shiftdata.serve.names import Refusal

#: Letters of a name at most.
LONGEST_NAME = 60


@dataclass
class Desk:
    """What a server asks, where labels go, and who may answer; `who` is fixed, or None: the page asks.

    `others` are the labels of other files, by the file's name and by person, to compare with.
    """

    work: Work
    file: LabelFile
    token: str = field(repr=False)
    who: str | None = None
    hosts: Hosts = field(default_factory=Hosts)
    others: Sequence[tuple[str, Mapping[str, Mapping[Key, str]]]] = ()

    def __post_init__(self) -> None:
        self.numbers = {key: number for number, key in enumerate(self.work.keys)}
        strange = [
            row.key for row in self.file.rows if not (row.key in self.numbers or self.work.knows(row.key))
        ]
        if strange:
            raise InputError(
                f"{self.file.path} has labels of {' and '.join(strange[0])!r:.150}, which is not in "
                f"{self.work.title}: give another --out"
            )

    def cookie(self, request: Request) -> str:
        """The name of the cookie: a browser sends those of one port to all ports of a machine."""
        return f"shiftdata_label_{(request.scope.get('server') or ('', 0))[1]}"

    def has_signed_in(self, request: Request) -> bool:
        """Whether the browser has the cookie."""
        return self.knows(request.cookies.get(self.cookie(request)))

    def check(self, request: Request) -> None:
        """Refuse a browser without the cookie."""
        if not self.has_signed_in(request):
            raise Refusal(
                401, "this browser is not signed in: open the address that `shiftdata label` printed"
            )

    def knows(self, given: str | None) -> bool:
        """Whether a token is this server's."""
        return hmac.compare_digest((given or "").encode(errors="replace"), self.token.encode())

    def state(self, who: str, since: int | None = None) -> dict[str, Any]:
        """A person's labels by number, all or those changed after so many rows; how many rows there are."""
        mine = self.file.of(who)
        rows, changed = self.file.changes(who, since or 0)
        keys = mine.keys() if since is None else changed
        labels = {self.numbers[key]: mine.get(key, "") for key in keys if key in self.numbers}
        return {"labels": labels, "rows": rows}


def checked_name(given: object) -> str:
    """A person's name as it stands in the table; one that cannot is refused."""
    name = given.strip() if isinstance(given, str) else ""
    if (fault := line_fault(name)) or len(name) > LONGEST_NAME:
        raise InputError(f"the name of who labels {fault or f'is longer than {LONGEST_NAME} letters'}")
    return name
