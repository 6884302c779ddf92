"""Verify a dataset: its files, rows and images, and its canonical splits by the protocols that made them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Unpack

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.records import CanonicalSplit
from shiftdata.data.metadata import Metadata
from shiftdata.data.places.signatures import pinned
from shiftdata.data.verifying import Problem, audit
from shiftdata.data.verifying.files import Listeners, LocalFile, first_line
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols.canonical import canonical_split
from shiftdata.evaluation.tasks import TaskWarning
from shiftdata.evaluation.tasks.frozen import Frozen
from shiftdata.evaluation.tasks.rows import description_of
from shiftdata.evaluation.tasks.task import canonical_task, frozen_task
from shiftdata.progress import shows
from shiftdata.untrusted.texts import read_json


@shows("verify", on_bytes="B")
def verify(
    name: DatasetName,
    *,
    deep: bool = True,
    against: DatasetName | None = None,
    key: str | None = None,
    **listeners: Unpack[Listeners],
) -> list[Problem]:
    """Check every file of a dataset, and with `deep` every row and image; an empty list means all is well.

    A file with another size or hash is one problem, which names the rows in it. Rows and images are checked
    in files that are intact. Files at a URL or on the Hub are fetched once each, a few at a time, and deleted
    when they are checked.

    Args:
        name: a name, `shift/<name>`, a folder, a URL that fsspec reads, or an opened dataset.
        deep: check rows and examples, not only the hashes of files.
        against: another place with the same dataset, such as one that was published without its examples:
            the files of both must be equal.
        key: a public key, or a file of it, that must have signed the manifest.
        listeners: `on_file` is called with the name of each file when it has been hashed; `on_bytes` with
            the number of bytes that were fetched or hashed (negative where some are fetched again);
            `on_rows` with the number of rows that were checked; `on_note` with what could not be checked,
            and with a summary at the end.

    """
    keys = pinned(key) if key is not None else ()
    return audit.verify(name, deep=deep, against=against, keys=keys, check_split=split_problems, **listeners)


def split_problems(
    split: CanonicalSplit, rows_of: Callable[[bool], Metadata], sizes: IntArray, frozen: LocalFile
) -> Iterator[Problem]:
    """Check that the protocol of a canonical split makes what is frozen, and what the manifest says of it."""
    if frozen.file is None:
        return
    try:
        protocol = parse_protocol(split.protocol)
        if protocol is None:
            raise InputError("it is the splits of the files themselves")
        metadata = rows_of(protocol.reads_params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TaskWarning)
            task = protocol(canonical_task(metadata), on_empty="report")
            same = task.content_id() == frozen_task(metadata, frozen.file).content_id()
            same = same and _as_json(description_of(task)) == _as_json(Frozen.read(frozen.file))
            described = canonical_split(protocol, task, split.base, sizes, virtual=split.is_config)
    except ShiftdataError as error:
        text = f"cannot be recomputed by {split.protocol}: {first_line(error)}"
        yield Problem(frozen.path, text, "protocol")
        return
    if not same:
        text = f"is not what {split.protocol} makes of {split.base}: run the build again with --replace"
        yield Problem(frozen.path, text, "protocol")
    listed, recomputed = _as_json(split), _as_json(described)
    for name in (name for name in listed if listed[name] != recomputed[name]):
        text = f"has other {name} of {split.name} than {split.protocol} makes of {split.base}"
        yield Problem(FILE_NAME, f"{text}: fetch it again, or build the dataset again", "protocol")


def _as_json(record: Any) -> Any:
    """Return a record as JSON has it: a list and a tuple are equal."""
    return read_json(json.dumps(asdict(record)), constants=True)
