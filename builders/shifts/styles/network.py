"""The arbitrary-style network (Ghiasi et al. 2017, Magenta weights) on onnxruntime, one thread a session.

A style picture becomes a code of 100 numbers, a content picture becomes a feature map, and the two together
become a stylized picture. The feature map does not depend on the style: it is computed once a picture.
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftdata.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import onnxruntime as ort

ASSETS = Path(__file__).parent / "assets"
CODE_LENGTH = 100
STYLE_SIDE = 256  # the predictor's only input size
MIN_SIDE = 16  # below it the reflecting borders of the network are wider than its feature map

FloatArray: TypeAlias = NDArray[np.float32]
Pixels: TypeAlias = NDArray[np.uint8]


class StyleNetwork:
    """Single-threaded sessions over the three shipped graphs, opened on first use.

    One thread, because the sum of a convolution depends on how many threads share it, and published bytes
    must not; a machine is filled with one network a core.
    """

    def code(self, picture: Image.Image) -> FloatArray:
        """The style code of a picture: its middle square at 256 pixels, as 100 numbers."""
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        square = picture.convert("RGB").crop((left, top, left + side, top + side))
        pixels = np.asarray(square.resize((STYLE_SIDE, STYLE_SIDE), Image.Resampling.LANCZOS), dtype=np.uint8)
        return self._run(self._predictor, style=_to_unit(pixels)).reshape(CODE_LENGTH)

    def features(self, picture: Image.Image) -> FloatArray:
        """The part of a picture's stylization that is the same for every style."""
        if min(picture.size) < MIN_SIDE:
            raise InputError(
                f"cannot stylize a picture of {picture.width} x {picture.height} pixels; "
                f"each side needs at least {MIN_SIDE}: enlarge it first"
            )
        pixels = np.asarray(picture.convert("RGB"), dtype=np.uint8)
        # The network halves twice and doubles twice; other sides are filled by reflection and cut off again.
        fill = [(0, -side % 4) for side in pixels.shape[:2]]
        return self._run(self._encoder, content=_to_unit(np.pad(pixels, [*fill, (0, 0)], mode="reflect")))

    def paint(self, features: FloatArray, code: FloatArray, size: tuple[int, int]) -> Image.Image:
        """Stylize the picture of `size` (width, height) behind `features` with the style of `code`."""
        painted = self._run(self._decoder, features=features, code=code.reshape(1, 1, 1, CODE_LENGTH))
        pixels = np.rint(painted[0, : size[1], : size[0]].clip(0, 1) * 255).astype(np.uint8)
        return Image.fromarray(pixels)

    def stylize(self, picture: Image.Image, code: FloatArray, strength: float = 1.0) -> Image.Image:
        """Stylize one picture; `strength` runs from its own style (near 0) to the full code (1).

        Strength 0 is the untouched picture: the network repaints even a picture's own style.
        """
        if strength == 0:
            return picture.convert("RGB")
        if not 0 <= strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {strength}")
        mixed = code if strength == 1 else mix(self.code(picture), code, strength)
        return self.paint(self.features(picture), mixed, picture.size)

    @cached_property
    def _predictor(self) -> ort.InferenceSession:
        return _open("predictor")

    @cached_property
    def _encoder(self) -> ort.InferenceSession:
        return _open("encoder")

    @cached_property
    def _decoder(self) -> ort.InferenceSession:
        return _open("decoder")

    @staticmethod
    def _run(session: ort.InferenceSession, **inputs: FloatArray) -> FloatArray:
        output: FloatArray = session.run(None, inputs)[0]
        return output


def mix(own: FloatArray, code: FloatArray, strength: float) -> FloatArray:
    """The code on the straight line from a picture's own style to another."""
    return (own + np.float32(strength) * (code - own)).astype(np.float32)


@cache
def shared_network() -> StyleNetwork:
    """The sessions of this process: opening them costs as much as painting ten pictures."""
    return StyleNetwork()


@cache
def network_fingerprint() -> str:
    """A hash of the shipped graphs, part of what determines a stylized dataset."""
    digest = hashlib.sha256()
    for name in ("decoder", "encoder", "predictor"):
        digest.update((ASSETS / f"{name}.onnx").read_bytes())
    return digest.hexdigest()


def _to_unit(pixels: Pixels) -> FloatArray:
    return (pixels.astype(np.float32) / np.float32(255))[np.newaxis]


def _open(graph: str) -> ort.InferenceSession:
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise MissingExtraError(
            "stylizing needs onnxruntime, which is not installed: pip install -e '.[build]'"
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(ASSETS / f"{graph}.onnx", options, providers=["CPUExecutionProvider"])
