"""RLSbench's logs: an eval.csv per run, in folders whose names have its settings (its run_main.py)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from shiftdata.bench.importing.logged import Files, Logged, counted, rows_of
from shiftdata.bench.reporting.layouts import NAMES
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.official import Figure
from shiftdata.untrusted.texts import read_csv

PLACE = re.compile(
    r"(?:.*/)?(?P<dataset>\w+?)_split:(?P<target>[^_/]+)(?:_alpha:(?P<alpha>[\d.e+-]+))?_seed:(?P<seed>\d+)/"
    r"(?P<algorithm>[\w-]+?)_(?P<settings>(?:MLLS|true|RLLS|None|baseline)_source_bal:[^/]*/lr:[^/]*)/eval\.csv"
)
#: The source-only model of the paper's tables: with strong augmentation, but for texts and tables.
UNAUGMENTED = ("civilcomments", "amazon", "retiring_adult", "mimic_readmission")
ALGORITHMS = {"PseudoLabel": "pseudo-label", "BN_adapt": "bn-adapt", "ERM-aug": "erm"}
SOURCE, PLAIN, WEIGHTED = "source_acc", "target_acc_no_im", "target_acc_RLLS"
#: After a balanced source, outputs are weighted by the target's shares alone.
BALANCED = "multarget_acc_RLLS"


def read(files: Files) -> Iterator[Logged]:
    """Yield each run twice: as it is, and with its outputs re-weighted by RLLS's estimate (RW)."""
    runs = [run for run in files.parsed("eval.csv", _run) if run is not None]
    if not runs:
        raise InputError(f"{files.path} has no eval.csv of a target, only of source-only training")
    shares: dict[str, set[float]] = defaultdict(set)
    for place, epochs in runs:
        for logged in epochs.values():
            shares[_source(place)].add(logged[SOURCE])
            shares[_task(place)].update(logged[name] for name in (PLAIN, WEIGHTED, BALANCED))
    rows = {of: rows_of(sorted(set_), of) for of, set_ in shares.items()}
    trials: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for place, epochs in sorted(runs, key=lambda run: tuple(run[0].values())):
        task, source, target = _task(place), _source(place), place["target"]
        resampled = place["algorithm"].startswith("IS-")
        for column in (PLAIN, BALANCED if resampled else WEIGHTED):
            method = _method(place, "rs" * resampled, "rw" * (column != PLAIN))
            numbers = trials[task, method]
            trial = numbers.setdefault(place["settings"], len(numbers))
            results = {}
            for epoch, logged in epochs.items():
                error = Figure(logged["RLLS_AE"], rows[task], "shares of labels, as RLLS estimates them")
                figures = {} if column == PLAIN else {"marginal_error": error}
                results[epoch] = [
                    counted("source", "select", {"source": (logged[SOURCE], rows[source])}),
                    counted("target", "test", {target: (logged[column], rows[task])}, figures),
                ]
            yield Logged(place["dataset"], task, method, trial, int(place["seed"]), results, place)


def _run(name: str, data: bytes) -> tuple[dict[str, str], dict[int, dict[str, float]]] | None:
    """Read what the folders say, and at each epoch the accuracies (as shares) and RLLS's error."""
    match = PLACE.fullmatch(name)
    if match is None and "_split:" not in name:  # trained on the source alone
        return None
    if match is None:
        raise ValueError("its folders do not say dataset, split, seed, algorithm and settings")
    epochs = {
        int(row["epoch"]): {of: float(row[of]) / 100 for of in (SOURCE, PLAIN, WEIGHTED, BALANCED)}
        | {"RLLS_AE": float(row["RLLS_AE"])}
        for row in read_csv(data.decode(), name)
    }
    return {of: value or "" for of, value in match.groupdict().items()}, epochs


def _source(place: Mapping[str, str]) -> str:
    return f"source of {place['dataset']}, seed {place['seed']}"


def _task(place: Mapping[str, str]) -> str:
    alpha = float(place["alpha"] or "inf")
    shift = alpha if alpha < 50 else None  # their code draws no shift from there on
    of = f"source={place['dataset']!r}, target={place['target']!r}"
    return f"label-shift@1(variant='code', {of}, alpha={shift}, seed={place['seed']})"


def _method(place: Mapping[str, str], *corrections: str) -> str:
    """The name as sweeps write it: rs+rw+dann for IS-DANN that is re-weighted, rw for source-only."""
    name = place["algorithm"].removeprefix("IS-")
    if name == "ERM" and place["dataset"] not in UNAUGMENTED:
        name = "erm-plain"
    name = ALGORITHMS.get(name) or NAMES.get(name, name.lower())
    return "+".join(filter(None, (*corrections, "" if any(corrections) and name == "erm" else name)))
