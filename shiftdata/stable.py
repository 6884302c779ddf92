"""Randomness that is a function of names: the same on every machine, in any order, for ever.

Nothing here depends on a process, a clock, the order of a folder or the version of a generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def hash64(*names: str | int) -> int:
    """Return a 64-bit hash of a sequence of names.

    Each name is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    return int.from_bytes(_digest(names, size=8), "big")


def uniform(*names: str | int) -> float:
    """Return a number in [0, 1), the same for the same names."""
    return (hash64(*names) >> 11) / 2**53


def rng(*names: str | int) -> np.random.Generator:
    """Return a numpy generator keyed by names; call as `rng(seed, dataset, step, key)`."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(names, size=16), "big")))


def ranks(names: Sequence[str], *salt: str | int) -> NDArray[np.int64]:
    """Return the position of each name in the order of stable hashes.

    Equal hashes are ordered by name, so that the order of the input never matters.
    """
    order = sorted(range(len(names)), key=lambda i: (hash64(*salt, names[i]), names[i]))
    positions = np.empty(len(names), dtype=np.int64)
    positions[order] = np.arange(len(names))
    return positions


def content_hash(*parts: str | bytes) -> str:
    """Return the sha256 of parts, each preceded by its length, as 64 hexadecimal digits."""
    return hash_of_parts(parts)


def hash_of_parts(parts: Iterable[str | bytes]) -> str:
    """Return the `content_hash` of parts that need not all be in memory."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def _digest(names: tuple[str | int, ...], size: int) -> bytes:
    encoded = [str(name).encode() for name in names]
    return hashlib.blake2b(b"".join(b"%d:%s" % (len(e), e) for e in encoded), digest_size=size).digest()
