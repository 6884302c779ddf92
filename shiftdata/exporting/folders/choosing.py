"""The task that a command line names: a config, a base, a protocol, a frozen file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shiftdata.dataset import open_dataset
from shiftdata.errors import InputError, not_found
from shiftdata.protocols import Protocol, task
from shiftdata.tasks import OnEmpty, Task


def chosen_task(
    dataset: str | Path,
    *,
    config: str | None = None,
    base: str | None = None,
    protocol: Protocol | str | None = None,
    on_empty: OnEmpty = "error",
) -> Task:
    """A task by what names it; without any, the canonical train, validation and test of the default base.

    Args:
        dataset: a name, `shift/<name>`, a folder, or a URL.
        config: a canonical split (`gf_k8_mu10`) or a base, as `shiftdata info` lists them.
        base: the base that a protocol or the canonical sets are of.
        protocol: a protocol, the name of one, or a file that `Task.freeze` wrote, as `task` takes it.
        on_empty: a group that the protocol promises and that has no row is an "error", or left to "report".

    """
    if config and (protocol or base):
        other = "a protocol" if protocol else "base"
        raise InputError(f"config and {other} do not go together: each of them says which rows to take")
    if config:
        return _of_config(dataset, config)
    return task(dataset, protocol, base=base, on_empty=on_empty)


def _of_config(dataset: str | Path, name: str) -> Task:
    """The rows that `load_dataset(dataset, name)` gives."""
    manifest = open_dataset(dataset).manifest
    if name in {base.name for base in manifest.bases}:
        return task(dataset, base=name)
    config = manifest.config(name)
    if config is None:
        known = [*(base.name for base in manifest.bases), *(one.name for one in manifest.configs)]
        raise not_found("config", name, known, f"See `shiftdata info {manifest.name}`.")
    made = task(dataset, base=config.base).restrict(config.filters)
    sets = {split: rows for split, rows in made.sets.items() if split in config.splits}
    return replace(made, sets=sets, history=(name,))
