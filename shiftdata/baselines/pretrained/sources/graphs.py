"""ONNX graphs: a file with a TOML that says how to read it, and the recogniser of signs in rapidocr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.pretrained.sources.pictures import Pictures, resampling_of
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, MissingExtraError
from shiftdata.extras import require
from shiftdata.files import sha256_of
from shiftdata.untrusted.texts import read_toml

#: The tensors of rapidocr's recogniser: rows x steps x features, and the layer that makes signs of these.
STEPS, SIGNS = "transpose_51.tmp_0", ("linear_85.w_0", "linear_85.b_0")
#: Types of a graph's input.
KINDS = {"float": np.float32, "float16": np.float16, "uint8": np.uint8}
#: The height and the width of its pictures; of its steps of 8 pixels each those that a sign can reach.
HEIGHT, WIDTH, READ = 48, 320, 8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings in FILE.toml of FILE.onnx; docs/models.md explains each key."""

    size: int | tuple[int, int]
    resize: int | tuple[int, int] | None = None
    interpolation: Literal["nearest", "lanczos", "bilinear", "bicubic", "box"] = "bilinear"
    range: Literal["0-1", "0-255"] = "0-1"
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    channels: Literal["RGB", "BGR"] = "RGB"
    features: str | None = None
    logits: str | None = None
    labels: Sequence[str] = ()

    @property
    def pictures(self) -> Pictures:
        size = (self.size, self.size) if isinstance(self.size, int) else self.size
        most = 255 if self.range == "0-255" else 1
        mean, std = (tuple(each / most for each in of) for of in (self.mean, self.std))
        return Pictures(size, self.resize or size, resampling_of(self.interpolation), mean, std)


def read_settings(path: Path) -> Settings:
    """Read the TOML next to a graph; an error names the key."""
    defaults = {of.name: of.default for of in fields(Settings) if of.default is not MISSING}
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}
    try:
        settings = record(Settings, lists | read_toml(path))
        settings.pictures  # noqa: B018 - it checks sides and scales
    except FileNotFoundError as error:
        raise InputError(
            f"there is no {path}: it says how the graph reads pictures and what it gives, such as\n"
            'size = 224\nmean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\nlogits = "output"'
        ) from error
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: {error}") from error
    if settings.features is None and settings.logits is None:
        raise InputError(f"{path}: name the tensor of the features, of the logits, or both")
    return settings


class Graph:
    """Some tensors of an ONNX graph as a function of its input, on one thread: equal bytes for any cores."""

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        self._library = require("onnxruntime", f"the graph {path.name}")
        self.path, self.outputs = path, list(outputs)
        self._sessions: dict[str, Any] = {}
        inputs = self._session("cpu").get_inputs()
        if [each.type for each in inputs] not in ([f"tensor({kind})"] for kind in KINDS):
            shown = ", ".join(f"{each.name} {each.type}" for each in inputs)
            raise InputError(f"{path} reads {shown}, and not one tensor of pictures")
        self.input, first = inputs[0], (*inputs[0].shape, None)[0]
        self.batch = first if isinstance(first, int) else None

    def __call__(self, x: Tensor) -> list[Tensor]:
        """Return the tensors of a batch; a graph for a fixed number of pictures gets that many at a time."""
        session, count = self._session(x.device.type), self.batch or len(x)
        array, results = x.cpu().numpy().astype(KINDS[self.input.type[7:-1]]), []
        for start in range(0, len(array), count):
            part = array[start : start + count]
            filled = np.concatenate([part, np.repeat(part[-1:], count - len(part), axis=0)])
            made = session.run(self.outputs, {self.input.name: filled})
            results.append([each[: len(part)] for each in made])
        return [torch.from_numpy(np.concatenate(made)).float() for made in zip(*results, strict=True)]

    @property
    def version(self) -> dict[str, str]:
        """The version of the library, as a record holds it."""
        return {"onnxruntime": self._library.__version__}

    @property
    def metadata(self) -> dict[str, str]:
        """Texts that the graph's authors put into its file."""
        return dict(self._session("cpu").get_modelmeta().custom_metadata_map)

    def constants(self, names: Sequence[str], x: Tensor) -> list[Tensor]:
        """Return tensors of the graph that depend on no input."""
        values = self._session("cpu").run(list(names), {self.input.name: x.numpy()})
        return [torch.from_numpy(value) for value in values]

    def _session(self, device: str) -> Any:
        if device in self._sessions:
            return self._sessions[device]
        options = self._library.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        wanted = ["CUDAExecutionProvider"] * (device == "cuda") + ["CPUExecutionProvider"]
        providers = [name for name in wanted if name in self._library.get_available_providers()]
        try:
            data = self.path.read_bytes() + _exposed(self.outputs)
            self._sessions[device] = self._library.InferenceSession(data, options, providers=providers)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from error
        except Exception as error:  # the library has a class of its own for each status
            raise InputError(f"{self.path} is no graph with {', '.join(self.outputs)}: {error}") from error
        return self._sessions[device]


