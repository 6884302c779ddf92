"""Build shift/sma_emoji, load it with plain `datasets`, and draw it: what `make demo` runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LOAD = """
from collections import Counter
from datasets import load_dataset

data = load_dataset("shift/sma_emoji", "gf_k8_mu10")
for split, rows in data.items():
    sizes = Counter(zip(rows["label"], rows["style"])).values()
    print(f"{split}: {len(rows)} images in {len(sizes)} groups of {min(sizes)} to {max(sizes)}")

stream = load_dataset("shift/sma_emoji", "gf_k8_mu10", split="train", streaming=True)
rows = list(stream)
print(len(rows), "images streamed, such as", rows[0]["key"], rows[0]["image"].size, rows[0]["license"])
"""


def main() -> None:
    """Run the three steps, each shown as a user would type it."""
    started = time.monotonic()
    show("python -m builders build sma_emoji --bases content,mini")
    run("-m", "builders", "build", "sma_emoji", "--bases", "content,mini", cwd=ROOT)
    show("cd build && python -c '...'", LOAD)
    run("-c", LOAD, cwd=ROOT / "build")
    show("python -m builders contact-sheet sma_emoji")
    run("-m", "builders", "contact-sheet", "sma_emoji", cwd=ROOT)
    print(
        f"\ndemo done in {time.monotonic() - started:.0f} s; look at build/sma_emoji_contact_sheet.png",
        flush=True,
    )


def show(command: str, text: str = "") -> None:
    print(f"\n$ {command}{text.rstrip()}", flush=True)


def run(*arguments: str, cwd: Path) -> None:
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=os.environ | quiet)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
