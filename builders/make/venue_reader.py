"""Read Croissant as a venue's checker does: a program of its own, for a process with an empty cache.

It gets the JSON, and files of this machine by their ids. It prints the faults of the JSON and of record sets.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

SECONDS = 300  # that a checker waits for the first record of a set


def main() -> None:
    """Read the JSON of the standard input."""
    import mlcroissant

    given = json.loads(sys.stdin.read())  # noqa: TID251  # of the process that started this one
    answer: dict[str, Any] = {"records": {}}
    try:
        dataset = mlcroissant.Dataset(jsonld=given["document"], mapping=given["mapping"])
    except Exception as error:  # other kinds than its own on faulty addresses and hashes
        answer["faults"] = [_first_line(error)]
    else:
        issues, sets = dataset.metadata.ctx.issues, [of.id for of in dataset.metadata.record_sets]
        answer["faults"] = sorted([*issues.errors, *issues.warnings])
        answer["records"] = {name: _first_record(dataset, name) for name in sets}
    print(json.dumps(answer))


def _first_record(dataset: Any, name: str) -> str:
    """Return the reason that a record set gives no record in time, or ""."""
    start = time.monotonic()
    try:
        record = next(iter(dataset.records(name)), None)
    except Exception as error:  # of pandas, of the network, ...
        return f"{type(error).__name__}: {_first_line(error.__cause__ or error)}"
    waited = time.monotonic() - start
    if waited > SECONDS:
        return f"its first record took {waited:.0f} s, and checkers wait {SECONDS} s"
    return "" if record else "no record"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


if __name__ == "__main__":
    main()
