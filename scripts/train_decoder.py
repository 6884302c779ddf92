"""Train a decoder for a VGG, for AdaIN (from relu4_1) or Style-Swap (from relu3_1), where no public one fits.

    python scripts/vgg16_hed.py vgg16_hed.safetensors
    python scripts/train_decoder.py vgg16_hed.safetensors decoder.safetensors --variant vgg16-hed
    python scripts/train_decoder.py vgg19.pth decoder.safetensors --pictures photos --steps 160000

As the paper of AdaIN does: the decoder sees features of a content picture in the moments of another
picture's features; its loss is the distance of its picture's features to these, plus 10 times that of the
moments at relu1_1 to relu4_1, each in mean squares of what it should be (the paper's are not). In the first
steps, and from relu3_1 in all, it learns to give back pictures, as Style-Swap's inverse network does; with
`--warm-up 1` in all: what can be had in minutes.

`--pictures` is a folder of pictures; without one, the embedded emoji and the drawings behind the style bank
serve, which is enough to see that everything works. The paper trains 160,000 steps on photographs and
paintings.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Conv2d, Module, ReflectionPad2d, ReLU, Sequential, Upsample, functional
from torch.nn.init import kaiming_normal_
from tqdm import tqdm

from builders.albums.emoji import EmojiAlbum
from builders.albums.folder import ENDINGS
from builders.shifts.steps import OnGround
from builders.shifts.stylizers.adain import moments
from builders.shifts.stylizers.vgg import DEVIATION, LAYOUTS, MEAN, Range, Vgg, as_read, decoder_plan

LAYERS = ("relu1_1", "relu2_1", "relu3_1", "relu4_1")
STYLE_WEIGHT = 10.0


def network(vgg: Vgg, features: Tensor) -> Module:
    """A decoder that is not trained yet, for features as large as these."""
    parts: list[Module] = []
    plan = decoder_plan(vgg.layout.blocks, vgg.widths)
    for step in plan:
        parts += [ReflectionPad2d(1), Conv2d(step.reads, step.gives, 3), ReLU()]
        parts += [Upsample(scale_factor=2)] if step.doubles else []
    convolutions = [part for part in parts if isinstance(part, Conv2d)]
    with torch.no_grad():
        for one in convolutions:
            kaiming_normal_(one.weight, nonlinearity="relu")
            one.bias.zero_()
        convolutions[0].weight /= features.square().mean().sqrt()
        # A grey picture to begin with: one that is out of range drives the rectifiers to 0.
        convolutions[-1].weight /= 8
        convolutions[-1].bias += 0.5 if vgg.layout.gives == "unit" else 0.0
    return Sequential(*parts[:-1])


def as_pixels(y: Tensor, gives: Range) -> Tensor:
    """From 0 to 255, what a decoder gives; not cut, so that the loss still draws."""
    if gives == "imagenet":
        y = y * y.new_tensor(DEVIATION).view(-1, 1, 1) + y.new_tensor(MEAN).view(-1, 1, 1)
    return y * 255


def loss_of(vgg: Vgg, decoder: Module, content: Tensor, style: Tensor | None, variant: str) -> Tensor:
    """AdaIN's loss; without a style, how far the picture is from the one behind the features."""
    reads, last = vgg.layout.reads, vgg.last
    with torch.no_grad():
        found = vgg(as_read(content, reads), [last])[last]
        if style is not None:
            wanted = vgg(as_read(style, reads), LAYERS)
            (mean, deviation), (to_mean, to_deviation) = (
                moments(found, variant),
                moments(wanted[last], variant),
            )
            found = (found - mean) / deviation * to_deviation + to_mean
    pixels = as_pixels(decoder(found), vgg.layout.gives)
    if style is None:
        return functional.mse_loss(pixels / 255, content / 255)
    made = vgg(as_read(pixels, reads), LAYERS)
    total = apart(made[last], found)
    for name in LAYERS:
        for one, other in zip(moments(made[name], variant), moments(wanted[name], variant), strict=True):
            total = total + STYLE_WEIGHT * apart(one, other)
    return total


def apart(one: Tensor, other: Tensor) -> Tensor:
    """The mean square distance, in mean squares of the second: one scale for every layer of every network."""
    return functional.mse_loss(one, other) / other.square().mean()


def pictures(folder: Path | None) -> list[Image.Image]:
    """The pictures to learn from."""
    if folder is not None:
        files = [file for file in sorted(folder.rglob("*")) if file.name.lower().endswith(ENDINGS)]
        if len(files) < 2:
            raise SystemExit(f"{folder} has {len(files)} pictures ({', '.join(ENDINGS)}): two are the least")
        return [Image.open(file).convert("RGB") for file in files]
    from style_pictures import STYLES, draw_style

    album, ground = EmojiAlbum(size=128), OnGround(size=128)
    made = [ground.compose(album.load(item), item.key) for item in album.items()[::8]]
    return made + [draw_style(name, n) for name in STYLES["style-bank"] for n in range(6)]


def crops(every: Sequence[Image.Image], side: int, count: int, draw: random.Random) -> Tensor:
    """Random squares of random pictures, from 0 to 255."""
    rows = []
    for picture in draw.choices(every, k=count):
        short = round(min(picture.size) * draw.uniform(0.6, 1))
        left, top = draw.randint(0, picture.width - short), draw.randint(0, picture.height - short)
        square = picture.crop((left, top, left + short, top + short)).resize((side, side))
        rows.append(np.asarray(square, np.float32).transpose(2, 0, 1))
    return torch.from_numpy(np.stack(rows))


def train(
    vgg: Vgg, every: Sequence[Image.Image], options: argparse.Namespace
) -> Iterator[tuple[float, Module]]:
    """The loss of each step, and the decoder."""
    torch.manual_seed(0)
    draw = random.Random(0)
    with torch.no_grad():
        first = vgg(
            as_read(crops(every, options.side, 8, draw).to(options.device), vgg.layout.reads), [vgg.last]
        )
    decoder = network(vgg, first[vgg.last]).to(options.device)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.steps + 1)
    for step in range(options.steps):
        content, style = (
            crops(every, options.side, options.batch, draw).to(options.device) for _ in range(2)
        )
        styled = vgg.last == LAYERS[-1] and step >= options.warm_up * options.steps
        loss = loss_of(vgg, decoder, content, style if styled else None, options.variant)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item(), decoder


def main() -> None:
    """Train, and write the decoder now and then."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", help="weights of the VGG: a path, or hf://owner/name/file")
    parser.add_argument("output", type=Path, help="the decoder, ending in .safetensors")
    parser.add_argument("--variant", default="vgg19", choices=sorted(LAYOUTS))
    parser.add_argument("--layer", default="relu4_1", choices=("relu3_1", "relu4_1"))
    parser.add_argument("--pictures", type=Path, help="a folder of pictures (default: the embedded ones)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--warm-up", type=float, default=0.3, help="share of the steps without styles")
    parser.add_argument("--side", type=int, default=128, help="of the crops, in pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    vgg = Vgg(options.encoder, options.variant, options.layer, options.device)
    steps = tqdm(train(vgg, pictures(options.pictures), options), total=options.steps, unit="step")
    for number, (loss, decoder) in enumerate(steps, 1):
        if number % 50 == 0:
            steps.set_postfix(loss=f"{loss:.3g}")
        if number % 500 == 0 or number == options.steps:
            parts = (part for part in decoder.children() if isinstance(part, Conv2d))
            state = {
                f"decoder.{at}.{name}": one
                for at, part in enumerate(parts)
                for name, one in part.state_dict().items()
            }
            save_file(state, options.output)


if __name__ == "__main__":
    main()
