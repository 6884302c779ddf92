"""Stylized images a second, from album to disk: our render against a plain loop at the same size and cores.

    python scripts/bench/stylizer.py [--pictures 160] [--repeats 3]

The plain loops do what the network's own package does for one picture and one style picture (encode the
style, transform, save), with one session on all cores, at our size instead of its 384 pixels:

    plain          the style is encoded again for every picture, as the package's call does
    plain, codes   style codes come from our bank, so only the transform is compared

Ours is `builders.make.render` with a process a core, starting the processes included. All run in turn,
several times.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image

from builders.albums.glyphs import GlyphAlbum
from builders.items import ItemTable
from builders.make import render
from builders.recipe import Recipe
from builders.recipe_files import load_recipe
from builders.sample import Item
from builders.shifts.steps import OnGround
from builders.shifts.styles.bank import StyleBank
from builders.spool import Spool
from shiftdata.data.executors import Pool
from shiftdata.threads import available_cores

ROOT = Path(__file__).resolve().parents[2]
RECIPE = "sma_glyphs"
SIDE = 128  # of a picture: twice that of the recipe
QUALITY = 92


class PlainLoop:
    """The network as its package runs it: one session a graph, the graphs as they came but for the size."""

    def __init__(self, folder: Path, cores: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = cores
        graphs = _script("regenerate_style_network").fetch_graphs(folder)
        transform = graphs["transform"].graph
        for tensor in (*transform.input, *transform.output):
            for axis in tensor.type.tensor_type.shape.dim[1:3]:
                if axis.dim_value > 1:
                    axis.Clear()
        self.predict, self.transform = (
            ort.InferenceSession(graphs[name].SerializeToString(), options)
            for name in ("predict", "transform")
        )

    def code(self, style: Image.Image) -> NDArray[np.float32]:
        """Encode a style picture, already at the 256 pixels of the network."""
        pixels = np.asarray(style, dtype=np.float32)[None] / 255
        name = self.predict.get_inputs()[0].name
        code: NDArray[np.float32] = self.predict.run(None, {name: pixels})[0]
        return code

    def stylize(self, picture: Image.Image, code: NDArray[np.float32]) -> Image.Image:
        """Transform one picture with one style code."""
        content, vector = (tensor.name for tensor in self.transform.get_inputs())
        pixels = np.asarray(picture, dtype=np.float32)[None] / 255
        made = self.transform.run(None, {content: pixels, vector: code.reshape(1, 1, 1, 100)})[0][0]
        return Image.fromarray((np.clip(made, 0, 1) * 255 + 0.5).astype(np.uint8))


def plain(
    loop: PlainLoop, recipe: Recipe, items: Sequence[Item], folder: Path, *, encode_styles: bool
) -> None:
    """Stylize every item in every style, one after the other, and save each image to a file."""
    sys.path.append(str(Path(__file__).parents[1]))
    from style_pictures import DRAWINGS, draw_style

    bank = StyleBank.load()
    styles = {name: draw_style(DRAWINGS[name], 0).convert("RGB").resize((256, 256)) for name in bank.names}
    folder.mkdir()
    for item in items:
        (sample,) = render.render_item(recipe, "content", item)
        for name in bank.names:
            code = loop.code(styles[name]) if encode_styles else bank.code(name, 0)
            path = folder / f"{item.key}-{name}.jpg"
            loop.stylize(sample.image, code).save(path, quality=QUALITY, subsampling=0)


def ours(recipe: Recipe, items: Sequence[Item], folder: Path, cores: int) -> None:
    """The same images by the house's render."""
    blocks = render.blocks_of(recipe, "shift", ItemTable.of(items))
    spool = Spool(folder)
    spool.open({})
    render.render(recipe, RECIPE, blocks, spool, Pool(cores))


def main() -> None:
    """Run every contestant in turn, some times over, and print images a second and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pictures", type=int, default=160, help="content pictures (default: 160)")
    parser.add_argument("--repeats", type=int, default=3, help="turns (default: 3)")
    options = parser.parse_args()
    ground = OnGround(size=SIDE)
    album = GlyphAlbum(size=ground.inner)
    recipe, cores = replace(load_recipe(RECIPE), album=album, prepare=(ground,)), available_cores()
    every = album.items()
    items = list(islice(every, 0, None, len(every) // options.pictures))[: options.pictures]
    images = len(items) * len(recipe.shift.nuisances)
    with tempfile.TemporaryDirectory() as scratch:
        loop = PlainLoop(Path(scratch), cores)
        contestants: dict[str, Callable[[Path], None]] = {
            "plain": lambda folder: plain(loop, recipe, items, folder, encode_styles=True),
            "plain, codes": lambda folder: plain(loop, recipe, items, folder, encode_styles=False),
            "ours": lambda folder: ours(recipe, items, folder, cores),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        turns = islice(cycle(contestants), options.repeats * len(contestants))
        for number, name in enumerate(turns):
            started = time.perf_counter()
            contestants[name](Path(scratch) / str(number))
            seconds[name].append(time.perf_counter() - started)
    print(
        f"{images} images of {recipe.prepare[0].size} pixels, {cores} cores, {options.repeats} turns, medians"
    )
    best = statistics.median(seconds["ours"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{name:<14}{images / median:7.1f} images/s   ours is {median / best:.2f} x")


def _script(name: str) -> ModuleType:
    """Another script of this folder's parent, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"scripts/{name}.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
