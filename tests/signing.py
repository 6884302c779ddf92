"""Keys of minisign, and signatures by them."""

from __future__ import annotations

from pathlib import Path

import minisign


class Key:
    """A secret key in memory, whose public key is a file."""

    def __init__(self, public: Path) -> None:
        pair = minisign.KeyPair.generate()
        self._secret, self.public = pair.secret_key, str(public)
        public.write_bytes(bytes(pair.public_key))

    def sign(self, file: Path) -> Path:
        """Write the signature of a file next to it."""
        signature = file.with_name(f"{file.name}.minisig")
        signature.write_bytes(bytes(self._secret.sign(file.read_bytes(), trusted_comment="x")) + b"\n")
        return signature
