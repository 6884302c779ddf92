"""Style-Swap (Chen and Schmidt 2016): a patch of features becomes the most similar one of the style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from PIL import Image

from builders.shifts.stylizers.stylizer import FloatArray
from builders.shifts.stylizers.vgg import Decoding, middle_square, shown
from builders.shifts.stylizers.weights import weights_hash
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from torch import Tensor

LAYER = "relu3_1"
PATCH = 3  # places a side


@dataclass(frozen=True, kw_only=True)
class StyleSwap(Decoding):
    """Patches of 3 x 3 places at relu3_1, with a decoder from there; `variant` is the layout of the encoder.

    A code is the feature map of the style picture's middle square at `style_side` pixels. The picture can
    all but be drawn again from it: a bank of such codes publishes the pictures. Strength goes in a straight
    line from the picture's own features to the swapped ones.
    """

    code_version: ClassVar[int] = 1
    layer: ClassVar[str] = LAYER
    name: ClassVar[str] = "style-swap"
    hides_pictures: ClassVar[bool] = False

    style_side: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.style_side < self.min_side:
            raise InputError(f"style_side must be at least {self.min_side}, got {self.style_side}")

    def codes_id(self) -> str:
        return content_hash("style-swap", self.variant, str(self.style_side), weights_hash(self.encoder))

    def encode(self, picture: Image.Image) -> FloatArray:
        with self.painting(picture.size):
            square = middle_square(picture, self.style_side)
            features = self._vgg(self._vgg.read(square), [LAYER])[LAYER]
            code: FloatArray = features.float().flatten().cpu().numpy()
        return code

    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterator[Image.Image]:
        vgg = self._vgg
        with self.painting(picture.size):
            features = vgg(vgg.read(picture), [LAYER])[LAYER]
        for code, strength in zip(codes, strengths, strict=True):
            with self.painting(picture.size):
                mixed = features + strength * (swapped(features, self._map(code)) - features)
                (painted,) = shown(self._decoder(mixed), vgg.layout.gives, picture.size)
            yield painted

    def _map(self, code: FloatArray) -> Tensor:
        width = self._vgg.widths[-1]
        side = round((len(code) / width) ** 0.5)
        if side < PATCH or len(code) != width * side * side:
            raise InputError(
                f"a code of {len(code)} numbers is not a map of {width} channels: encode the styles again"
            )
        tensor: Tensor = self.torch.tensor(code, device=self.place, dtype=self.kind)
        return tensor.view(1, width, side, side)


def swapped(content: Tensor, style: Tensor) -> Tensor:
    """The content's features, each patch as the style's of greatest cosine; means where patches overlap."""
    from torch.nn import functional

    patches = functional.unfold(style, PATCH)[0].T
    lengths = patches.norm(dim=1, keepdim=True).clamp_min(1e-12)
    kernels = (patches / lengths).view(len(patches), content.shape[1], PATCH, PATCH)
    nearest = functional.conv2d(content, kernels).argmax(1).flatten()
    chosen = patches[nearest].T[None]
    size = (content.shape[2], content.shape[3])
    return functional.fold(chosen, size, PATCH) / functional.fold(chosen.new_ones(chosen.shape), size, PATCH)
