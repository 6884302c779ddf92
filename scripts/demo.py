"""Build a dataset, load it with plain `datasets`, draw it, train on it: what `make demo` runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "sma_glyphs_k8"

LOAD = """
from collections import Counter
from datasets import load_dataset

data = load_dataset("shift/sma_glyphs_k8", "gf_k8_mu10")
for split, rows in data.items():
    sizes = Counter(zip(rows["label"], rows["style"])).values()
    print(f"{split}: {len(rows)} images in {len(sizes)} groups of {min(sizes)} to {max(sizes)}")

stream = load_dataset("shift/sma_glyphs_k8", "gf_k8_mu10", split="train", streaming=True)
rows = list(stream)
print(len(rows), "images streamed, such as", rows[0]["key"], rows[0]["image"].size, rows[0]["license"])
"""

TRAIN = """
import shiftdata as sd
from shiftdata.baselines import Training

task = sd.task("sma_glyphs_k8", "group-fairness", k=8, mu=0.1)
for method in ("erm", "rwg", "group-dro"):
    run = sd.train(task, method, training=Training(steps=300), seed=0)
    run.save(f"runs/{method}")
    result = run.evaluate()
    mean, worst = (result[name] for name in ("mean", "worst"))
    worst_group = result.groups.worst_group
    print("{:10} mean over groups {:.2f} [{:.2f}, {:.2f}]".format(method, mean, *mean.interval),
          "  worst {:.2f} [{:.2f}, {:.2f}], {}".format(worst, *worst.interval, worst_group), flush=True)
"""


def main() -> None:
    """Run the steps, each shown as a user would type it."""
    started = time.monotonic()
    show(f"shiftdata build {NAME}")
    run("-m", "shiftdata", "build", NAME, cwd=ROOT)
    show("cd build && python -c '...'", LOAD)
    run("-c", LOAD, cwd=ROOT / "build")
    show("cd build && python -c '...'", TRAIN)
    run("-c", TRAIN, cwd=ROOT / "build")
    show("python scripts/demo_picture.py")
    run("scripts/demo_picture.py", cwd=ROOT)
    print(
        "\nIn brackets: 95 % intervals over the 60 fonts of the test, for this one training.\n"
        "The methods differ by less than the intervals: ERM is a strong reference (docs/measured.md).\n"
        f"demo done in {time.monotonic() - started:.0f} s; look at build/shift/{NAME}/preview.jpg "
        f"and build/{NAME}.png",
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
