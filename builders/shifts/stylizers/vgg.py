"""VGG-19 and its decoders, from files of weights in the public layouts.

Weights are matched by the order of their names and by their shapes, never by name: one network has been
published under many. The number of channels is that of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from PIL import Image

from builders.shifts.stylizers.weights import Place, natural, read_weights
from shiftdata.errors import InputError, not_found

if TYPE_CHECKING:
    from torch import Tensor

Range: TypeAlias = Literal["imagenet", "unit"]

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Convolutions of each block; poolings lie between the blocks.
BLOCKS = (2, 2, 4, 4, 4)


@dataclass(frozen=True)
class Layout:
    """A public VGG-19: the range of what it reads and its decoders give, and the padding."""

    range: Range
    padding: Literal["constant", "reflect"]
    mixes_colours: bool = False  # a convolution of 1 x 1 comes first, which normalises


LAYOUTS: Mapping[str, Layout] = {
    "vgg19": Layout("imagenet", "constant"),  # torchvision's
    "vgg19-normalised": Layout("unit", "reflect", mixes_colours=True),  # of AdaIN's authors
}


class Convolution(NamedTuple):
    """One of a network, under the name of its place in a VGG."""

    name: str
    weight: Tensor
    bias: Tensor


class Vgg:
    """The convolutions of a VGG up to a layer: from what `read` gives to the layers that are asked for."""

    def __init__(self, place: Place, layout: str, last: str, device: Any = "cpu", kind: Any = None) -> None:
        self.layout, self.last = layout_of(layout), last
        found = list(_convolutions(read_weights(place), "encoder"))
        names = _names(self.layout, last)
        _check_encoder(place, layout, names, found)
        self.convolutions = [
            Convolution(name, *_placed(one, device, kind)) for name, one in zip(names, found, strict=False)
        ]
        self.widths = _widths(self.convolutions)

    @property
    def stride(self) -> int:
        """The pixels of a picture, each way, behind one place of the last layer."""
        return int(2 ** (int(self.last[4]) - 1))

    def read(self, picture: Image.Image) -> Tensor:
        """A picture as the network reads it, enlarged by reflection to whole strides."""
        import torch

        pixels = np.asarray(picture.convert("RGB"), dtype=np.float32)
        fill = [(0, -side % self.stride) for side in pixels.shape[:2]]
        weight = self.convolutions[0].weight
        padded = np.pad(pixels, [*fill, (0, 0)], mode="reflect").transpose(2, 0, 1)[None]
        x = torch.from_numpy(np.ascontiguousarray(padded)).to(weight.device)
        return as_read(x, self.layout.range).to(weight.dtype)

    def __call__(self, x: Tensor, layers: Collection[str]) -> dict[str, Tensor]:
        from torch.nn import functional

        found: dict[str, Tensor] = {}
        for convolution in self.convolutions:
            if convolution.name.endswith("_1") and convolution.name != "conv1_1":
                x = functional.max_pool2d(x, 2)  # sides are whole strides: rounding up or down is one
            if convolution.name == "colours":
                x = functional.conv2d(x, convolution.weight, convolution.bias)
                continue
            x = functional.relu(
                functional.conv2d(
                    functional.pad(x, (1, 1, 1, 1), self.layout.padding), convolution.weight, convolution.bias
                )
            )
            if (name := convolution.name.replace("conv", "relu")) in layers:
                found[name] = x
                if len(found) == len(layers):
                    break
        return found


class Decoder:
    """The mirror of a VGG up to relu4_1: from its features to a picture."""

    def __init__(self, place: Place, vgg: Vgg) -> None:
        found = list(_convolutions(read_weights(place), "decoder"))
        self.plan = decoder_plan(vgg.widths)
        shapes = [tuple(one[0].shape) for one in found]
        wanted = [(step.gives, step.reads, 3, 3) for step in self.plan]
        if shapes != wanted:
            at = next(
                (n for n, pair in enumerate(zip(shapes, wanted, strict=False)) if pair[0] != pair[1]), -1
            )
            first = f"number {at + 1} is {shapes[at]} instead of {wanted[at]}" if at >= 0 else "fewer or more"
            raise InputError(
                f"{place} is not a decoder from {vgg.last} of this encoder: it has {len(shapes)} "
                f"convolutions and should have {len(wanted)}; {first}"
            )
        like = vgg.convolutions[0].weight
        self.convolutions = [
            _placed((_of_doubled(weight) if doubled else weight, bias), like.device, like.dtype)
            for (weight, bias), doubled in zip(found, self._doubled, strict=True)
        ]

    @property
    def _doubled(self) -> list[bool]:
        return [False, *(step.doubles for step in self.plan[:-1])]

    def __call__(self, x: Tensor) -> Tensor:
        from torch.nn import functional

        last = len(self.plan) - 1
        steps = zip(self.convolutions, self._doubled, strict=True)
        for number, ((weight, bias), doubled) in enumerate(steps):
            if doubled:
                x = functional.relu(_doubled_convolution(x, weight, bias))
                continue
            x = functional.conv2d(functional.pad(x, (1, 1, 1, 1), "reflect"), weight, bias)
            x = x if number == last else functional.relu(x)
        return x


def _of_doubled(weight: Tensor) -> Tensor:
    """A convolution of 3 x 3 on a doubled map as four of 2 x 2 on the map itself, one a corner of each pixel.

    Each pixel of the doubled map is there twice, so that two of three weights meet the same number.
    """
    import torch

    rows = (
        (weight[:, :, 0], weight[:, :, 1] + weight[:, :, 2]),
        (weight[:, :, 0] + weight[:, :, 1], weight[:, :, 2]),
    )
    corners = []
    for above, below in rows:
        pair = torch.stack((above, below), 2)
        left, middle, right = pair.unbind(3)
        corners += [torch.stack((left, middle + right), 3), torch.stack((left + middle, right), 3)]
    return torch.cat(corners)


def _doubled_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The convolution of a doubled map, with reflected borders, in 4 / 9 of the work."""
    import torch
    from torch.nn import functional

    high, wide, gives = x.shape[2], x.shape[3], len(bias)
    corners = functional.conv2d(functional.pad(x, (1, 1, 1, 1), "replicate"), weight, bias.repeat(4))
    order = torch.channels_last if x.is_cuda else torch.contiguous_format
    shape = (len(x), gives, 2 * high, 2 * wide)
    doubled = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=order)
    for corner in range(4):
        down, right = divmod(corner, 2)
        part = corners[:, corner * gives : (corner + 1) * gives]
        doubled[:, :, down::2, right::2] = part[:, :, down : down + high, right : right + wide]
    return doubled


