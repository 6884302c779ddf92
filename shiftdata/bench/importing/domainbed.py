"""DomainBed's sweeps: a folder per run with results.jsonl, as its train.py writes them.

A run that holds out two domains is a fold of its cross-validation: it becomes the set `cross-validation` of
the runs that hold out one of both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from shiftdata.bench.importing.logged import Files, Logged, counted, rows_of
from shiftdata.bench.reporting.layouts import NAMES
from shiftdata.bench.selection import CROSS
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Evaluation
from shiftdata.untrusted.texts import read_json

#: The domains of its datasets by number: domainbed/datasets.py.
DOMAINS = {
    "VLCS": "C L S V", "PACS": "A C P S", "OfficeHome": "A C P R", "TerraIncognita": "L100 L38 L43 L46",
    "DomainNet": "clip info paint quick real sketch",
}  # fmt: skip
ACCURACY = re.compile(r"env(\d+)_(in|out)_acc")
#: The accuracies of a run at each step, by domain and part.
Steps = dict[int, dict[tuple[int, str], float]]
#: Dataset, algorithm, seed of the trial, of the hyperparameters, domains that were held out.
Key = tuple[str, str, int, int, tuple[int, ...]]


def read(files: Files) -> Iterator[Logged]:
    """Yield the runs that hold out one domain; the trial's seed cuts the domains, so it names a task."""
    runs, hyper = dict[Key, Steps](), dict[Key, Any]()
    shares: dict[tuple[str, int, str], set[float]] = defaultdict(set)
    for key, steps, hyper[key] in files.parsed("results.jsonl", _run):
        if key in runs:
            raise InputError(f"{files.path} has two runs of {key}: import their folders apart")
        runs[key] = steps
        for (domain, part), share in (pair for logged in steps.values() for pair in logged.items()):
            shares[key[0], domain, part].add(share)
    rows = {place: rows_of(sorted(of), place) for place, of in shares.items()}
    for key in sorted(key for key in runs if len(key[-1]) == 1):
        dataset, algorithm, seed, trial, (held_out,) = key
        results = {step: list(_sets(key, step, runs, rows)) for step in runs[key]}
        task = f"domainbed@1(test={_domain(dataset, held_out)!r}, seed={seed})"
        name = NAMES.get(algorithm, algorithm.lower())
        yield Logged(dataset, task, name, trial, seed, results, hyper[key])


def _run(name: str, data: bytes) -> tuple[Key, Steps, Any]:
    steps: Steps = {}
    for line in data.decode().splitlines():
        logged = read_json(line, name, constants=True)
        matches = filter(None, map(ACCURACY.fullmatch, logged))
        steps[int(logged["step"])] = {(int(of[1]), of[2]): float(logged[of[0]]) for of in matches}
    args, held_out = logged["args"], tuple(sorted(map(int, logged["args"]["test_envs"])))
    seeds = int(args["trial_seed"]), int(args["hparams_seed"])
    return (str(args["dataset"]), str(args["algorithm"]), *seeds, held_out), steps, dict(logged["hparams"])


def _domain(dataset: str, number: int) -> str:
    names = DOMAINS.get(dataset, "").split()
    return names[number] if number < len(names) else f"env{number}"


def _sets(key: Key, step: int, runs: dict[Key, Steps], rows: dict[Any, int]) -> Iterator[Evaluation]:
    (held_out,) = key[4]

    def of(steps: Steps, domain: int, part: str) -> dict[str, tuple[float, int]]:
        return {_domain(key[0], domain): (steps[step][domain, part], rows[key[0], domain, part])}

    others = sorted({domain for domain, _ in runs[key][step]} - {held_out})
    outs = [pair for domain in others for pair in of(runs[key], domain, "out").items()]
    yield counted("validation", "select", dict(outs))
    yield counted("test", "test", of(runs[key], held_out, "in"))
    yield counted("oracle", "test", of(runs[key], held_out, "out"))
    pairs = {domain: tuple(sorted((domain, held_out))) for domain in others}
    folds = {domain: runs.get((*key[:4], pair), {}) for domain, pair in pairs.items()}
    if all(step in steps for steps in folds.values()):
        ins = [pair for domain, steps in folds.items() for pair in of(steps, domain, "in").items()]
        yield counted(CROSS, "select", dict(ins))
