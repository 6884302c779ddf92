"""Arrays and tensors of batches, in memory that is used again: the system clears what is fresh."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError


class Arrays:
    """Makes arrays of uint8; the memory of one that nobody refers to any more serves the next.

    Whoever keeps an array, a view or a tensor of it keeps its memory. At most `spare` are kept unused.
    """

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.unused: list[NDArray[np.uint8]] = []

    def new(self, *shape: int) -> NDArray[np.uint8]:
        """An array of any content."""
        size, memory = math.prod(shape), None
        with suppress(IndexError):
            memory = self.unused.pop()
        if memory is None or memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        return np.asarray(_Lease(memory, self))[:size].reshape(shape)


class _Lease:
    """What an array and all its views refer to: it goes with the last of them."""

    def __init__(self, memory: NDArray[np.uint8], origin: Arrays) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._origin = memory, origin

    def __del__(self) -> None:
        if len(self._origin.unused) < self._origin.spare:
            self._origin.unused.append(self._memory)


def stacked(made: list[Any]) -> Any:
    """A batch of arrays, tensors or numbers; of anything else, such as texts, the list.

    Arrays of height x width x 3 are put as plain pictures are.
    """
    torch = torch_or_none()
    tensors = torch is not None and isinstance(made[0], torch.Tensor)
    if not tensors and not isinstance(made[0], np.ndarray | np.generic | int | float):
        return made
    if len(shapes := {np.shape(one) for one in made}) > 1:
        raise InputError(
            f"the transform makes x of several shapes, {sorted(shapes)}: let it make one, or give size=... "
            "for pictures; or let it give lists, and make the batch of them in batch_transform"
        )
    if tensors:
        return torch.stack(made)
    array = np.stack(made)
    pictures = array.ndim == 4 and array.shape[3] == 3
    return tensor(array.transpose(0, 3, 1, 2) if pictures else array)


@cache
def torch_or_none() -> Any:
    """The module, if it is installed."""
    return import_module("torch") if find_spec("torch") else None


def tensor(array: Any) -> Any:
    """A tensor in the memory of an array; without torch, the array."""
    torch = torch_or_none()
    return array if torch is None else torch.from_numpy(array)
