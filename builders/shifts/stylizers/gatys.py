"""Neural style (Gatys et al. 2015): a picture is optimised until its features correlate as the style's do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from builders.shifts.stylizers.stylizer import FloatArray
from builders.shifts.stylizers.vgg import Neural, Vgg, layout_of, middle_square, shown
from builders.shifts.stylizers.weights import Place, weights_hash
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from torch import Tensor

CONTENT = "relu4_2"
STYLES = ("relu1_1", "relu2_1", "relu3_1", "relu4_1", "relu5_1")


@dataclass(frozen=True, kw_only=True)
class Gatys(Neural):
    """Slow and good: L-BFGS for `steps` iterations a picture, from the picture itself. No decoder is needed.

    The loss is the mean square distance to the content at relu4_2, plus `style_weight` times that of the Gram
    matrices at five layers, each measured in its content's own mean square. Poolings take means, as the paper
    advises. A code is the upper halves of the Gram matrices of the style's middle square at `style_side`
    pixels. Strength goes in a straight line from the picture's own matrices to these: near 0 it is untouched.
    """

    code_version: ClassVar[int] = 1
    name: ClassVar[str] = "gatys"

    encoder: Place
    variant: str = "vgg19"
    style_side: int = 256
    style_weight: float = 1.0
    steps: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        layout_of(self.variant)
        if self.style_side < self.min_side or self.steps < 1 or not 0 < self.style_weight < np.inf:
            raise InputError(
                f"style_side is at least {self.min_side}, steps at least 1, style_weight above 0; got "
                f"{self.style_side}, {self.steps}, {self.style_weight}"
            )
        if self.precision != "float32":
            raise InputError("gatys needs precision='float32': L-BFGS does not converge in lower precision")

    def codes_id(self) -> str:
        return content_hash("gatys", self.variant, str(self.style_side), weights_hash(self.encoder))

    def fingerprint(self) -> str:
        return content_hash(*self.settings, self.codes_id(), str(self.style_weight), str(self.steps))

    @cached_property
    def _vgg(self) -> Vgg:
        return Vgg(self.encoder, self.variant, STYLES[-1], self.place, self.kind, pooling="mean")

    def encode(self, picture: Image.Image) -> FloatArray:
        with self.painting(picture.size):
            layers = self._vgg(self._vgg.read(middle_square(picture, self.style_side)), STYLES)
            halves = [_upper(gram(layers[name])) for name in STYLES]
            code: FloatArray = self.torch.cat(halves).cpu().numpy()
        return code

    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterator[Image.Image]:
        vgg = self._vgg
        for code, strength in zip(codes, strengths, strict=True):
            with self.painting(picture.size, gradients=True):
                start = vgg.read(picture)
                own = {name: layer.detach() for name, layer in vgg(start, (*STYLES, CONTENT)).items()}
                grams = [gram(own[name]) for name in STYLES]
                wanted = [g + strength * (to - g) for g, to in zip(grams, self._grams(code), strict=True)]
                pixels = self._optimised(start, own[CONTENT], wanted)
                (painted,) = shown(pixels, vgg.layout.reads, picture.size)
            yield painted

    def _optimised(self, start: Tensor, content: Tensor, wanted: Sequence[Tensor]) -> Tensor:
        x = start.clone().requires_grad_()
        optimizer = self.torch.optim.LBFGS(
            [x], max_iter=self.steps, line_search_fn="strong_wolfe", tolerance_change=0, tolerance_grad=0
        )
        scales = [to.square().mean().clamp_min(1e-12) for to in wanted]
        far = content.square().mean().clamp_min(1e-12)

        def loss() -> Any:
            optimizer.zero_grad()
            layers = self._vgg(x, (*STYLES, CONTENT))
            total = (layers[CONTENT] - content).square().mean() / far
            for name, to, scale in zip(STYLES, wanted, scales, strict=True):
                total = total + self.style_weight * (gram(layers[name]) - to).square().mean() / scale
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)
        return x.detach()

    def _grams(self, code: FloatArray) -> list[Tensor]:
        widths = self._vgg.widths
        sizes = [width * (width + 1) // 2 for width in widths]
        if len(code) != sum(sizes):
            raise InputError(
                f"a code of this encoder has {sum(sizes):,} numbers, got {len(code):,}: encode "
                "the styles again"
            )
        flat = self.torch.tensor(code, device=self.place, dtype=self.kind)
        matrices = []
        for width, half in zip(widths, flat.split(sizes), strict=True):
            whole = flat.new_zeros(width, width)
            rows, columns = self.torch.triu_indices(width, width, device=flat.device)
            whole[rows, columns] = half
            whole[columns, rows] = half
            matrices.append(whole)
        return matrices


def gram(features: Tensor) -> Tensor:
    """The mean product of each two channels over the places of one feature map."""
    flat = features[0].flatten(1).float()
    return flat @ flat.T / flat.shape[1]


def _upper(matrix: Tensor) -> Tensor:
    import torch

    rows, columns = torch.triu_indices(*matrix.shape, device=matrix.device)
    return matrix[rows, columns]
