"""Optional dependencies: which extra of shiftdata installs each, said in one way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shiftdata.errors import MissingExtraError

#: The extra that installs a module. Modules of the extra `build` are needed from a checkout only.
EXTRAS = {
    "aiohttp": "http",
    "matplotlib": "plots",
    "mlcroissant": "build",
    "onnxruntime": "build",
    "jinja2": "build",
    "packaging": "build",
    "resvg_py": "build",
    "s3fs": "s3",
    "simplejpeg": "fast",
    "scipy": "meters",
    "sklearn": "meters",
    "starlette": "serve",
    "torch": "torch",
    "uvicorn": "serve",
    "webdataset": "wds",
}


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
    return f"pip install 'shiftdata[{extra}]'" if extra else f"pip install {module}"
