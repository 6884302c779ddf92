"""AdaIN over VGG-19, images a second from album to spool: ours against the loop of its public codes.

    python scripts/bench/adain.py               # random weights of VGG-19's shapes: the speed is the same
    python scripts/bench/adain.py --device cuda --precision bfloat16 --batch 20 --compiled

The reference paints one image after the other, on all cores or on the device: content and style picture
are encoded anew for each image, as the public codes do, with style pictures of 256 and of 512 pixels, by
plain layers of torch. Ours is `builders.make.render`: a process a core, or one process and three threads
for a device. Both store JPEG. Contestants run in turn, some times over; the medians are printed. The busy
share is ours over what the network paints when it does nothing else.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn import Conv2d, MaxPool2d, Module, ReflectionPad2d, ReLU, Sequential, Upsample

from builders.albums.emoji import EmojiAlbum
from builders.make import render
from builders.recipe_files import load_recipe
from builders.shifts.steps import OnGround
from builders.shifts.styles.bank import encode_folder
from builders.shifts.stylizers import AdaIN
from builders.shifts.stylizers.vgg import VGG19, as_read, decoder_plan, shown
from builders.spool import Spool
from shiftdata.data.executors import Here, Pool
from shiftdata.threads import available_cores

sys.path.insert(0, str(Path(__file__).parents[1]))

from style_pictures import STYLES, draw_style

WIDTHS = (64, 128, 256, 512)
SIDE = 256
RECIPE = """
from pathlib import Path
from builders.albums.emoji import EmojiAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.stylizers import AdaIN

