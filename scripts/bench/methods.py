"""Every reference method on one stated task each: accuracy, and seconds beside ERM's on the same task.

python scripts/bench/methods.py STYLIZED DOMAINS [--steps 800] [--only group-dro dann]

STYLIZED is a built `sma_glyphs`, DOMAINS a built `dom_glyphs`. Methods of groups train on `gf_k8_mu5`,
methods of domains with the script faces left out, methods with a target from serif to script. The small
network reads 40 px and is trained from scratch, in one thread; seconds are of the processor.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import shiftdata as sd
from shiftdata.baselines import METHODS, Inputs, Training, make_method, read_inputs
from shiftdata.baselines.sets import TaskSets

#: Methods that take further settings.
SETTINGS: dict[str, dict[str, Any]] = {"swad": {"evaluate_every": 20}}


@dataclass
class Bench:
    """A task, its examples once they were read, and what ERM costs and reaches on it."""

    task: sd.Task
    inputs: Inputs | None = None
    erm: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def read(self) -> Inputs:
        if self.inputs is None:
            rows = [self.task.rows(name) for name in self.task.sets]
            self.inputs = read_inputs(self.task.metadata, "scratch", *rows)
        return self.inputs

    def measure(self, name: str, training: Training) -> tuple[float, float, float]:
        """Seconds, mean accuracy over groups, and that of the worst."""
        inputs = self.read()
        begun = time.process_time()
        run = sd.train(self.task, name, inputs=inputs, training=training)
        seconds = time.process_time() - begun
        groups = run.evaluate().by("group")
        return seconds, float(groups.mean), float(groups.worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stylized")
    parser.add_argument("domains")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--only", nargs="*", default=METHODS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    groups = Bench(sd.task(given.stylized, "group-fairness", k=8, mu=0.05))
    domains = Bench(sd.task(given.domains, "leave-one-domain-out", test="script"))
    target = Bench(sd.task(given.domains, "uda", source="serif", target="script"))
    print("| method | task | seconds | beside ERM | mean | worst group | ERM: mean | worst group |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.only:
        needs = make_method(name).needs
        bench = target if "target" in needs else domains if "domains" in needs else groups
        TaskSets.of(bench.task, make_method(name), None)  # what it lacks is said here
        training = Training(steps=given.steps, **SETTINGS.get(name, {}))
        erm = bench.erm.get(training.steps) or bench.measure("erm", Training(steps=given.steps))
        bench.erm[training.steps] = erm
        seconds, mean, worst = bench.measure(name, training)
        print(
            f"| {name} | {bench.task.describe()} | {seconds:.0f} | {seconds / erm[0]:.2f} | {mean:.3f} | "
            f"{worst:.3f} | {erm[1]:.3f} | {erm[2]:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
