"""The pictures that benches of loaders and trainers read, as a dataset and laid out for every reader."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

LABELS, SHARDS = 10, 8
RECIPE = """
from pathlib import Path
from builders.albums.folder import FolderAlbum
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from builders.encode import ImageEncoding

RECIPE = Recipe(
    name="bench_jpeg", family="domain", version="1.0.0", released="2026-01-31", title="Crops for a benchmark",
    summary="Crops of photographs.", creators=("shiftdata",), citation="None.",
    album=FolderAlbum(Path(__file__).parent / "crops", layout=("domain", "label"), license="CC0-1.0",
                      attribution="scikit-learn"),
    nuisance="domain", shift=Domains(names=("even", "odd")),
    encoding=ImageEncoding(format="jpeg", quality=85),
    bases=(Base(name="all", summary="Every crop."),), default_base="all",
)
"""
SIDE, NUMBER = 256, 8000  # half of them are for training


def noisy_crop(photos: list[Image.Image], number: int, rng: np.random.Generator, side: int) -> Image.Image:
    """A crop of one of two photographs, mostly enlarged, with noise: 22 KB as JPEG of quality 85."""
    photo = photos[number % 2]
    whole = int(rng.integers(120, 400))
    left, top = (int(rng.integers(0, most - whole)) for most in photo.size)
    crop = photo.crop((left, top, left + whole, top + whole)).resize((side, side), Image.Resampling.BICUBIC)
    noise = rng.normal(0, rng.uniform(2, 14), (side, side, 1))
    return Image.fromarray((np.asarray(crop) + noise).clip(0, 255).astype(np.uint8))


def prepare(out: Path) -> None:
    """Build the dataset, and lay its training set out for the peers, unless both are there."""
    if not (out / "ready").exists():
        built(out, NUMBER, SIDE)
        lay_out_for_peers(out)
        (out / "ready").touch()


def built(out: Path, number: int, side: int) -> Path:
    """Return the folder of the dataset; its pictures are drawn once, and a whole build is left as it is."""
    from builders.make.build import build

    with unfinished(out, "crops") as crops:
        if crops:
            draw(crops, number, side)
    (out / "recipe.py").write_text(RECIPE)
    return build(str(out / "recipe.py"), out, workers=2, quiet=True)


@contextmanager
def unfinished(out: Path, name: str) -> Iterator[Path | None]:
    """A folder to fill, renamed at the end; None where it was filled before."""
    folder = out / f"{name}.unfinished"
    if (out / name).exists():
        yield None
        return
    shutil.rmtree(folder, ignore_errors=True)
    yield folder
    folder.rename(out / name)


def draw(folder: Path, count: int, side: int) -> None:
    """Write the crops as files."""
    from sklearn.datasets import load_sample_images

    photos = [Image.fromarray(photo) for photo in load_sample_images().images]
    for number in range(count):
        crop = noisy_crop(photos, number, np.random.default_rng(number), side)
        path = folder / ("even", "odd")[number % 2] / f"label{number // 2 % LABELS}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop.save(path, compress_level=1)


def lay_out_for_peers(out: Path) -> None:
    """The training set as files in folders, as tar shards, and as Parquet shards of `datasets`."""
    import datasets

    import shiftdata as sd

    examples = list(sd.task(out / "shift" / "bench_jpeg").dataset("train", decode=False))
    order = np.random.default_rng(0).permutation(len(examples))
    for folder in ("folder", "tar", "parquet"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir()
    for shard in range(SHARDS):
        mine = [examples[number] for number in order[shard::SHARDS]]
        with tarfile.open(out / "tar" / f"{shard:03d}.tar", "w") as tar:
            for data, label, known in mine:
                for ending, content in (("jpg", data), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{known['key']}.{ending}")
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