class Step(NamedTuple):
    """One convolution of a decoder, and whether its result is doubled in size."""

    reads: int
    gives: int
    doubles: bool


def decoder_plan(widths: Sequence[int]) -> list[Step]:
    """The convolutions of the decoder that mirrors a VGG up to the first layer of its last block of `widths`.

    >>> len(decoder_plan((64, 128, 256, 512)))
    9
    """
    plan: list[Step] = []
    for block in range(len(widths) - 1, 0, -1):
        wide, narrow = widths[block], widths[block - 1]
        plan.append(Step(wide, narrow, doubles=True))
        plan += [Step(narrow, narrow, doubles=False)] * (BLOCKS[block - 1] - 1)
    return [*plan, Step(widths[0], 3, doubles=False)]


def layout_of(name: str) -> Layout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise not_found("layout of a VGG", name, LAYOUTS)
    return LAYOUTS[name]


def as_read(x: Tensor, span: Range) -> Tensor:
    """Pixels from 0 to 255, n x RGB x h x w, in the range that a network reads."""
    unit = x / 255
    if span == "unit":
        return unit
    return (unit - x.new_tensor(MEAN).view(-1, 1, 1)) / x.new_tensor(DEVIATION).view(-1, 1, 1)


def shown(y: Tensor, span: Range, size: tuple[int, int]) -> Iterator[Image.Image]:
    """Pictures of numbers in a range, cut to a size (width, height)."""
    y = y.float()
    if span == "imagenet":
        y = y * y.new_tensor(DEVIATION).view(-1, 1, 1) + y.new_tensor(MEAN).view(-1, 1, 1)
    pixels = (y.clamp(0, 1) * 255).round().byte()[..., : size[1], : size[0]]
    for picture in pixels.permute(0, 2, 3, 1).cpu().numpy():
        yield Image.fromarray(np.ascontiguousarray(picture))


def _names(layout: Layout, last: str) -> list[str]:
    """The names of a layout's convolutions up to a layer."""
    names = [f"conv{b}_{n}" for b, count in enumerate(BLOCKS, 1) for n in range(1, count + 1)]
    last_at = names.index(last.replace("relu", "conv"))
    return [*(["colours"] if layout.mixes_colours else []), *names[: last_at + 1]]


def _convolutions(state: Mapping[str, Tensor], part: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Weight and bias of every convolution, in the order of the names; of one part where a file has two."""
    named = [name for name in state if name.endswith("weight") and state[name].ndim == 4]
    of_part = [name for name in named if part in name]
    for name in sorted(of_part or named, key=natural):
        weight = state[name]
        bias = state.get(name.removesuffix("weight") + "bias")
        yield weight, weight.new_zeros(len(weight)) if bias is None else bias


def _check_encoder(
    place: Place, layout: str, names: Sequence[str], found: Sequence[tuple[Tensor, Tensor]]
) -> None:
    fault: Callable[[str], InputError] = partial(_not_this, place, layout)
    if len(found) < len(names):
        raise fault(f"{names[-1]} is its convolution number {len(names)}, and the file has {len(found)}")
    most = sum(BLOCKS) + LAYOUTS[layout].mixes_colours
    if len(found) > most:
        raise fault(f"it has {most} convolutions, and the file has {len(found)}")
    reads, width = 3, 0
    for name, (weight, _) in zip(names, found, strict=False):
        side = 1 if name == "colours" else 3
        if tuple(weight.shape[1:]) != (reads, side, side):
            raise fault(
                f"{name} reads {reads} channels, {side} x {side}, and the file has {tuple(weight.shape)}"
            )
        if not name.endswith("_1") and name != "colours" and len(weight) != width:
            raise fault(f"{name} gives {width} channels, and the file has {tuple(weight.shape)}")
        reads = width = len(weight)


def _not_this(place: Place, layout: str, why: str) -> InputError:
    known = ", ".join(LAYOUTS)
    return InputError(f"{place} is not the weights of a {layout}: {why}; layouts are {known}")


def _widths(convolutions: Sequence[Convolution]) -> tuple[int, ...]:
    return tuple(len(convolution.weight) for convolution in convolutions if convolution.name.endswith("_1"))


def _placed(one: tuple[Tensor, Tensor], device: Any, kind: Any) -> tuple[Tensor, Tensor]:
    import torch

    weight, bias = (part.to(device, kind or torch.float32) for part in one)
    if weight.device.type == "cuda":
        weight = weight.contiguous(memory_format=torch.channels_last)
    return weight, bias
