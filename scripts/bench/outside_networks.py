"""Networks that no calibration trained, against the intervals of a card.

    python scripts/bench/outside_networks.py DATASET CALIBRATION [DATASET CALIBRATION ...] [--seeds 2]

Datasets and records come in turns. Pictures are read by `datasets`, and each network is trained from scratch
by the loop below. One that is not right on four of five of its training rows has not learned, as the card
puts it: it is trained again for twice as long, at most four times as long. A line says if the mean and the
worst group of a network lie in the interval that the card states for another network from scratch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from datasets import disable_progress_bars, load_dataset
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from builders.describe.ranges import SCRATCH, Cell, Figure, Range, ranges
from builders.recipe_files import read_calibration
from shiftdata.bench.calibrate import planned
from shiftdata.data.format.records import Calibration
from shiftdata.data.metadata import Metadata, read_metadata

SIDE, STEPS, BATCH, RATE, SHIFT = 32, 1200, 64, 2e-3, 2
LEARNED, LONGER = 0.8, (1, 2, 4)
FIGURES: tuple[Figure, ...] = ("mean", "worst")
Ranges: TypeAlias = "dict[Figure, dict[Cell, Range]]"


def conv(width: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(width, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(channels), nn.ReLU())


def lenet(outputs: int) -> nn.Module:
    """LeNet-5 (LeCun et al., 1998) with batch norm and ReLU."""
    maps = [conv(3, 16, 5), nn.MaxPool2d(2), conv(16, 32, 5), nn.MaxPool2d(2), nn.Flatten()]
    hidden = [nn.Linear(32 * (SIDE // 4) ** 2, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
    return nn.Sequential(*maps, *hidden, nn.Linear(84, outputs))


def mobilenet(outputs: int) -> nn.Module:
    """Depthwise and pointwise convolutions (Howard et al., 2017)."""
    sizes = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)]
    blocks = [nn.Sequential(conv(w, w, 3, s, groups=w), conv(w, c, 1)) for w, c, s in sizes]
    return nn.Sequential(conv(3, 32, 3, 2), *blocks, *pooled(256, outputs))


def all_convolutional(outputs: int) -> nn.Module:
    """Strides instead of pooling (Springenberg et al., 2015)."""
    layers = [conv(3, 48, 3), conv(48, 48, 3, 2), conv(48, 96, 3), conv(96, 96, 3, 2), conv(96, 96, 1)]
    return nn.Sequential(*layers, nn.Dropout(0.2), *pooled(96, outputs))


def pooled(width: int, outputs: int) -> Iterator[nn.Module]:
    yield from (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, outputs))


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "LeNet": lenet,
    "MobileNet": mobilenet,
    "all-convolutional": all_convolutional,
}


class Pictures:
    """The pictures of a base by key, as small tensors."""

    def __init__(self, folder: str, base: str) -> None:
        rows = [*load_dataset(folder, base).values()]
        self.place: dict[str, int] = {}
        pixels: list[NDArray[np.uint8]] = []
        for part in rows:
            for row in part.select_columns(["key", "image"]):
                self.place[row["key"]] = len(pixels)
                pixels.append(np.asarray(row["image"].convert("RGB").resize((SIDE, SIDE))))
        self.x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)

    def of(self, metadata: Metadata, rows: NDArray[np.int64]) -> Tensor:
        places = [self.place[key] for key in metadata.keys(rows).to_pylist()]
        return self.x[places]


def trained(
    make: Callable[[int], nn.Module], x: Tensor, y: Tensor, outputs: int, seed: int, steps: int
) -> nn.Module:
    """Train a network by AdamW with a cosine, on pictures that are moved by up to two pixels."""
    torch.manual_seed(seed)
    network = make(outputs).train()
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = torch.cat([torch.randperm(len(x)) for _ in range(1 + steps * BATCH // len(x))])
    for step in range(steps):
        rows = order[step * BATCH : (step + 1) * BATCH]
        down, across = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
        moved = pad(scaled(x[rows]), [SHIFT] * 4, mode="replicate")
        loss = cross_entropy(network(moved[:, :, down : down + SIDE, across : across + SIDE]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def learned(
    make: Callable[[int], nn.Module], x: Tensor, y: Tensor, outputs: int, seed: int
) -> nn.Module | None:
    """Train a network until it has learned its training rows; None if it does not."""
    every = np.zeros(len(x[::4]), np.int64)  # one cell: their accuracy
    for times in LONGER:
        network = trained(make, x, y, outputs, seed, times * STEPS)
        if accuracies(network, x[::4], y[::4], every)["mean"] >= LEARNED:
            return network
    return None


def scaled(x: Tensor) -> Tensor:
    return x.float() / 127.5 - 1


def accuracies(network: nn.Module, x: Tensor, y: Tensor, cell: NDArray[np.int64]) -> dict[Figure, float]:
    with torch.inference_mode():
        right = torch.cat([network(scaled(part)).argmax(1) for part in x.split(500)]) == y
    cells, number = np.unique(cell, return_inverse=True)
    by_cell = np.bincount(number, right.numpy(), len(cells)) / np.bincount(number)
    return {"mean": float(by_cell.mean()), "worst": float(by_cell.min())}


def judged(folder: str, record: Calibration, seeds: int, names: list[str]) -> Iterator[tuple[bool, bool]]:
    """Train every network on the training sets of a record whose rows are drawn evenly; yield answers."""
    metadata = read_metadata(folder)
    assert metadata.dataset is not None  # it was named
    manifest = metadata.dataset.manifest
    if record.content_id != manifest.base(metadata.base).content_id:
        sys.exit(f"the record is of another build of {folder}: run `shiftdata calibrate` first")
    of = {figure: ranges(record.measures, figure) for figure in FIGURES}
    splits = [*dict.fromkeys(by.split for by in record.measures)]
    jobs, _ = planned(metadata, manifest.canonical_splits, splits)
    jobs = [job for job in jobs if job.rule == "shuffle"]
    pictures = {base: Pictures(folder, base) for base in {metadata.base, *(job.base.base for job in jobs)}}
    for job in jobs:
        test = job.tests[-1]  # of severities the greatest
        places = [np.searchsorted(job.labels, base.label[rows]) for base, rows in (
            (job.base, job.rows), (metadata, test.rows)
        )]  # fmt: skip
        y, tested = (torch.from_numpy(place) for place in places)
        x = pictures[job.base.base].of(job.base, job.rows), pictures[metadata.base].of(metadata, test.rows)
        cell = getattr(metadata, test.by)[test.rows]
        for name in names:
            for seed in range(seeds):
                text = f"{metadata.name} {job.split} {job.trained} {name}"
                network = learned(NETWORKS[name], x[0], y, len(job.labels), seed)
                if network is None:
                    print(f"{text}  has not learned", flush=True)
                    continue
                found = accuracies(network, x[1], tested, cell)
                yield answer(text, found, of, (job.split, job.trained, test.name, SCRATCH))


def answer(text: str, found: dict[Figure, float], of: Ranges, key: Cell) -> tuple[bool, bool]:
    inside = []
    for figure in FIGURES:
        stated: Range = of[figure][key]
        assert stated.expected is not None, "the record has a single network"
        low, high = stated.expected
        inside.append(low - 0.005 <= found[figure] <= high + 0.005)  # as the card rounds
        text += f"  {figure} {found[figure]:.2f} in [{low:.2f}, {high:.2f}]: {'yes' if inside[-1] else 'NO'}"
    print(text, flush=True)
    return inside[0], inside[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("places", nargs="+", help="a dataset's folder and its calibration, in turns")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=[*NETWORKS])
    given = parser.parse_args()
    disable_progress_bars()
    if len(given.places) % 2:
        sys.exit(f"datasets and calibrations come in turns, got {len(given.places)} paths")
    answers = [
        each
        for folder, record in zip(given.places[::2], given.places[1::2], strict=True)
        for each in judged(folder, read_calibration(Path(record)), given.seeds, given.networks)
    ]
    for figure, column in zip(FIGURES, zip(*answers, strict=True), strict=True):
        print(f"{figure}: {sum(column)} of {len(column)} in the interval")


if __name__ == "__main__":
    main()
