"""List, describe and load datasets. Reading itself is left to `datasets`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from shiftdata.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.errors import InputError, IntegrityError
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import data_files, metadata_file
from shiftdata.places.remote import Hub
from shiftdata.places.search import is_offline, local_datasets

if TYPE_CHECKING:
    import datasets  # 1 s that `shiftdata list` does not need

    AnyDataset: TypeAlias = (
        datasets.Dataset | datasets.DatasetDict | datasets.IterableDataset | datasets.IterableDatasetDict
    )


@dataclass(frozen=True)
class DatasetSummary:
    """One line of the list of datasets."""

    name: str
    family: str
    license: str
    rows: int
    bytes: int
    where: Path


def list_datasets() -> list[DatasetSummary]:
    """Every dataset on the search path: $SHIFTDATA_HOME, ./build/shift, ./shift.

    One that cannot be read is left out with a warning: it must not hide the others.
    """
    summaries = []
    for folder in local_datasets():
        try:
            one = Manifest.read(folder)
        except IntegrityError as error:
            warnings.warn(str(error), stacklevel=2)
        else:
            summary = DatasetSummary(one.name, one.family, one.license, one.rows, one.bytes, folder)
            summaries.append(summary)
    return summaries


def info(name: DatasetName) -> Manifest:
    """All that is known about a dataset: splits, configs, classes, licence, hashes."""
    return open_dataset(name).manifest


@overload
def load_dataset(
    name: DatasetName, config: str | None = ..., *, split: str, streaming: Literal[True], **options: Any
) -> datasets.IterableDataset: ...
@overload
def load_dataset(
    name: DatasetName,
    config: str | None = ...,
    *,
    split: str,
    streaming: Literal[False] = ...,
    **options: Any,
) -> datasets.Dataset: ...
@overload
def load_dataset(
    name: DatasetName, config: str | None = ..., *, split: None = ..., streaming: bool = ..., **options: Any
) -> datasets.DatasetDict | datasets.IterableDatasetDict: ...
def load_dataset(
    name: DatasetName,
    config: str | None = None,
    *,
    split: str | None = None,
    streaming: bool = False,
    **options: Any,
) -> AnyDataset:
    """Load a dataset by name, from wherever it is, as a `datasets` object.

    Args:
        name: `sma_emoji`, `shift/sma_emoji`, the path of a dataset's folder, or its URL.
        config: a base (`mini`, `content`, ...), a canonical split (`gf_k8_mu10`, also one that is only
            frozen) or `metadata`; None is the default.
        split: `train`, `validation` or `test`; None gives all of them.
        streaming: iterate without preparing a copy on disk.
        options: for `datasets.load_dataset`. `filters=` replaces those of a canonical split.

    """
    import datasets

    opened = open_dataset(name)
    manifest = opened.manifest
    if config is not None:
        manifest.splits_of(config)  # an unknown name is answered here, with the nearest ones
    if config != "metadata":
        manifest.require_pixels(opened.address)
    frozen = manifest.config(config) if config is not None else None
    if frozen is not None and not frozen.virtual:  # the card has no room for it: give what it would say
        config = frozen.base
        options = {"filters": frozen.filters, "verification_mode": "no_checks"} | options
    store = opened.store
    if isinstance(store, Hub) and store.repo.endpoint is None:
        # The commit whose manifest was read; offline, `datasets` knows only what it has prepared before.
        pinned = {} if is_offline() else {"revision": store.revision}
        source, options = store.repo.repo_id, pinned | options
    elif store.folder is not None:
        source = str(store.folder)
    else:
        return _load_url(opened, config or manifest.default_base, split, streaming, options)
    loaded: AnyDataset = datasets.load_dataset(source, config, split=split, streaming=streaming, **options)
    return loaded


def _load_url(
    opened: OpenDataset, config: str, split: str | None, streaming: bool, options: dict[str, Any]
) -> AnyDataset:
    """Load from a plain URL, whose card `datasets` does not read: the manifest says the same."""
    import datasets

    url, manifest = opened.address, opened.manifest
    if isinstance(opened.store, Hub):
        repo = opened.store.repo
        raise InputError(
            f"`datasets` asks one Hub at a time: set HF_ENDPOINT={repo.endpoint} before Python starts, "
            f"and load {repo.repo_id!r} by its name; or `shiftdata fetch` it"
        )
    if manifest.is_webdataset:
        raise InputError(
            f"{url} is in WebDataset format: read it with `shiftdata.webdataset`, or load the Parquet dataset"
        )
    virtual = manifest.config(config)
    if virtual is not None:
        config, options = virtual.base, {"filters": virtual.filters} | options
    of_split = {}
    for name in manifest.splits_of(config):
        paths = [metadata_file(manifest.default_base, name)]
        if config != "metadata":
            paths = data_files(manifest.files, config, name)
        of_split[name] = [f"{url}/{path}" for path in paths]
    loaded: AnyDataset = datasets.load_dataset(
        "parquet", data_files=of_split, split=split, streaming=streaming, **options
    )
    return loaded
