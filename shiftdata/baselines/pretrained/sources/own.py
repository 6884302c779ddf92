"""Models of your own: a factory in a Python file, and the network of a saved run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftdata.baselines.method import by_network
from shiftdata.baselines.methods import METHODS, make_method
from shiftdata.baselines.models import BACKBONES, build
from shiftdata.baselines.pretrained.model import ENCODER, Pretrained, weights_hash
from shiftdata.baselines.pretrained.sources.pictures import Pictures
from shiftdata.errors import InputError
from shiftdata.files import sha256_of
from shiftdata.untrusted.texts import read_json

#: The side of the pictures of a factory's module, if none is asked for.
SIDE = 224


def load_factory(name: str, size: int | None) -> Pretrained:
    """Return what FILE.py:FACTORY makes: a `Pretrained`, or a module that gets pixels from 0 to 1.

    The file is run as any program of yours is.
    """
    path, _, function = name.rpartition(":")
    made = _factory(Path(path), function)()
    if isinstance(made, Pretrained):
        return made
    if not isinstance(made, nn.Module):
        raise InputError(f"{name} returned a {type(made).__name__}: return a torch module or a Pretrained")
    side = size or SIDE
    about = {"code": sha256_of(Path(path))}
    return Pictures((side, side), (side, side)).model(f"torch:{name}", made, weights_hash(made), about)


def _factory(path: Path, name: str) -> Callable[[], Any]:
    if path.suffix != ".py" or not path.is_file() or not name:
        raise InputError(f"{path}:{name}: give FILE.py:FACTORY, a function without arguments")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None  # of a file that ends in .py
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    factory: Callable[[], Any] | None = getattr(module, name, None)
    if not callable(factory):
        raise InputError(f"{path} has no function {name}")
    return factory


def load_run(folder: str, size: int | None) -> Pretrained:
    """Return the network of a run that `train` or `pretrain` saved.

    Of a method that predicts by more than its network, only the encoder is left.
    """
    about = _record(Path(folder))
    backbone, shape = about["backbone"], about["input"]
    if len(shape) != 3:
        why = "it reads features, n-grams or columns, whose scale is that of its training set"
        raise InputError(f"run:{folder} cannot predict other tasks: {why}")
    if backbone not in BACKBONES and ":" not in backbone:
        why = f"its network, {backbone}, is a module of your own: give torch:module.py:factory"
        raise InputError(f"run:{folder} cannot predict other tasks: {why}")
    path = _weights(Path(folder))
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise InputError(f"{path} is no file of weights: {error}") from error
    # A wrapper such as rs+erm has the network at its own name too.
    start, prefix = ("", "encoder.") if path.name == ENCODER else ("network.", "")
    state = {prefix + name.removeprefix(start): of for name, of in state.items() if name.startswith(start)}
    classes = len(state.get("head.bias", ()))
    sample = torch.zeros(2, shape[2], *shape[:2], dtype=torch.uint8)
    network, prepare, _ = build(backbone, sample, classes or 2)
    try:
        network.load_state_dict(state if classes else state | network.head.state_dict(prefix="head."))
    except RuntimeError as error:
        raise InputError(f"{path} has other weights than a {backbone}: {error}") from error
    side, method = size or shape[0], str(about.get("method", ""))
    predicts = classes > 0 and (method.split("+")[-1] not in METHODS or by_network(make_method(method)))
    return Pretrained(
        name=f"run:{folder}",
        encoder=network.encoder,
        n_features=network.n_features,
        prepare=prepare,
        weights=weights_hash(network if classes else network.encoder),
        size=side,
        classifier=network.head if predicts else None,
        outputs=tuple(map(str, about.get("outputs", ()))) if predicts else (),
        maps=tuple(network.maps),
        about={"pictures": f"{side} x {side}", "backbone": backbone},
    )


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    try:
        about = read_json(path)
        if not isinstance(about["backbone"], str) or not all(type(side) is int for side in about["input"]):
            raise ValueError("its network is not named")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the record of a run of `shiftdata train`: {error}") from error
    return dict(about)


def _weights(folder: Path) -> Path:
    path = next((folder / name for name in (ENCODER, "model.pt") if (folder / name).is_file()), None)
    if path is None:
        raise InputError(f"{folder} has neither model.pt nor {ENCODER}: give the folder of a run that ended")
    return path
