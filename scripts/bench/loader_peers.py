"""The readers that `loaders.py` compares, each as its own documentation recommends for training.

All give shuffled batches of 64, uint8 pictures with labels. `workers` are threads where a reader has threads
(ours, SPDL, Lance) and processes elsewhere.
"""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from loader_sets import unfinished
from PIL import Image

BATCH = 64
LABELLED = tuple[np.ndarray, np.ndarray]


def by_pillow(data: bytes, out: np.ndarray | None = None) -> np.ndarray:
    """Pixels as peers' users get them, in `out` where one is given."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    if out is None:
        return np.array(picture)
    out[...] = picture
    return out


def by_turbo(data: bytes, out: np.ndarray | None = None) -> np.ndarray:
    """Pixels by the decoder that ours uses."""
    import simplejpeg

    pixels: np.ndarray = simplejpeg.decode_jpeg(data, buffer=out)
    return pixels


DECODE: dict[str, Callable[..., np.ndarray]] = {"turbo": by_turbo, "Pillow": by_pillow}


def decoded(data: Sequence[bytes], decoder: str) -> np.ndarray:
    """Pictures of one shape in one array, without an array of its own for each."""
    first = DECODE[decoder](data[0])
    pixels = np.empty((len(data), *first.shape), np.uint8)
    pixels[0] = first
    for one, place in zip(data[1:], pixels[1:], strict=True):
        DECODE[decoder](one, place)
    return pixels


def files(out: Path) -> list[Path]:
    """The training pictures as files; the name of a folder is the label."""
    return sorted((out / "folder").glob("*/*"))


class Folder:
    """A plain map-style dataset over files in folders."""

    def __init__(self, out: Path, decoder: str) -> None:
        self.paths = files(out)
        self.decode = DECODE[decoder]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        path = self.paths[number]
        return self.decode(path.read_bytes()), int(path.parent.name)


def torch_loader(dataset: Any, workers: int, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, num_workers=workers, persistent_workers=True, **options)


def folder(out: Path, workers: int, decoder: str) -> Any:
    return torch_loader(Folder(out, decoder), workers, batch_size=BATCH, shuffle=True)


class ByHand:
    """A dataset as one writes it for oneself: the bytes of our shards, by the pointers of our metadata."""

    def __init__(self, out: Path, decoder: str) -> None:
        import pyarrow.parquet as pq

        folder = out / "shift" / "bench_jpeg"
        rows = pq.read_table(folder / "metadata" / "all" / "train.parquet").to_pydict()
        (self.path,) = (folder / "data" / "all").glob("train-*")
        self.places = list(zip(rows["offset"], rows["length"], rows["label"], strict=True))
        self.decode, self.handle = DECODE[decoder], -1

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        if self.handle < 0:
            self.handle = os.open(self.path, os.O_RDONLY)
        offset, length, label = self.places[number]
        return self.decode(os.pread(self.handle, length, offset)), label


def by_hand(out: Path, workers: int, decoder: str) -> Any:
    return torch_loader(ByHand(out, decoder), workers, batch_size=BATCH, shuffle=True)


def webdataset(out: Path, workers: int, decoder: str) -> Any:
    """Shards in random order and a buffer of 1,000, batched in the workers: its README's pipeline."""
    import webdataset as wds

    urls = [str(path) for path in sorted((out / "tar").iterdir())]
    turbo = decoder == "turbo"
    handler = (lambda key, data: by_turbo(data) if key.endswith("jpg") else None) if turbo else "rgb8"
    data = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(1000).decode(handler)
    return torch_loader(data.to_tuple("jpg", "cls").batched(BATCH), workers, batch_size=None)


