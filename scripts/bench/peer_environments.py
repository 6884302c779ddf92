"""Environments of peers that cannot share ours: each in `.venv-peers`, made when a bench first needs it.

Such an environment sees the packages of the running one, so that torch, numpy, Pillow and simplejpeg are not
installed again, and the same decoder runs for all; what is pinned here comes before them. Dependencies are
listed and not resolved: torchvision, which two peers import and do not use, would fetch another torch, and
mosaicml-streaming the clients of four clouds.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2] / ".venv-peers"
TORCHVISION = "torchvision==0.28.0"
#: By the name of the first package: what is installed.
PINS: dict[str, tuple[str, ...]] = {
    "spdl": ("spdl==0.8.0", "spdl-core==0.8.0", "spdl-io==0.8.0"),
    "pylance": ("pylance==14.0.2", "lance-namespace==0.13.0", "lance-namespace-urllib3-client==0.13.0"),
    "mosaicml-streaming": (
        "mosaicml-streaming==0.13.0",
        *("numpy==2.1.3", "brotli==1.2.1", "catalogue==2.0.10", "cramjam==2.14.0", "python-snappy==0.7.3"),
        *("xxhash==3.8.2", "zstd==1.5.7.2", "transformers==4.57.6", "huggingface-hub==0.36.2"),
        *("tokenizers==0.22.2", "safetensors==0.8.0", TORCHVISION),
    ),
    "litdata": (
        *("litdata==0.2.76", "lightning-utilities==0.15.3", "obstore==0.12.1", "tifffile==2026.3.3"),
        TORCHVISION,
    ),
}


def python_of(package: str) -> str:
    """The interpreter of a peer's environment; `RuntimeError` with pip's last words if it cannot be made."""
    folder = ROOT / PINS[package][0].replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        print(f"installing {PINS[package][0]} into {folder} ...", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=False)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        shared = folder / "lib" / version / "site-packages" / "shared.pth"
        shared.write_text(sysconfig.get_path("purelib") + "\n")
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-deps"]
        done = subprocess.run([*install, *PINS[package]], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{PINS[package][0]} cannot be installed: {done.stderr.strip()[-300:]}")
        (folder / ".installed").touch()
    return str(python)
