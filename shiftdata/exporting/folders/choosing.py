"""The task that a command line names: a config, a base, a protocol with parameters, a frozen file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shiftdata.cli.task import composed
from shiftdata.errors import InputError, not_found
from shiftdata.metadata import Metadata
from shiftdata.places import search as places
from shiftdata.tasks import OnEmpty, Task, task


def chosen_task(
    dataset: str | Path,
    *,
    config: str | None = None,
    base: str | None = None,
    protocol: Sequence[str] = (),
    frozen: str | Path | None = None,
    on_empty: OnEmpty = "error",
) -> Task:
    """A task by what names it; without any, the canonical train, validation and test of the default base.

    Args:
        dataset: a name, `shift/<name>`, a folder, or a URL.
        config: a canonical split (`gf_k8_mu10`) or a base, as `shiftdata info` lists them.
        base: the base that a protocol, a frozen file or the canonical sets are of.
        protocol: words as `shiftdata task` takes them: `["group-fairness", "k=8", "mu=0.1"]`.
        frozen: a file that `Task.freeze` wrote.
        on_empty: a group that the protocol promises and that has no row is an "error", or left to "report".

    """
    given = [name for name, one in (("config", config), ("protocol", protocol), ("frozen", frozen)) if one]
    if len(given) > 1 or (config and base):
        both = given if len(given) > 1 else ["config", "base"]
        raise InputError(f"{' and '.join(both)} do not go together: each of them says which rows to take")
    if config:
        return _of_config(dataset, config)
    if frozen:
        return Task.frozen(Metadata.of(dataset, base), Path(frozen))
    return task(dataset, composed(protocol), base=base, on_empty=on_empty)


def _of_config(dataset: str | Path, name: str) -> Task:
    """The rows that `load_dataset(dataset, name)` gives."""
    manifest = places.find(dataset).manifest()
    if name in {base.name for base in manifest.bases}:
        return task(dataset, base=name)
    config = manifest.config(name)
    if config is None:
        known = [*(base.name for base in manifest.bases), *(one.name for one in manifest.configs)]
        raise not_found("config", name, known, f"See `shiftdata info {manifest.name}`.")
    made = task(dataset, base=config.base).restrict(config.filters)
    sets = {split: rows for split, rows in made.sets.items() if split in config.splits}
    return replace(made, sets=sets, history=(name,))
