"""List, describe and load datasets. Reading itself is left to `datasets`."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.conditions import both, numbered
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.schema import POINTER_COLUMNS, SPLITS, columns, name_columns
from shiftdata.data.format.written import names_of
from shiftdata.data.places.client import proxy_of
from shiftdata.data.places.http import Http, Hub
from shiftdata.data.places.hubs import token_for
from shiftdata.data.places.search import local_datasets
from shiftdata.data.places.store import Store
from shiftdata.errors import InputError, IntegrityError, not_found
from shiftdata.extras import require


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
    """List every dataset on the search path: $SHIFTDATA_HOME, ./build/shift, ./shift.

    One that cannot be read is left out with a warning: it must not hide the others.
    """
    summaries = []
    for folder in local_datasets():
        try:
            read = Manifest.read(folder)
        except IntegrityError as error:
            warnings.warn(str(error), stacklevel=2)
        else:
            about = (read.name, read.family, read.license, read.rows, read.bytes)
            summaries.append(DatasetSummary(*about, folder))
    return summaries


def info(name: DatasetName) -> Manifest:
    """Return what is known about a dataset: splits, configs, classes, licence, hashes."""
    return open_dataset(name).manifest


def load_dataset(
    name: DatasetName,
    config: str | None = None,
    *,
    split: str | None = None,
    streaming: bool = False,
    **options: Any,
) -> Any:
    """Load a dataset by name, from wherever it is, as `datasets.load_dataset` returns it.

    Args:
        name: `sma_glyphs`, `shift/sma_glyphs`, the path of a dataset's folder, or its URL.
        config: a base (`mini`, `content`, ...), a canonical split (`gf_k8_mu10`, also one that is a key file)
            or `metadata`; None is the default: the authors' split where the dataset has one, else a base.
        split: `train`, `validation` or `test`, or a set of the canonical split; "all" is all rows of a base;
            None gives each split.
        streaming: iterate without preparing a copy on disk.
        options: for `datasets.load_dataset`, such as `columns=`. `filters=` may name labels, nuisances and
            groups, and keeps rows of what is loaded: `[("style", "==", "midnight"), ("label", "in", ["B"])]`.
            For the filters of your own task load a base with `split="all"`.

    """
    opened = open_dataset(name)
    manifest = opened.manifest
    if config != "metadata":
        manifest.require_pixels(opened.address)
    config = config or manifest.default_config
    if filters := options.pop("filters", None):
        options["filters"] = numbered(filters, *_named_columns(manifest, config))
    if config not in manifest.configs:
        return _load_frozen(opened, config, split, streaming, options)
    # By the files that the manifest lists: a card, and what overrides one, may have been changed.
    chosen = manifest.configs[config]
    if chosen.filters is not None:
        options["filters"] = both(chosen.filters, options.get("filters", [[]]))
    return _load_files(opened, chosen.files, split=split, streaming=streaming, **options)


def _named_columns(manifest: Manifest, config: str) -> tuple[list[str], dict[str, Sequence[str]]]:
    """Return the columns that filters may have, and the names behind the numbers of some."""
    nuisance, names = manifest.roles.nuisance, names_of(manifest)
    more = name_columns(nuisance) | POINTER_COLUMNS if config == "metadata" else manifest.roles.example
    return [*columns(nuisance), *more], {**names, "split": list(SPLITS)}


def _load_frozen(
    opened: OpenDataset, name: str, split: str | None, streaming: bool, options: dict[str, Any]
) -> Any:
    """Load a canonical split that is not a config of the card: set by set, by its filters or its keys."""
    import datasets
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from shiftdata.data.metadata.columns import check_draws, read_columns

    canonical, base, names = opened.manifest.rows_behind(name)
    sets = canonical.sets if canonical else {}
    if split is not None and split not in sets:
        raise not_found("split", split, names, f"They are those of {name}.")
    loaded = {}
    for each in names if split is None else [split]:
        filters, rows = sets[each].filters, None
        if filters is None:
            keys = read_columns(opened, protocol_file(name), ["key", "split", "count"])
            rows = keys.filter(pc.equal(keys["split"], each))
            check_draws(rows["count"], protocol_file(name))
            filters = [[("key", "in", rows["key"].to_pylist())]]
        filters = both(filters, options.get("filters", [[]]))
        given = options | {"filters": filters, "split": each, "streaming": streaming}
        loaded[each] = _load_files(opened, {each: sets[each].files_in(base)}, **given)
        if rows is not None and (pc.max(rows["count"]).as_py() or 0) > 1:
            if streaming:
                raise InputError(f"{name}/{each} was drawn with replacement: load it with streaming=False")
            place = pc.index_in(rows["key"], value_set=pa.array(loaded[each]["key"]))
            rows, place = rows.filter(place.is_valid()), place.drop_null()
            loaded[each] = loaded[each].select(np.repeat(place.to_numpy(), rows["count"].to_numpy()))
    if split is not None:
        return loaded[split]
    return datasets.IterableDatasetDict(loaded) if streaming else datasets.DatasetDict(loaded)


def _load_files(opened: OpenDataset, files: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """Load splits from files, or patterns of those that the manifest lists, without the card."""
    import datasets

    store, manifest = opened.store, opened.manifest
    place = store.address
    if isinstance(store, Hub):
        # `datasets` asks one Hub at a time: of another server it reads files by their URLs, without a login.
        if store.repo.endpoint is not None and (store.repo.token or token_for(store.repo.endpoint)):
            raise InputError(
                f"`datasets` does not get the token of {store.repo.endpoint}: run `shiftdata fetch {place}` "
                f"and load the folder, or set HF_ENDPOINT={store.repo.endpoint} before Python starts"
            )
        on_hub = f"hf://datasets/{store.repo.repo_id}@{store.revision}"
        place = on_hub if store.repo.endpoint is None else store.url("").rstrip("/")
    if manifest.is_webdataset:
        raise InputError(f"{place} is in WebDataset format: read it with `shiftdata.webdataset`")
    listed = sorted(manifest.files)
    paths = {
        name: [f"{place}/{path}" for pattern in of for path in fnmatch.filter(listed, pattern)]
        for name, of in files.items()
    }
    access = _access(store)
    try:
        return datasets.load_dataset("parquet", data_files=paths, **(access | options))
    except Exception as error:  # of many kinds, also for a footer that no version of `datasets` has written
        reason = f"{type(error).__name__}: {error}"
        if "corresponds to no data" in reason:  # in its words, of a split without a row
            raise InputError(
                f"the filters leave no row in a split ({reason:.100}): name another split, or streaming=True"
            ) from error
        raise IntegrityError(
            f"`datasets` cannot load {place} ({reason:.500}): `shiftdata verify` checks its files"
        ) from error


def _access(store: Store) -> dict[str, Any]:
    """Choose the login that `datasets` may use.

    Left to itself, it sends the one that is stored for the Hub to any $HF_ENDPOINT, and what `.netrc` has to
    any server.
    """
    if isinstance(store, Hub) and store.repo.endpoint is None:
        return {"token": token_for(None)}
    if not isinstance(store, Http):
        return {}
    require("aiohttp", "load_dataset of an http URL")
    of_client = {"client_kwargs": {"trust_env": False, "proxy": proxy_of(store.url(""))}}
    return {"token": False, "storage_options": {"http": of_client, "https": of_client}}
