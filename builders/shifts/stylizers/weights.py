"""Files of weights: where they lie, what is in them, and their hash. No file can run code."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.files import sha256_of

if TYPE_CHECKING:
    from torch import Tensor

HUB = "hf://"

#: A file on this machine, or `hf://owner/name[@revision]/file` on the Hub.
Place: TypeAlias = Path | str


def weights_file(place: Place) -> Path:
    """The file of some weights; one on the Hub is downloaded once, into the Hub's own cache."""
    if isinstance(place, str) and place.startswith(HUB):
        return _from_hub(place)
    file = Path(place).expanduser()
    if not file.is_file():
        raise InputError(
            f"there is no file of weights {place}: give the path of a .safetensors, .pth or .pt file, or "
            f"{HUB}owner/name/file for one on the Hub"
        )
    return file


def _from_hub(place: str) -> Path:
    from huggingface_hub import hf_hub_download

    named = re.fullmatch(r"hf://([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)", place)
    if named is None:
        raise InputError(f"{place!r} is not a file on the Hub: write {HUB}owner/name/file")
    repo, revision, name = named.groups()
    return downloaded(place, lambda: hf_hub_download(repo, name, revision=revision))


def hub_folder(name: str, files: Sequence[str]) -> Path:
    """The folder of some files (patterns) of `owner/name[@revision]` on the Hub, downloaded once."""
    from huggingface_hub import snapshot_download

    repo, _, revision = name.partition("@")
    return downloaded(
        name, lambda: snapshot_download(repo, revision=revision or None, allow_patterns=list(files))
    )


def downloaded(place: str, download: Callable[[], str]) -> Path:
    """Download from the Hub, or raise the reason why that fails."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(download())
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"{place} could not be downloaded ({type(error).__name__}): look at the name and at your access, "
            "or download it by hand and give its path"
        ) from error


def weights_hash(place: Place) -> str:
    """The sha256 of a file of weights: part of what determines a dataset."""
    file = weights_file(place)
    state = os.stat(file)
    return _hash(file, state.st_size, state.st_mtime_ns)


def used_weights(place: Place) -> UsedFile:
    """Name a file of weights, with its address if it is on the Hub."""
    address = place if isinstance(place, str) and place.startswith(HUB) else None
    return UsedFile(name=weights_file(place).name, hash=f"sha256:{weights_hash(place)}", url=address)


@cache
def _hash(file: Path, size: int, changed: int) -> str:
    return sha256_of(file)


def read_weights(place: Place) -> Mapping[str, Tensor]:
    """The arrays of a file by name."""
    file = weights_file(place)
    if file.suffix == ".safetensors":
        safetensors = require("safetensors.torch", "reading weights")
        return _checked(file, safetensors.load_file)
    torch = require("torch", "reading weights")
    return _checked(file, lambda file: torch.load(file, map_location="cpu", weights_only=True))


def _checked(file: Path, read: Any) -> Mapping[str, Tensor]:
    try:
        state = read(file)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{file} contains more than weights, and reading it could run code: save its state_dict alone, "
            "best as .safetensors"
        ) from error
    except Exception as error:  # each reader has errors of its own
        raise InputError(f"{file} cannot be read as weights: {error}") from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(hasattr(array, "shape") for array in state.values()):
        raise InputError(f"{file} has no weights by name: save the state_dict of the network")
    return state


def natural(name: str) -> list[str | int]:
    """The order of names with numbers in them.

    >>> sorted(["features.10.weight", "features.2.weight"], key=natural)
    ['features.2.weight', 'features.10.weight']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
