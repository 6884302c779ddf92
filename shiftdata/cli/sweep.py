"""`shiftdata sweep`: many trainings into a folder of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shiftdata.cli.verbs import GOES_ON, asked_rank, device_option, progress, quiet_option, verb
from shiftdata.data.executors import ALONE, Pool, Ray
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.untrusted.texts import read_toml

RETRIED = ("error", "out of memory", "diverged", "refused")
#: The most reasons of failures that are printed.
MOST = 20


@verb(
    """
    examples:
      shiftdata sweep                                              the presets, each with what it costs
      shiftdata sweep rlsbench --dry-run                           what it costs, and what is not here
      shiftdata sweep rlsbench --stand-ins --fraction .02          a part of it, on embedded datasets
      shiftdata sweep sma-fairness --folder runs/fairness          a preset, on its own datasets
      shiftdata sweep sma-fairness --dataset photos --folder runs/photos
      shiftdata sweep mine.toml --folder runs/mine --workers 8     a sweep of your own
      shiftdata sweep mine.toml --folder runs/mine --retry error   go on, and repeat runs with an error
      shiftdata sweep --status runs/mine                           done, failed and why, not complete
      shiftdata sweep mine.toml --rank 3 --world 8                 one of 8 processes that share a folder
      shiftdata sweep mine.toml --slurm                            the same, in a Slurm array or by srun
      shiftdata sweep mine.toml --ray                              on every node of a running Ray cluster

    A sweep of your own, as a file:
      datasets = ["sma_glyphs"]
      methods = ["erm", "subg", "jtt@code", "rs+rw+erm"]    # @ a variant; wrappers before a +
      backbones = "small-cnn"                               # heads: linear ones on frozen features, very fast
                                                            # linear@MODEL: on the features of a trained model
      rules = ["iid-worst", "oracle"]                       # what its results are reported under
      [[tasks]]
      protocol = "group-fairness"                           # or canonical = "uda_*", splits of the dataset
      k = [2, 4]                                            # a list: a task for each value; in joined
                                                            # protocols it stands where {k} does
      mu = 0.1
      [training]
      steps = 800                                           # or epochs = 20
      evaluate_every = 100
      [search]
      kind = "random"                                       # defaults, random, tpe
      trials = 10
      seeds = 3
      seeds_of = "best"                                     # or "each" trial
      rule = "iid-worst"
      [search.space]
      learning_rate = { low = 1e-4, high = 1e-1, log = true }
    Methods bring their own ranges; `shiftdata train` lists them. Then: shiftdata report runs/mine
    """,
    interrupted=GOES_ON,
)
@click.argument("sweep", required=False, help="A preset, or a .toml file; none lists the presets.")
@click.option("--folder", type=Path, metavar="FOLDER", help="Where the records go.  [default: runs/<name>]")
@click.option("--dataset", "datasets", multiple=True, metavar="NAME", help="Instead of the sweep's own.")
@click.option("--stand-ins", is_flag=True, help="Embedded datasets instead of those that it names.")
@click.option("--skip-missing", is_flag=True, help="Leave out the tasks of datasets that are not here.")
@click.option(
    "--fraction",
    type=click.FloatRange(0, 1, min_open=True),
    help="A part; a larger part contains a smaller.",
)
@click.option("--dry-run", is_flag=True, help="Print what it costs, from a few measured steps, and end.")
@click.option("--status", type=Path, metavar="FOLDER", help="Print the progress of the sweep of this folder.")
@click.option("--retry", multiple=True, type=click.Choice(RETRIED), help="Repeat runs with this status.")
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: 1, this one]")
@click.option("--ray", metavar="[ADDRESS]", is_flag=False, flag_value="auto", help="On a Ray cluster.")
@click.option("--rank", type=int, metavar="R", help="The number of this process, from 0.")
@click.option("--world", type=int, metavar="W", help="How many processes share the folder.")
@click.option("--slurm", is_flag=True, help="Take rank and world from Slurm.")
@device_option
@quiet_option
def command(
    sweep: str | None,
    folder: Path | None,
    datasets: tuple[str, ...],
    stand_ins: bool,
    skip_missing: bool,
    fraction: float | None,
    dry_run: bool,
    status: Path | None,
    retry: tuple[str, ...],
    workers: int | None,
    ray: str | None,
    device: str,
    quiet: bool,
    **ranks: Any,
) -> int | None:
    """Train many methods on many tasks, with a search for each, into a folder of records.

    A run that fails is recorded with its reason. The same command again goes on with a stopped sweep.
    """
    require("torch", "a sweep")
    from shiftdata.bench import folder_sweep, progress_of, read_sweep, run_sweep
    from shiftdata.bench.sweep import faults

    if status is not None:
        _print_progress(progress_of(folder_sweep(status), status, device))
        return None
    if sweep is None:
        _print_presets()
        return None
    rank = asked_rank(**ranks) or ALONE
    plan = read_sweep(sweep, datasets, stand_ins=stand_ins)
    absent = faults(task.dataset for task in plan.tasks)
    if absent and not (skip_missing or dry_run):
        raise InputError(f"{plan.name} names datasets that are {_absent(absent, plan)}")
    if skip_missing and absent:
        plan = plan.without(absent)
    if fraction is not None:
        plan = plan.share(fraction)
    folder = folder or Path("runs") / plan.name
    if dry_run:
        _print_price(plan, folder, absent, device, workers or 1, quiet)
        return None
    pool = Pool(workers) if workers and workers > 1 else None
    executor = pool if ray is None else Ray(ray, workers)
    with progress(f"sweep {plan.name}", None, " runs", quiet=quiet) as bar:

        def on_unit(unit: Any, now: Any) -> None:
            bar.total, bar.n = now.runs, now.recorded.total()
            bar.update(0)

        run_sweep(plan, folder, executor=executor, rank=rank, device=device, retry=retry, on_unit=on_unit)
    now = progress_of(plan, folder, device)
    _print_progress(now)
    print(f"{folder}: shiftdata report {folder} shows it")
    return 1 if now.failed and not now.left and not now.recorded["done"] else None  # every run failed


def _print_price(plan: Any, folder: Path, absent: Any, device: str, workers: int, quiet: bool) -> None:
    from shiftdata.bench import price
    from shiftdata.bench.records import part_of
    from shiftdata.bench.sweep import plain_sweep

    with progress("steps are timed", None, " kinds", quiet=quiet) as bar:

        def on_kind(done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.update(0)

        priced = price(plan, folder, device=device, workers=workers, absent=absent, on_kind=on_kind)
    part = part_of(plain_sweep(plan))
    print(f"{plan.name}: {plan.about}" + (f"\n{part}" if part else ""))
    if priced.studies:
        print(priced)
    if absent:
        print(_absent(absent, plan))


def _absent(absent: Mapping[str, str], plan: Any) -> str:
    """List the datasets that cannot be opened, and how to get them."""
    tasks = Counter(task.dataset for task in plan.tasks)
    studies = Counter(task.dataset for task, _, _ in plan.studies())
    lines = ["not on this machine:"]
    for name, count in tasks.items():
        if name not in absent:
            continue
        splits = [task.protocol for task in plan.tasks if task.dataset == name]
        canonical = [text for text in splits if text.startswith("canonical ")]
        runs = f"{count:,} tasks, {studies[name] * plan.runs_of_a_study:,} runs"
        why = "" if absent[name].startswith("unknown dataset") else f" ({absent[name]})"
        lines.append(f"  {name}: {f'its {canonical[0]} splits' if canonical else runs}{why}")
    return "\n".join(
        [
            *lines,
            "`shiftdata build NAME` builds one, and says which raw files it needs and how to get them.",
            "Or: --stand-ins for embedded datasets of the same kind, --skip-missing, --dataset NAME",
        ]
    )


def _print_progress(now: Any) -> None:
    print(now)
    reasons = sorted(now.failed.items(), key=lambda item: -len(item[1]))
    for reason, runs in reasons[:MOST]:
        more = f", and {len(runs) - 1:,} more" if len(runs) > 1 else ""
        print(f"  {reason}\n    {runs[0]}{more}")
    if len(reasons) > MOST:
        print(f"  and {len(reasons) - MOST:,} more reasons")


def _print_presets() -> None:
    from shiftdata.bench.sweep import PRESETS, presets

    for name in presets():
        about = read_toml(PRESETS / f"{name}.toml").get("about", "")
        print(f"{name}\n    {about}")
