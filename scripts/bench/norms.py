"""The norms that `small-cnn` could have, by ERM on tasks of real files: why its first one is instance norm.

    python scripts/bench/norms.py DIGITS uda_mnist_mnist_m PACS domainbed_sketch [--steps 800] [--seeds 2]

Datasets and canonical splits come in turns; `make real` builds them in build/real/shift. A line gives the
accuracy on the test set, and the share of the label that is predicted most: near 1 the network has collapsed.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
import torch
from torch import nn

import shiftdata as sd
from shiftdata.baselines import Training
from shiftdata.baselines.networks import Network, small_cnn


def group(channels: int) -> nn.Module:
    return nn.GroupNorm(8, channels)


def instance(channels: int) -> nn.Module:
    return nn.GroupNorm(channels, channels)


#: The norm of the first layer, and that of the others.
NORMS = {
    "instance, then batch (small-cnn)": (instance, nn.BatchNorm2d),
    "batch": (nn.BatchNorm2d, nn.BatchNorm2d),
    "group": (group, group),
    "instance": (instance, instance),
}


def with_norms(name: str) -> nn.Module:
    """Return the encoder of `small-cnn` with other norms."""
    network: Network = small_cnn(0, 2)
    for number, stage in enumerate(network.maps):
        convolution = stage[0]
        stage[1] = NORMS[name][number > 0](convolution.out_channels)
    return network.encoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="+", help="a dataset and a canonical split, in turns")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    if len(given.tasks) % 2:
        sys.exit(f"datasets and canonical splits come in turns, got {len(given.tasks)} names")
    for dataset, split in zip(given.tasks[::2], given.tasks[1::2], strict=True):
        task = sd.task(dataset, split)
        for name in NORMS:
            results = [measured(task, name, given.steps, seed) for seed in range(given.seeds)]
            accuracy, most = np.mean(results, axis=0)
            print(f"{split:<24}{name:<36}{accuracy:.3f}  most predicted {most:.2f}", flush=True)


def measured(task: sd.Task, name: str, steps: int, seed: int) -> tuple[float, float]:
    """Return the accuracy after a training, and the share of the label that is predicted most."""
    torch.manual_seed(seed)
    run = sd.train(task, "erm", backbone=with_norms(name), training=Training(steps=steps), seed=seed)
    with warnings.catch_warnings(action="ignore"):
        accuracy = float(run.evaluate()["accuracy"])
    _, counts = np.unique([*run.predictions().values()], return_counts=True)
    return accuracy, float(counts.max() / counts.sum())


if __name__ == "__main__":
    main()
