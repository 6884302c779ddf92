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

    def __reduce__(self) -> tuple[Any, ...]:
        return Arrays, (self.spare,)

    def new(self, *shape: int) -> tuple[NDArray[np.uint8], Any]:
        """Return an array of any content, and the tensor in its memory."""
        array = self.array(*shape)
        return array, tensor(array)

    def array(self, *shape: int) -> NDArray[np.uint8]:
        """Return an array of any content."""
        size, memory = math.prod(shape), None
        with suppress(IndexError):
            memory = self.unused.pop()
        if memory is None or memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        return np.asarray(_Lease(memory, self))[:size].reshape(shape)


class _Lease:
    """The base of an array and all its views: it goes with the last of them."""

    def __init__(self, memory: NDArray[np.uint8], origin: Arrays) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._origin = memory, origin

    def __del__(self) -> None:
        if len(self._origin.unused) < self._origin.spare:
            self._origin.unused.append(self._memory)


class PinnedArrays:
    """Makes arrays of uint8 in pinned memory, from which a GPU copies while the program goes on.

    Torch uses the memory again, and only it may: it waits for the copies from a tensor that is gone.
    """

    def new(self, *shape: int) -> tuple[NDArray[np.uint8], Any]:
        """Return an array of any content, and the tensor in its memory."""
        torch = torch_or_none()
        memory = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        return memory.numpy(), memory


def pinned(value: Any) -> Any:
    """Return a tensor in pinned memory, all else as it is."""
    is_tensor = isinstance(value, torch_or_none().Tensor)
    return value.pin_memory() if is_tensor else value


def gpu() -> int | None:
    """Return the number of this thread's GPU; None where torch has none."""
    torch = torch_or_none()
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else None


def stacked(examples: list[Any]) -> Any:
    """Stack arrays (of height x width x 3 as pictures), tensors or numbers; leave anything else a list."""
    torch = torch_or_none()
    tensors = torch is not None and isinstance(examples[0], torch.Tensor)
    if not tensors and not isinstance(examples[0], np.ndarray | np.generic | int | float):
        return examples
    if len(shapes := {np.shape(x) for x in examples}) > 1:
        raise InputError(
            f"the transform makes x of several shapes, {sorted(shapes)}: let it make one, or give size=... "
            "for pictures; or let it give lists, and make the batch of them in the loop"
        )
    if tensors:
        return torch.stack(examples)
    return channels_first(tensor(np.stack(examples)))


def channels_first(x: Any) -> Any:
    """Return a view of pictures x height x width x 3 as pictures x 3 x height x width; all else as it is."""
    if x.ndim != 4 or x.shape[3] != 3:
        return x
    return x.transpose(0, 3, 1, 2) if isinstance(x, np.ndarray) else x.permute(0, 3, 1, 2)


@cache
def torch_or_none() -> Any:
    """Import torch if it is installed."""
    return import_module("torch") if find_spec("torch") else None


def tensor(array: Any) -> Any:
    """Return a tensor in the memory of an array; without torch, the array."""
    torch = torch_or_none()
    return array if torch is None else torch.from_numpy(array)
