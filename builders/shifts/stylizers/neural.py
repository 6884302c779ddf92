"""Base of the stylizers on torch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from builders.shifts.devices import OnDevice
from builders.shifts.stylizers.stylizer import Stylizer
from shiftdata.errors import InputError

Network = TypeVar("Network")


@dataclass(frozen=True, kw_only=True)
class Neural(OnDevice, Stylizer):
    """A stylizer on torch; `batch` is how many styles are painted at once, which pays on a GPU alone.

    `compiled` lets torch compile the networks for each size of picture: for many pictures of one size.
    """

    batch: int = 1
    compiled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, got {self.batch}")

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the fields that are part of a fingerprint."""
        return (str(self.code_version), self.device, self.precision, str(self.batch), str(self.compiled))

    def ready(self, network: Network) -> Network:
        """A network as it is called, compiled if that is asked for."""
        made: Network = self.torch.compile(network) if self.compiled else network
        return made

    def painting(self, size: tuple[int, int], *, gradients: bool = False) -> AbstractContextManager[None]:
        """While the network works on a picture of a size."""
        return self.working(
            f"a picture of {size[0]} x {size[1]} pixels",
            f"paint fewer styles at once (batch={self.batch} now), or smaller pictures (CropSquare, Resize "
            "in prepare)",
            gradients=gradients,
        )