def hf_streaming(out: Path, workers: int, decoder: str) -> Any:
    import datasets

    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0  # else each epoch ends in 5 seconds of sleep
    data = datasets.load_dataset("parquet", data_dir=str(out / "parquet"), split="train", streaming=True)
    if decoder == "turbo":
        data = data.cast_column("image", datasets.Image(decode=False))
        data = data.map(lambda row: {"image": by_turbo(row["image"]["bytes"]), "label": row["label"]})
    else:
        data = data.with_format("torch")
    return torch_loader(data.shuffle(seed=0, buffer_size=1000), workers, batch_size=BATCH)


def hf_map(out: Path, workers: int, decoder: str) -> Any:
    import datasets

    data = datasets.load_dataset(
        "parquet", data_dir=str(out / "parquet"), split="train", cache_dir=str(out / "arrow")
    )
    if decoder == "turbo":
        data = data.cast_column("image", datasets.Image(decode=False))
        data = data.with_transform(
            lambda rows: rows | {"image": [by_turbo(row["bytes"]) for row in rows["image"]]}
        )
    else:
        data = data.with_format("torch")
    return torch_loader(data, workers, batch_size=BATCH, shuffle=True)


class Spdl:
    """SPDL: a pipeline of threads over files, a batch a task, a new pipeline for each epoch: its guide.

    Its guide advises against an array for each picture.
    """

    def __init__(self, out: Path, workers: int, decoder: str) -> None:
        from spdl.source import DistributedRandomSampler

        self.paths, self.workers, self.decoder = files(out), workers, decoder
        self.sampler = DistributedRandomSampler(len(self.paths), rank=0, world_size=1)
        self.epoch = 0

    def __iter__(self) -> Iterator[LABELLED]:
        from spdl.pipeline import PipelineBuilder

        self.sampler.shuffle(self.epoch)
        self.epoch += 1
        source = PipelineBuilder().add_source(self.sampler).aggregate(BATCH)
        tasks = source.pipe(self._batch, concurrency=self.workers).add_sink(3)
        with (pipeline := tasks.build(num_threads=self.workers)).auto_stop():
            yield from pipeline

    def _batch(self, numbers: list[int]) -> LABELLED:
        paths = [self.paths[number] for number in numbers]
        labels = np.array([int(path.parent.name) for path in paths])
        return decoded([path.read_bytes() for path in paths], self.decoder), labels


class Lance:
    """Lance: `take` of a batch's shuffled row numbers, in threads that decode into the batch.

    It must not be forked, and its reads release the interpreter's lock. The loader that its guide has for
    random access takes the same rows in spawned workers, and makes a dictionary of each.
    """

    def __init__(self, out: Path, workers: int, decoder: str) -> None:
        import lance

        with unfinished(out, "lance") as folder:
            if folder:
                lance.write_dataset(self._table(out), str(folder))
        self.data = lance.dataset(str(out / "lance"))
        self.workers, self.decoder = workers, decoder
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[LABELLED]:
        order = self.rng.permutation(self.data.count_rows())
        starts = range(0, len(order), BATCH)
        under_way: deque[Future[LABELLED]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            for start in starts:
                under_way.append(pool.submit(self._batch, order[start : start + BATCH]))
                if len(under_way) > 2 * self.workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def _batch(self, rows: np.ndarray) -> LABELLED:
        table = self.data.take(rows.tolist())
        return decoded(table["image"].to_pylist(), self.decoder), table["label"].to_numpy()

    def _table(self, out: Path) -> Any:
        import pyarrow as pa

        paths = shuffled(files(out))
        columns = {"image": [p.read_bytes() for p in paths], "label": [int(p.parent.name) for p in paths]}
        return pa.table(columns)


def mosaicml_streaming(out: Path, workers: int, decoder: str) -> Any:
    """MDS shards on disk, its default shuffle (py1e), torch's loader, the batch size given to both."""
    without_torchvision()
    import streaming

    class Pictures(streaming.StreamingDataset):
        def __getitem__(self, at: Any) -> Any:
            row = super().__getitem__(at)
            return DECODE[decoder](row["image"]), row["label"]

    with unfinished(out, "mds") as folder:
        if folder:
            columns = {"image": "bytes", "label": "int"}
            with streaming.MDSWriter(out=str(folder), columns=columns, size_limit="16mb") as writer:
                for path in shuffled(files(out)):
                    writer.write({"image": path.read_bytes(), "label": int(path.parent.name)})
    streaming.base.util.clean_stale_shared_memory()
    data = Pictures(local=str(out / "mds"), shuffle=True, batch_size=BATCH)
    return torch_loader(data, workers, batch_size=BATCH)


def litdata(out: Path, workers: int, decoder: str) -> Any:
    without_torchvision()
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    with unfinished(out, "litdata") as folder:
        if folder:
            paths = [str(path) for path in shuffled(files(out))]
            optimize(_as_it_is, paths, str(folder), chunk_bytes="16MB", num_workers=1)
    decode = partial(_decoded, DECODE[decoder])
    data = StreamingDataset(str(out / "litdata"), shuffle=True, transform=decode)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, persistent_workers=True)


