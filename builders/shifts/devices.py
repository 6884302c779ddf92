"""Run torch networks on a device in a precision, with a clear error where memory ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from builders.terms import NOT_STATED, tool
from shiftdata.data.format.records import Material
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.threads import torch_threads

DEVICES = ("cpu", "cuda", "mps")
PRECISIONS = ("float32", "bfloat16")
#: How torch says on a processor that there is no memory; on a GPU it has an error of its own.
NO_MEMORY = ("not enough memory", "can't allocate memory")


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Fields of every step on torch. Device and precision change pixels a little: they are identity.

    `license` and `attribution` are those of the weights.

    Of several GPUs a process takes the one of its $LOCAL_RANK.
    """

    device: Literal["cpu", "cuda", "mps"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    license: str = NOT_STATED
    attribution: str = "not stated"

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("device", self.device, DEVICES),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in allowed:
                raise InputError(f"{what} must be one of {', '.join(allowed)}, got {value!r}")

    def terms(self, how: str, nuisances: Sequence[str], sha256: Sequence[str]) -> Material:
        """Return the terms of the weights, which made the examples of some nuisances."""
        name = type(self).__name__
        return tool(name, self.license, self.attribution, how, nuisances, sha256)

    @property
    def torch(self) -> Any:
        return require("torch", type(self).__name__)

    @property
    def place(self) -> Any:
        torch = self.torch
        if self.device == "cpu":
            return torch.device("cpu")
        if not (torch.cuda if self.device == "cuda" else torch.backends.mps).is_available():
            raise InputError(
                f"this machine has no {self.device} device that torch can use: run where there is one, or "
                "write device='cpu' (other pixels in the last bit: another dataset)"
            )
        if self.device == "mps":
            return torch.device("mps")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())

    @property
    def kind(self) -> Any:
        return getattr(self.torch, self.precision)

    @contextmanager
    def working(self, on: str, advice: str, *, gradients: bool = False) -> Iterator[None]:
        """One thread of a processor (equal sums on any machine), and a reason where memory ends."""
        torch = self.torch
        try:
            with torch_threads(), torch.enable_grad() if gradients else torch.no_grad():
                yield
        except RuntimeError as error:
            ended = isinstance(error, torch.cuda.OutOfMemoryError)
            if not ended and not any(text in str(error) for text in NO_MEMORY):
                raise
            raise InputError(f"{type(self).__name__} ran out of memory on {on}: {advice}") from error
