"""Read a dataset in WebDataset format by a pipeline of the `webdataset` library, whose extra it needs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.loading.order import Ranks
from shiftdata.data.places.http import Hub
from shiftdata.data.places.search import find
from shiftdata.errors import NotFoundError, not_found
from shiftdata.extras import require

if TYPE_CHECKING:
    from shiftdata.data.loading.tars.pipeline import Pipeline


def webdataset(
    dataset: DatasetName,
    base: str | None = None,
    *,
    split: str = "train",
    decode: str | None = "pil",
    shuffle: int = 0,
    seed: int = 0,
    batch_size: int = 1,
    drop_last: bool = False,
    rank: int | None = None,
    world: int | None = None,
) -> Pipeline:
    """Make a `webdataset` pipeline over one split: an iterable dataset for torch's or its own loader.

    A sample is a dict: `__key__`, `image` or `text`, `label` (a number), `metadata` (the columns of its
    `json`, and the features of a table). Go on as with any such pipeline: `.map(...)`,
    `.to_tuple("image", "label")`, `.batched(64)`.

    The order is a function of seed and epoch, and each sample comes once an epoch. Ranks and their workers
    get equally many, however many tars there are. `set_epoch(epoch, start)` chooses an epoch, in workers too,
    and the sample of this rank to start from; each iteration of one process takes the next epoch.

    Args:
        dataset: a name, `shift/<name>`, a folder, or a URL; of a dataset in Parquet, `<dataset>_wds` is
            looked for.
        base: a base, such as `mini`, or a task that the tars have; default: the default base.
        split: `train`, `validation` or `test`; of a task one of its sets.
        decode: how pictures are decoded: "pil", "rgb8", "torchrgb", ... (as `.decode` of the library takes
            it); None leaves every member as bytes.
        shuffle: mix stretches of the tars, and samples as by a buffer of this many; 0 is the order of the
            tars, the same in each epoch.
        seed: of the order.
        batch_size: that of the loader or of `.batched`: workers share whole batches, so that
            `set_epoch(epoch, start)` can go on after some of them.
        drop_last: leave out what ranks do not share evenly; else the first samples come again at the end.
        rank, world: this process among those that share an epoch; default: of `torch.distributed`, or else
            $RANK and $WORLD_SIZE.

    """
    require("webdataset", "shiftdata.webdataset")
    from shiftdata.data.loading.tars.pipeline import Pipeline, Samples

    opened = _tars_of(dataset)
    manifest = opened.manifest
    chosen = manifest.base(base or manifest.default_base)
    if split not in chosen.splits:
        raise not_found("split", split, chosen.splits, f"See `shiftdata info {manifest.name}`.")
    ranks = Ranks.of(rank, world, drop_last=drop_last)
    if rank is None and world is None and ranks.world == 1 and "WORLD_SIZE" in os.environ:
        rank, world = int(os.environ.get("RANK", "0")), int(os.environ["WORLD_SIZE"])
        ranks = Ranks.of(rank, world, drop_last=drop_last)
    order = {"shuffle": shuffle, "seed": seed, "batch_size": batch_size}
    pipeline = Pipeline(Samples(opened, chosen.name, split, ranks=ranks, **order))
    if decode is not None:
        pipeline = pipeline.decode(decode)
    named = {"cls": "label", "json": "metadata"}
    members = [name for name in manifest.sample if name != "cls" or not chosen.hides_labels(split)]
    names = {named.get(member, manifest.roles.modality): member for member in members}
    renamed: Pipeline = pipeline.rename(__key__="__key__", **names)
    return renamed


def _tars_of(dataset: DatasetName) -> OpenDataset:
    """Open the tars that were named, or those of the dataset that was named."""
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
        f"{named} is in Parquet format, and there is no {named}_wds next to it: run "
        f"`shiftdata export {named} --to webdataset`, and give the folder that it prints"
    )
