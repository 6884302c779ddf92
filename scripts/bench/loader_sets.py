"""The pictures that loader benches read, and each set of them built and laid out for every reader."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peer_environments import python_of, site_packages
from PIL import Image

LABELS, SHARDS = 10, 8
TAR_BYTES = 16 << 20
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
                      attribution="scikit-learn, scikit-image, matplotlib"),
    nuisance="domain", shift=Domains(names=("even", "odd")),
    encoding=ImageEncoding({encoding}),
    bases=(Base(name="all", summary="Every crop."),), default_base="all",
)
"""
JPEG, PNG = 'format="jpeg", quality=85', 'format="png"'


@dataclass(frozen=True)
class Pictures:
    """What a set shows; a half of `number` is for training."""

    side: int
    number: int
    crop: Callable[[list[Image.Image], int, np.random.Generator, int], Image.Image]
    encoding: str = JPEG

    @property
    def description(self) -> str:
        return f"{self.side} px {'JPEG' if self.encoding == JPEG else 'PNG'}"

    @property
    def decoders(self) -> tuple[str, ...]:
        """That of peers' users last. PNG has one: libjpeg-turbo does not read it."""
        return ("turbo", "Pillow") if self.encoding == JPEG else ("Pillow",)


def noisy_crop(photos: list[Image.Image], number: int, rng: np.random.Generator, side: int) -> Image.Image:
    """A crop of one of two photographs, mostly enlarged, with noise: 22 KB as JPEG of quality 85."""
    photo = photos[number % 2]
    whole = int(rng.integers(120, 400))
    left, top = (int(rng.integers(0, most - whole)) for most in photo.size)
    crop = photo.crop((left, top, left + whole, top + whole)).resize((side, side), Image.Resampling.BICUBIC)
    noise = rng.normal(0, rng.uniform(2, 14), (side, side, 1))
    return Image.fromarray((np.asarray(crop) + noise).clip(0, 255).astype(np.uint8))


def plain_crop(photos: list[Image.Image], number: int, rng: np.random.Generator, side: int) -> Image.Image:
    """A crop of a photograph as it is, or made up to two times smaller; only for 512 px 1.2 times larger."""
    photo = photos[number % len(photos)]
    whole = min(int(rng.integers(side, 2 * side + 1)), *photo.size)
    left, top = (int(rng.integers(0, most - whole + 1)) for most in photo.size)
    box = (left, top, left + whole, top + whole)
    return photo.resize((side, side), Image.Resampling.LANCZOS, box=box)


SETS = {
    "noisy": Pictures(256, 8000, noisy_crop),
    "photographs": Pictures(256, 4000, plain_crop),
    "png": Pictures(256, 2000, plain_crop, PNG),
    "512px": Pictures(512, 2000, plain_crop),
    "128px": Pictures(128, 4000, plain_crop),
    "64px": Pictures(64, 8000, plain_crop),
}


def photographs() -> list[Image.Image]:
    """Two of scikit-learn, one of matplotlib, five of scikit-image; each at least 400 px high and wide."""
    import matplotlib
    from sklearn.datasets import load_sample_images

    python_of("scikit-image")
    others = site_packages("scikit-image") / "skimage" / "data"
    names = ("astronaut.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "hubble_deep_field.jpg")
    paths = [
        Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg"),
        *map(others.joinpath, names),
    ]
    photos = [Image.fromarray(photo) for photo in load_sample_images().images]
    return [*photos, *(Image.open(path).convert("RGB") for path in paths)]


def prepare(out: Path, name: str) -> None:
    """Draw the pictures of a set, build the dataset, and lay its training set out for the peers."""
    if (out / "ready").exists():
        return
    from builders.make.build import build
    from shiftdata.data.exporting.webdataset import export

    pictures = SETS[name]
    with unfinished(out, "crops") as crops:
        if crops:
            draw(pictures, crops)
    (out / "recipe.py").write_text(RECIPE.format(encoding=pictures.encoding))
    build(str(out / "recipe.py"), out, workers=2, quiet=True, replace=True)
    lay_out_for_peers(out, "jpg" if pictures.encoding == JPEG else "png")
    export(out / "shift" / "bench_jpeg", out / "shift" / "bench_jpeg_wds", shard_bytes=TAR_BYTES)
    (out / "ready").touch()


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


def draw(pictures: Pictures, folder: Path) -> None:
    """Write the crops of a set as files."""
    photos = photographs()
    for number in range(pictures.number):
        crop = pictures.crop(photos, number, np.random.default_rng(number), pictures.side)
        path = folder / ("even", "odd")[number % 2] / f"label{number // 2 % LABELS}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop.save(path, compress_level=1)


def lay_out_for_peers(out: Path, suffix: str) -> None:
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
                for ending, content in ((suffix, data), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{known['key']}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
                path = out / "folder" / str(label) / f"{known['key']}.{suffix}"
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