def _exposed(names: Sequence[str]) -> bytes:
    """Return bytes that, after those of a model, make tensors inside of its graph outputs.

    Protocol buffers merge a repeated message: field 7 of a model is its graph, field 12 of that an output,
    field 1 of that the name. An output that is named twice is one.
    """

    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while size >= 128:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    return field(7, b"".join(field(12, field(1, name.encode())) for name in names)) if names else b""


def load(name: str, size: int | None) -> Pretrained:
    """Return the graph of a file; its features and its logits lie next to each other, where it has both."""
    path = Path(name)
    settings = read_settings(path.with_suffix(".toml"))
    if not path.is_file():
        raise InputError(f"there is no {path}: name an ONNX file")
    pictures = settings.pictures.at(size)
    wanted = [each for each in (settings.features, settings.logits) if each]
    graph, scaled = Graph(path, wanted), pictures.prepare

    def prepare(x: Any) -> Tensor:
        pixels: Tensor = scaled(x if settings.channels == "RGB" else x.flip(1))
        return pixels.permute(0, 2, 3, 1).contiguous() if settings.layout == "NHWC" else pixels

    def encoder(x: Tensor) -> Tensor:
        joined: Tensor = torch.cat([made.flatten(1) for made in graph(x)], 1)
        return joined

    try:
        count = graph(prepare(torch.zeros(2, 3, *pictures.size)))[-1].flatten(1).shape[1]
    except Exception as error:  # as above
        raise InputError(f"{path} does not read pictures as {path.stem}.toml says: {error}") from error
    if settings.labels and (settings.logits is None or len(settings.labels) != count):
        raise InputError(f"{path.stem}.toml names {len(settings.labels)} labels, and {count} are its logits")
    about = {"layout": settings.layout, "channels": settings.channels, "tensors": wanted}
    return pictures.model(
        f"onnx:{name}", encoder, sha256_of(path), about | graph.version, prepare=prepare,
        classifier=(lambda z: z[:, -count:]) if settings.logits else None, outputs=tuple(settings.labels),
    )  # fmt: skip


def load_rapidocr(name: str, size: int | None) -> Pretrained:
    """Return the recogniser of rapidocr-onnxruntime: the score of each sign for a picture of one sign.

    The package itself is not imported: it needs OpenCV.
    """
    found = find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        hint = "pip install --no-deps rapidocr-onnxruntime==1.4.4"
        raise MissingExtraError(f"rapidocr needs its package: {hint}")
    path = Path(found.origin).parent / "models" / "ch_PP-OCRv4_rec_infer.onnx"
    if size not in (None, HEIGHT):
        raise InputError(f"size={size}: rapidocr reads pictures of {HEIGHT} x {HEIGHT} pixels: leave it out")
    graph, blank = Graph(path, [STEPS]), torch.zeros(1, 3, HEIGHT, WIDTH)
    weight, bias = Graph(path, [STEPS, *SIGNS]).constants(SIGNS, blank)
    characters = graph.metadata["character"].splitlines()
    pictures = Pictures((HEIGHT, HEIGHT), (HEIGHT, HEIGHT), mean=(0.5,) * 3, std=(0.5,) * 3)
    scaled = pictures.prepare

    def prepare(x: Any) -> Tensor:
        # The network was trained on lines in BGR, which the library fills up with grey.
        return pad(scaled(x.flip(1)), (0, WIDTH - HEIGHT))

    def encoder(x: Tensor) -> Tensor:
        return graph(x)[0][:, :READ].flatten(1)

    def classifier(z: Tensor) -> Tensor:
        logits: Tensor = z.view(len(z), READ, -1) @ weight.to(z.device) + bias.to(z.device)
        return one_sign(logits)

    return pictures.model(
        "rapidocr", encoder, sha256_of(path), {"width": WIDTH, **graph.version},
        prepare=prepare, classifier=classifier, outputs=(*characters, " "),
    )  # fmt: skip


def one_sign(logits: Tensor) -> Tensor:
    """Return the log-probability of each text of one sign by CTC (Graves et al., 2006), rows x signs.

    Rows x steps x (blank, signs) come in. A path is blanks, one or more times the sign, blanks.
    """
    steps = logits.log_softmax(2).unbind(1)
    blank, sign = steps[0][:, :1], steps[0][:, 1:]
    after = torch.full_like(sign, -torch.inf)
    for step in steps[1:]:
        after = torch.logaddexp(after, sign) + step[:, :1]
        sign = torch.logaddexp(sign, blank.expand_as(sign)) + step[:, 1:]
        blank = blank + step[:, :1]
    return torch.logaddexp(sign, after)
