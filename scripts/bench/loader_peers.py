"""What `loaders.py` compares: the same pictures laid out for each reader, and each reader as it is used."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

BATCH, SIDE, LABELS, SHARDS = 64, 256, 10, 8
RECIPE = """
from pathlib import Path
from builders.albums.folder import FolderAlbum
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from builders.encode import ImageEncoding

RECIPE = Recipe(
    name="bench_jpeg", family="domain", version="1.0.0", released="2026-01-31", title="Crops for a benchmark",
    summary="Noisy crops of two photographs.", creators=("shiftdata",), citation="None.",
    album=FolderAlbum(Path(__file__).parent / "crops", layout=("domain", "label"), license="CC0-1.0",
                      attribution="scikit-learn"),
    nuisance="domain", shift=Domains(names=("china", "flower")),
    encoding=ImageEncoding(format="jpeg", quality=85),
    bases=(Base(name="all", summary="Every crop."),), default_base="all",
)
"""


def prepare(out: Path, pictures: int) -> None:
    """Draw the pictures, build the dataset, and lay its training set out for the peers."""
    from sklearn.datasets import load_sample_images

    from builders.make.build import build

    photos = load_sample_images()
    for number in range(pictures):
        domain, label = number % 2, number // 2 % LABELS
        crop = noisy_crop(Image.fromarray(photos.images[domain]), np.random.default_rng(number))
        path = out / "crops" / ("china", "flower")[domain] / f"label{label}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop.save(path, compress_level=1)
    (out / "recipe.py").write_text(RECIPE)
    build(str(out / "recipe.py"), out, workers=2, quiet=True)
    lay_out_for_peers(out)
    (out / "ready").touch()


def noisy_crop(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A crop of a photograph with noise: about 22 KB as JPEG of quality 85."""
    side = int(rng.integers(120, 400))
    left, top = (int(rng.integers(0, whole - side)) for whole in photo.size)
    crop = photo.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    noise = rng.normal(0, rng.uniform(2, 14), (SIDE, SIDE, 1))
    return Image.fromarray((np.asarray(crop) + noise).clip(0, 255).astype(np.uint8))