ADAIN = AdaIN(encoder={encoder!r}, decoder={decoder!r}, {options})
RECIPE = Recipe(
    name="adain_speed", family="stylized", version="1.0.0", released="2026-11-23",
    title="Speed", summary="Speed.", creators=("Speed",), citation="None.",
    album=EmojiAlbum(size=256), nuisance="style",
    prepare=(OnGround(size=256),),
    shift=Stylize(seed=0, dataset="adain_speed", styles=Path({bank!r}), stylizer=ADAIN),
    encoding=ImageEncoding(), bases=(Base(name="all", summary="All."),), default_base="all",
)
"""


def encoder() -> Sequential:
    """VGG-19 up to relu4_1, as torchvision has it."""
    parts: list[Module] = []
    reads = 3
    for block, width in enumerate(WIDTHS):
        parts += [MaxPool2d(2)] if block else []
        for _ in range(VGG19[block] if block < 3 else 1):
            parts += [Conv2d(reads, width, 3, padding=1), ReLU()]
            reads = width
    return Sequential(*parts)


def decoder() -> Sequential:
    """The published decoder."""
    parts: list[Module] = []
    for step in decoder_plan(VGG19, WIDTHS):
        parts += [ReflectionPad2d(1), Conv2d(step.reads, step.gives, 3), ReLU()]
        parts += [Upsample(scale_factor=2)] if step.doubles else []
    return Sequential(*parts[:-1])


def jpeg(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=92, subsampling=0)
    return stream.getvalue()


class Reference:
    """The public loop: one image, everything encoded anew."""

    def __init__(self, device: str, contents: list[Image.Image], styles: list[Image.Image]) -> None:
        self.device, self.contents, self.styles = device, contents, styles
        self.encoder, self.decoder = encoder().to(device).eval(), decoder().to(device).eval()

    def run(self, images: int, style_side: int) -> None:
        for number in range(images):
            content = self.contents[number % len(self.contents)]
            style = self.styles[number % len(self.styles)].resize((style_side, style_side))
            with torch.no_grad():
                content_features, style_features = (self.encoder(self.read(one)) for one in (content, style))
                moved = (content_features - content_features.mean((2, 3), keepdim=True)) / (
                    content_features.std((2, 3), keepdim=True) + 1e-6
                )
                moved = moved * style_features.std((2, 3), keepdim=True) + style_features.mean(
                    (2, 3), keepdim=True
                )
                (made,) = shown(self.decoder(moved), "imagenet", content.size)
            jpeg(made)

    def read(self, picture: Image.Image) -> torch.Tensor:
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        x = pixels.view(1, picture.height, picture.width, 3).permute(0, 3, 1, 2).float()
        return as_read(x.to(self.device), "imagenet")


def prepared(folder: Path, options: argparse.Namespace) -> tuple[str, AdaIN]:
    """Weights, a bank of codes, and a recipe that paints in them."""
    torch.manual_seed(0)
    files = {"encoder": options.encoder, "decoder": options.decoder}
    for name, network in (("encoder", encoder()), ("decoder", decoder())):
        if files[name] is None:
            files[name] = str(folder / f"{name}.safetensors")
            save_file(network.state_dict(), files[name])
    fields = {"device": options.device, "precision": options.precision, "batch": options.batch}
    fields |= {"compiled": options.compiled}
    adain = AdaIN(**files, **fields)
    for style in list(STYLES["style-bank"])[: options.styles]:
        (folder / "styles" / style).mkdir(parents=True)
        draw_style(style, 0).save(folder / "styles" / style / "0.png")
    encode_folder(folder / "styles", adain).write(folder / "bank.parquet", adain)
    text = RECIPE.format(
        **files, options=", ".join(f"{k}={v!r}" for k, v in fields.items()), bank=str(folder / "bank.parquet")
    )
    (folder / "recipe.py").write_text(text)
    return str(folder / "recipe.py"), adain


def ours(recipe: str, folder: Path, pictures: int, device: str) -> None:
    loaded = load_recipe(recipe)
    blocks = render.cut_into_blocks(loaded, "shift", loaded.album.items()[:pictures])
    spool = Spool(folder)
    spool.open({})
    # Blocks of few pictures, so that each core has its share.
    items = [item for block in blocks for item in block.items]
    few = [render.Block("shift", (item,), 1) for item in items]
    render.render(recipe, few, spool, Pool(available_cores()) if device == "cpu" else Here())


def alone(recipe: str, adain: AdaIN, content: Image.Image) -> float:
    """Images a second of one process that only paints one picture in all styles."""
    bank = load_recipe(recipe).shift._bank  # type: ignore[attr-defined]
    codes = [bank.code(style, 0) for style in bank.names]
    adain.stylize(content, codes, [1.0] * len(codes))
    started = time.perf_counter()
    adain.stylize(content, codes, [1.0] * len(codes))
    return len(codes) / (time.perf_counter() - started)


def main() -> None:
    """Run every contestant in turn, and print images a second and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--encoder", help="VGG-19's weights (default: random ones)")
    parser.add_argument("--decoder", help="the decoder's weights (default: random ones)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--pictures", type=int, default=4, help="content pictures of ours")
    parser.add_argument("--styles", type=int, default=20)
    parser.add_argument("--reference", type=int, default=20, help="images that the reference paints")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    album, ground = EmojiAlbum(size=SIDE), OnGround(size=SIDE)
    contents = [ground.compose(album.load(item), item.key) for item in album.items()[: options.pictures]]
    styles = [draw_style(style, 0) for style in list(STYLES["style-bank"])[: options.styles]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        recipe, adain = prepared(folder, options)
        reference = Reference(options.device, contents, styles)
        images = options.pictures * options.styles
        contestants: dict[str, tuple[int, Callable[[int], None]]] = {
            "reference, styles of 256": (options.reference, lambda _: reference.run(options.reference, 256)),
            "reference, styles of 512": (options.reference, lambda _: reference.run(options.reference, 512)),
            "ours": (images, lambda n: ours(recipe, folder / f"spool{n}", options.pictures, options.device)),
        }
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for number, name in enumerate(islice(cycle(contestants), options.repeats * len(contestants))):
            count, run = contestants[name]
            started = time.perf_counter()
            run(number)
            rates[name].append(count / (time.perf_counter() - started))
        best = statistics.median(rates["ours"])
        print(f"{SIDE} pixels, {options.device}, {available_cores()} cores, {options.repeats} turns, medians")
        for name, found in rates.items():
            rate = statistics.median(found)
            print(f"{name:<26}{rate:7.2f} images/s   ours is {best / rate:.2f} x")
        processes = available_cores() if options.device == "cpu" else 1
        painted = alone(recipe, adain, contents[0]) * processes
        print(f"busy share {best / painted:.2f} (painting alone: {painted:.2f} images/s)")


if __name__ == "__main__":
    main()
