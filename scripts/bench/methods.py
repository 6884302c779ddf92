"""Every reference method on one task: processor seconds beside ERM's, and tensors it keeps as steps go by.

python scripts/bench/methods.py DOMAINS [--steps 100] [--only mcd uniot] [--backbone small-cnn]

DOMAINS is a built `dom_glyphs`: seven classes of fonts are domains, the letters of one (script) are the
target and the test, those of the others are trained on; a network of four convolutions reads 40 px, 64 rows
a batch, in one thread. Each method is timed between two runs of ERM, in one process: machines are shared,
ratios last. A method with several trainings (JTT, NoisyStudent) is timed as a whole. Tensors are those alive
after a tenth of the steps and after all of them.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from shiftdata.baselines.inputs import as_batch

import shiftdata as sd
from shiftdata.baselines import METHODS, Inputs, Trainer, Training, make_method, read_inputs
from shiftdata.baselines.models import BACKBONES, build
from shiftdata.baselines.sets import TaskSets


def live() -> float:
    """Megabytes of the tensors that something still refers to."""
    gc.collect()
    kept = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in kept}
    return sum(storages.values()) / 1e6


@dataclass
class Bench:
    """A task with several domains, and unlabelled rows of another."""

    task: sd.Task
    inputs: Inputs
    backbone: str

    def measure(self, name: str, training: Training) -> tuple[float, float, float, float]:
        """Seconds of all steps, live megabytes early and late, accuracy on the rows that test."""
        method = make_method(name)
        # One task for all: those that want classes of the target's own get the rows that DANN would.
        sets = TaskSets.of(self.task, make_method("dann") if "unknown" in method.needs else method, None)
        data = sets.data(self.inputs, training, 0)
        x = self.inputs.x[self.inputs.positions(data.rows)]
        network, prepare, _ = build(self.backbone, as_batch(x), data.classes)
        trainer = Trainer(method, network, prepare, data, training=training)
        kept: list[float] = []
        begun = time.process_time()
        trainer.run(until=trainer.total_steps // 10)
        used = time.process_time() - begun
        kept.append(live())
        begun = time.process_time()
        trainer.run()
        used += time.process_time() - begun
        kept.append(live())
        rows = self.task.rows("test")
        outputs = np.append(self.task.label_ids, -1)
        right = outputs[trainer.scores(rows).argmax(1)] == self.task.metadata.label[rows]
        return used, *kept, float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("domains")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=METHODS)
    parser.add_argument("--backbone", default="small-cnn", choices=BACKBONES)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    task = sd.task(given.domains, "leave-one-domain-out", test="script").also("test", "unlabelled")
    inputs = read_inputs(task.metadata, "scratch", *(task.rows(name) for name in task.sets))
    bench = Bench(task, inputs, given.backbone)
    print(f"{task.describe()}, {given.backbone}, {given.steps} steps")
    print("| method | seconds | beside ERM | MB early | MB late | accuracy |")
    print("|---|--:|--:|--:|--:|--:|")
    plain = Training(steps=given.steps)
    before = bench.measure("erm", plain)[0]
    for name in given.only:
        training = Training(steps=given.steps, evaluate_every=given.steps // 20 if name == "swad" else 0)
        seconds, early, late, accuracy = bench.measure(name, training)
        after = bench.measure("erm", plain)[0]
        ratio = 2 * seconds / (before + after)
        print(
            f"| {name} | {seconds:.1f} | {ratio:.2f} | {early:.1f} | {late:.1f} | {accuracy:.3f} |",
            flush=True,
        )
        before = after


if __name__ == "__main__":
    main()
