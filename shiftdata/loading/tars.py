"""Read a dataset in WebDataset format with the `webdataset` library."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shiftdata.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.errors import InputError, NotFoundError, not_found
from shiftdata.extras import require
from shiftdata.format.paths import data_files
from shiftdata.places.http import Hub
from shiftdata.places.hubs import HUB, origin_of
from shiftdata.places.search import find

if TYPE_CHECKING:
    from webdataset import WebDataset


def webdataset(
    dataset: DatasetName,
    base: str | None = None,
    *,
    split: str = "train",
    decode: str | None = "pil",
    shuffle: int = 0,
    resampled: bool = False,
    seed: int = 0,
) -> WebDataset:
    """A `webdataset` pipeline over one split: an iterable dataset for torch's or its own loader.

    A sample is a dict: `__key__`, `image` or `text`, `label` (a number), `metadata` (every other column, and
    the features of a table). Go on as with any such pipeline: `.map(...)`, `.to_tuple("image", "label")`,
    `.batched(64)`. Nodes and workers share the tars among them; each must get one, so cut more of them
    (`--shard-mb`) where there are too few.

    Args:
        dataset: a name, `shift/<name>`, a folder, or a URL; of a dataset in Parquet, `<dataset>_wds` is
            looked for. A URL is one that the library opens (https://, hf://, gs://).
        base: a base, such as `mini`; default: its default base.
        split: `train`, `validation` or `test`.
        decode: how pictures are decoded: "pil", "rgb8", "torchrgb", ... (as `.decode` of the library takes
            it); None leaves every member as bytes.
        shuffle: the size of the shuffle buffer. Tars are mixed already, in the same order each time.
        resampled: draw tars without end, as nodes with unequal shares need; add `.with_epoch(samples)`.
        seed: of the buffer and of the drawn tars.

    """
    library = require("webdataset", "shiftdata.webdataset")
    opened = _tars_of(dataset)
    manifest = opened.manifest
    chosen = manifest.base(base or manifest.default_base)
    if split not in chosen.splits:
        raise not_found("split", split, chosen.splits, f"See `shiftdata info {manifest.name}`.")
    store, paths = opened.store, data_files(manifest.files, chosen.name, split)
    # At `hf://` the library asks the Hub itself, whatever $HF_ENDPOINT is, and sends it the token.
    if isinstance(store, Hub) and origin_of(store.endpoint) != HUB:
        urls = list(map(store.url, paths))
    else:
        urls = [f"{opened.address}/{path}" for path in paths]
    nodes = int(os.environ.get("WORLD_SIZE", "1"))
    if nodes > len(urls) and not resampled:  # a node without samples would keep the others waiting
        raise InputError(
            f"{nodes} nodes (WORLD_SIZE) cannot share {len(urls)} tars: export with a smaller --shard-mb, "
            "or pass resampled=True"
        )
    pipeline = library.WebDataset(
        urls,
        resampled=resampled,
        shardshuffle=False,
        nodesplitter=None if resampled else library.split_by_node,
        empty_check=False,
        seed=seed,
    )
    if shuffle:
        pipeline = pipeline.shuffle(shuffle, seed=seed)
    if decode is not None:
        pipeline = pipeline.decode(decode)
    named = {"cls": "label", "json": "metadata"}
    members = {named.get(member, manifest.roles.modality): member for member in manifest.sample}
    return pipeline.rename(__key__="__key__", **members)


def _tars_of(dataset: DatasetName) -> OpenDataset:
    """The tars that were named, or those of the dataset that was named."""
    if isinstance(dataset, OpenDataset):
        dataset.check_unchanged()
        if dataset.manifest.is_webdataset:
            return dataset
        dataset = dataset.address
    named = str(dataset).rstrip("/")
    if not named.endswith("_wds"):
        with suppress(NotFoundError):
            # For a dataset that is on this machine, the Hub is not asked for its tars.
            if not isinstance(find(f"{named}_wds"), Hub) or isinstance(find(named), Hub):
                return open_dataset(f"{named}_wds")
    opened = open_dataset(named)
    if opened.manifest.is_webdataset:
        return opened
    raise NotFoundError(
        f"{named} is in Parquet format, and there is no {named}_wds beside it: run "
        f"`shiftdata export {named} --to webdataset`, and give the folder that it prints"
    )