def _decoded(decode: Callable[[bytes], np.ndarray], example: tuple[bytes, int]) -> tuple[np.ndarray, int]:
    return decode(example[0]), example[1]


def _as_it_is(path: str) -> tuple[bytes, int]:
    return Path(path).read_bytes(), int(Path(path).parent.name)


def shuffled(paths: list[Path]) -> list[Path]:
    """Rows of a shard are in no order, as those of ours are."""
    return [paths[number] for number in np.random.default_rng(0).permutation(len(paths))]


def without_torchvision() -> None:
    """Let torchvision be imported beside a torch for CPUs, where some operators of it are not known."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    without_torchvision.kept = library


def shiftdata_loader(out: Path, workers: int, decoder: str) -> Any:
    return _task(out, decoder).loader("train", sampler="shuffle", batch_size=BATCH, workers=workers)


def shiftdata_dataset(out: Path, workers: int, decoder: str) -> Any:
    return torch_loader(_task(out, decoder).dataset("train"), workers, batch_size=BATCH, shuffle=True)


def _task(out: Path, decoder: str) -> Any:
    import shiftdata as sd
    from shiftdata.data.loading.batches import decode

    if decoder == "Pillow":
        decode._turbo = lambda: None
    return sd.task(out / "shift" / "bench_jpeg")


class Limit:
    """What the machine decodes: threads that have the bytes in memory, into one picture's memory each."""

    def __init__(self, out: Path, workers: int, decoder: str) -> None:
        self.data = [path.read_bytes() for path in files(out)]
        self.workers, self.decode = workers, DECODE[decoder]

    def __iter__(self) -> Iterator[tuple[range]]:
        parts = [self.data[number :: self.workers] for number in range(self.workers)]
        threads = [threading.Thread(target=self._decode, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield (range(len(self.data)),)

    def _decode(self, part: list[bytes]) -> None:
        out = self.decode(part[0])
        for data in part:
            self.decode(data, out)


OURS, LIMIT, SPDL = "shiftdata", "limit", "SPDL"
OUR_DATASET, BY_HAND = "DataLoader, task.dataset", "DataLoader, by hand"
READERS: dict[str, Callable[[Path, int, str], Any]] = {
    OURS: shiftdata_loader,
    OUR_DATASET: shiftdata_dataset,
    BY_HAND: by_hand,
    "folder": folder,
    "webdataset": webdataset,
    "HF streaming": hf_streaming,
    "HF map-style": hf_map,
    SPDL: Spdl,
    "Lance": Lance,
    "mosaicml streaming": mosaicml_streaming,
    "litdata": litdata,
    LIMIT: Limit,
}
#: Those that need an environment without the others, by the name it has in `peer_environments.PINS`.
APART = {SPDL: "spdl", "Lance": "pylance", "mosaicml streaming": "mosaicml-streaming", "litdata": "litdata"}