def lay_out_for_peers(out: Path) -> None:
    """The training set as files in folders, as tar shards, and as Parquet shards of `datasets`."""
    import datasets

    import shiftdata as sd

    examples = list(sd.task(out / "shift" / "bench_jpeg").dataset("train", decode=False))
    order = np.random.default_rng(0).permutation(len(examples))
    for folder in ("folder", "tar", "parquet"):
        (out / folder).mkdir()
    for shard in range(SHARDS):
        mine = [examples[number] for number in order[shard::SHARDS]]
        with tarfile.open(out / "tar" / f"{shard:03d}.tar", "w") as tar:
            for data, label, known in mine:
                for suffix, content in (("jpg", data), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{known['key']}.{suffix}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
                path = out / "folder" / str(label) / f"{known['key']}.jpg"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
        columns = {
            "image": [{"bytes": data, "path": None} for data, _, _ in mine],
            "label": [y for _, y, _ in mine],
        }
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        datasets.Dataset.from_dict(columns, features=features).to_parquet(
            out / "parquet" / f"{shard:03d}.parquet"
        )


def by_pillow(data: bytes) -> np.ndarray:
    """Pixels as peers' users get them."""
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


def by_turbo(data: bytes) -> np.ndarray:
    """Pixels by the decoder that ours uses."""
    import simplejpeg

    pixels: np.ndarray = simplejpeg.decode_jpeg(data)
    return pixels


class Folder:
    """A plain map-style dataset over files in folders."""

    def __init__(self, root: Path, decode: Callable[[bytes], np.ndarray]) -> None:
        self.paths = sorted(root.glob("*/*.jpg"))
        self.decode = decode

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        path = self.paths[number]
        return self.decode(path.read_bytes()), int(path.parent.name)


def torch_loader(dataset: Any, workers: int, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, num_workers=workers, persistent_workers=True, **options)


def folder(out: Path, workers: int, turbo: bool) -> Iterator[Any]:
    data = Folder(out / "folder", by_turbo if turbo else by_pillow)
    return torch_loader(data, workers, batch_size=BATCH, shuffle=True)


def webdataset(out: Path, workers: int, turbo: bool) -> Any:
    import webdataset as wds

    urls = [str(path) for path in sorted((out / "tar").iterdir())]
    decoder = (lambda key, data: by_turbo(data) if key.endswith("jpg") else None) if turbo else "rgb8"
    data = wds.WebDataset(urls, shardshuffle=SHARDS).shuffle(1000).decode(decoder).to_tuple("jpg", "cls")
    return torch_loader(data.batched(BATCH), workers, batch_size=None)


def hf_streaming(out: Path, workers: int, turbo: bool) -> Any:
    import datasets

    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0  # else each epoch ends in 5 seconds of sleep
    data = datasets.load_dataset("parquet", data_dir=str(out / "parquet"), split="train", streaming=True)
    if turbo:
        data = data.cast_column("image", datasets.Image(decode=False))
        data = data.map(lambda row: {"image": by_turbo(row["image"]["bytes"]), "label": row["label"]})
    else:
        data = data.with_format("torch")
    return torch_loader(data.shuffle(seed=0, buffer_size=1000), workers, batch_size=BATCH)


def hf_map(out: Path, workers: int, turbo: bool) -> Any:
    import datasets

    data = datasets.load_dataset(
        "parquet", data_dir=str(out / "parquet"), split="train", cache_dir=str(out / "arrow")
    )
    if turbo:
        data = data.cast_column("image", datasets.Image(decode=False))
        data = data.with_transform(
            lambda rows: rows | {"image": [by_turbo(one["bytes"]) for one in rows["image"]]}
        )
    else:
        data = data.with_format("torch")
    return torch_loader(data, workers, batch_size=BATCH, shuffle=True)


def litdata(out: Path, workers: int, turbo: bool) -> Any:
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    if not (out / "litdata" / "index.json").exists():
        optimize(
            _as_it_is,
            [str(path) for path in (out / "folder").glob("*/*.jpg")],
            str(out / "litdata"),
            chunk_bytes="16MB",
            num_workers=1,
        )
    decode = partial(_decoded, by_turbo if turbo else by_pillow)
    data = StreamingDataset(str(out / "litdata"), shuffle=True, transform=decode)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, persistent_workers=True)


def _decoded(decode: Callable[[bytes], np.ndarray], example: tuple[bytes, int]) -> tuple[np.ndarray, int]:
    return decode(example[0]), example[1]


def _as_it_is(path: str) -> tuple[bytes, int]:
    return Path(path).read_bytes(), int(Path(path).parent.name)


def shiftdata_loader(out: Path, workers: int, turbo: bool) -> Any:
    import shiftdata as sd
    from shiftdata.loading.batches import decode

    if not turbo:
        decode._turbo = lambda: None
    return sd.task(out / "shift" / "bench_jpeg").loader(
        "train", sampler="shuffle", batch_size=BATCH, workers=workers
    )


class Limit:
    """What the machine decodes: threads that have the bytes in memory, into one picture's memory each."""

    def __init__(self, out: Path, workers: int, turbo: bool) -> None:
        self.data = [path.read_bytes() for path in sorted((out / "folder").glob("*/*.jpg"))]
        self.workers = workers
        self.turbo = turbo

    def __iter__(self) -> Iterator[tuple[range]]:
        parts = [self.data[number :: self.workers] for number in range(self.workers)]
        threads = [threading.Thread(target=self._decode, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield (range(len(self.data)),)

    def _decode(self, part: list[bytes]) -> None:
        import simplejpeg

        out = np.empty((SIDE, SIDE, 3), np.uint8)
        for data in part:
            if self.turbo:
                simplejpeg.decode_jpeg(data, buffer=out)
            else:
                out[...] = Image.open(io.BytesIO(data)).convert("RGB")


OURS, LITDATA = "shiftdata", "litdata"
READERS: dict[str, Callable[[Path, int, bool], Any]] = {
    OURS: shiftdata_loader,
    "folder": folder,
    "webdataset": webdataset,
    "HF streaming": hf_streaming,
    "HF map-style": hf_map,
    LITDATA: litdata,
    "limit": Limit,
}
