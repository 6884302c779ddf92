"""`shiftdata sweep`: many trainings into a folder of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shiftdata.cli.verbs import GOES_ON, asked_rank, device_option, progress, quiet_option, verb
from shiftdata.data.executors import ALONE, Pool, Ray
from shiftdata.extras import require
from shiftdata.untrusted.texts import read_toml

RETRIED = ("error", "out of memory", "diverged", "refused")
#: The most reasons of failures that are printed.
MOST = 20


@verb(
    """
    examples:
      shiftdata sweep                                              the presets, each with what it costs
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
      steps = 800
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

    if status is not None:
        _print_progress(progress_of(folder_sweep(status), status, device))
        return None
    if sweep is None:
        _print_presets()
        return None
    plan = read_sweep(sweep, datasets)
    folder = folder or Path("runs") / plan.name
    rank = asked_rank(**ranks) or ALONE
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
