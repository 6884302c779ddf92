"""Every reference method on one task: processor seconds compared with ERM's.

python scripts/bench/methods.py DOMAINS [--steps 100] [--only mcd uniot] [--backbone small-cnn]

DOMAINS is a built `dom_glyphs`: seven classes of fonts are domains, the letters of one (script) are the
target and the test, those of the others are trained on; a network of four convolutions reads 40 px, 64 rows
a batch, in one thread. Each method is timed between two runs of ERM, in one process: machines are shared,
ratios last. A method with several trainings (JTT, NoisyStudent) is timed as a whole.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np

import shiftdata as sd
from shiftdata.baselines import METHODS, Source, Trainer, Training, make_method, source_of
from shiftdata.baselines.models import BACKBONES, build
from shiftdata.baselines.sets import TaskSets


@dataclass
class Bench:
    """A task with several domains, and unlabelled rows of another."""

    task: sd.Task
    source: Source
    backbone: str

    def measure(self, name: str, training: Training) -> tuple[float, float]:
        """Return the seconds of all steps, and the accuracy on the test set."""
        method = make_method(name)
        # One task for all: those that want classes of the target's own get the rows that DANN would.
        sets = TaskSets.of(self.task, make_method("dann") if "unknown" in method.needs else method, None)
        data = sets.data(self.source, training, 0)
        sample = next(iter(self.source.loader(data.rows[:2], batch_size=2)))[0]
        fit = self.source.lines(data.rows)
        network, prepare, _ = build(self.backbone, sample, data.classes, fit=fit)
        trainer = Trainer(method, network, prepare, data, training=training)
        begun = time.process_time()
        trainer.run()
        used = time.process_time() - begun
        rows = self.task.rows("test")
        outputs = np.append(self.task.label_ids, -1)
        right = outputs[trainer.scores(rows).argmax(1)] == self.task.metadata.label[rows]
        return used, float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("domains")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=METHODS)
    parser.add_argument("--backbone", default="small-cnn", choices=BACKBONES)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    task = sd.task(given.domains, "leave-one-domain-out", test="script").also("test", "unlabelled")
    source = source_of(task.metadata, "scratch", *(task.rows(name) for name in task.sets))
    bench = Bench(task, source, given.backbone)
    print(f"{task.describe()}, {given.backbone}, {given.steps} steps")
    print("| method | seconds | x ERM | accuracy |")
    print("|---|--:|--:|--:|")
    plain = Training(steps=given.steps)
    before = bench.measure("erm", plain)[0]
    for name in given.only:
        training = Training(steps=given.steps, evaluate_every=given.steps // 20 if name == "swad" else 0)
        seconds, accuracy = bench.measure(name, training)
        after = bench.measure("erm", plain)[0]
        ratio = 2 * seconds / (before + after)
        print(f"| {name} | {seconds:.1f} | {ratio:.2f} | {accuracy:.3f} |", flush=True)
        before = after


if __name__ == "__main__":
    main()
