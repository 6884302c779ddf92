"""Other layers that `small-cnn` could have, by ERM on tasks of real files.

    python scripts/bench/small_cnn.py DIGITS uda_mnist_mnist_m PACS domainbed_sketch [--steps 800] [--seeds 2]

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
from shiftdata.baselines.networks import Magnitude, Network, small_cnn


def group(channels: int) -> nn.Module:
    return nn.GroupNorm(8, channels)


def instance(channels: int) -> nn.Module:
    return nn.GroupNorm(channels, channels)


#: The norm of the first layer and that of the others, and what the first gives.
VARIANTS = {
    "small-cnn": (instance, nn.BatchNorm2d, Magnitude),
    "ReLU": (instance, nn.BatchNorm2d, nn.ReLU),
    "ReLU, batch norm": (nn.BatchNorm2d, nn.BatchNorm2d, nn.ReLU),
    "ReLU, group norm": (group, group, nn.ReLU),
    "ReLU, instance norm": (instance, instance, nn.ReLU),
}


def variant(name: str) -> nn.Module:
    """Return the encoder of `small-cnn` with other layers."""
    network: Network = small_cnn(0, 2)
    *norms, activation = VARIANTS[name]
    for number, stage in enumerate(network.maps):
        convolution = stage[0]
        stage[1] = norms[number > 0](convolution.out_channels)
    network.maps[0][2] = activation()
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
        for name in VARIANTS:
            results = [measured(task, name, given.steps, seed) for seed in range(given.seeds)]
            accuracy, most = np.mean(results, axis=0)
            print(f"{split:<24}{name:<24}{accuracy:.3f}  most predicted {most:.2f}", flush=True)


def measured(task: sd.Task, name: str, steps: int, seed: int) -> tuple[float, float]:
    """Return the accuracy after a training, and the share of the label that is predicted most."""
    torch.manual_seed(seed)
    run = sd.train(task, "erm", backbone=variant(name), training=Training(steps=steps), seed=seed)
    with warnings.catch_warnings(action="ignore"):
        accuracy = float(run.evaluate()["accuracy"])
    _, counts = np.unique([*run.predictions().values()], return_counts=True)
    return accuracy, float(counts.max() / counts.sum())


if __name__ == "__main__":
    main()
