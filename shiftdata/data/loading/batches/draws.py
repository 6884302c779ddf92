"""Generators for transforms, keyed by numbers: a picture needs one, and `stable.rng` takes 12 us to make it.

Most of that is numpy's `SeedSequence`, which spreads a poor seed over the generator's state. A hash is spread
already, so its bytes are the state.
"""

from __future__ import annotations

import hashlib
from struct import pack
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

from shiftdata.stable import hash64


class Draws:
    """Generators keyed by names, such as a seed and a purpose, and by numbers."""

    def __init__(self, *names: str | int) -> None:
        self._key = hash64(*names).to_bytes(8, "big")

    def rng(self, *numbers: int) -> np.random.Generator:
        """Make the generator of some numbers from 0 to 2**64 - 1."""
        data = pack(f"<{len(numbers)}Q", *numbers)
        state: Any = _Hash(hashlib.blake2b(data, key=self._key, digest_size=32).digest())
        return np.random.Generator(np.random.PCG64(state))


class _Hash(ISpawnableSeedSequence):
    """Hand a hash to a bit generator as its state."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return np.frombuffer(self._digest, dtype, n_words)

    def spawn(self, n_children: int) -> Any:
        return np.random.SeedSequence(int.from_bytes(self._digest, "little")).spawn(n_children)
