"""`shiftdata sliders`: train the sliders of a diffusion model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from builders.shifts.diffusion import CODE, PAPER, Diffusion, Training, slider_file, train
from shiftdata.cli.verbs import GOES_ON, Verb, asked_rank, progress, quiet_option, verb
from shiftdata.data.executors import ALONE, Here, Pool, Ranks


class Sliders(Verb, click.Group):
    """The verbs of sliders under one name."""


command = Sliders(
    "sliders",
    help="Train the sliders of a diffusion model, one for each shift and class.",
    epilog="""
    examples:
      shiftdata sliders train sd2 my_sliders --shifts "heavy snow,fog" --classes "minivan,fox"
    """,
)


@dataclass(frozen=True)
class Job:
    """The slider of a shift and a class."""

    shift: str
    label: str

    def __str__(self) -> str:
        return f"the slider {self.shift} of {self.label}"


def _names(_: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    """Names between commas, or the lines of a file."""
    lines = (
        Path(value).read_text(encoding="utf-8").splitlines() if Path(value).is_file() else value.split(",")
    )
    names = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not names:
        raise click.BadParameter("at least one name is needed", param=option)
    return names


@verb(
    """
    examples:
      shiftdata sliders train sd2 my_sliders --shifts "heavy snow" --classes "minivan,fox"
      shiftdata sliders train sd2 my_sliders --shifts shifts.txt --classes classes.txt --device cuda
      shiftdata sliders train sd2 my_sliders --shifts fog --classes fox --rank 0 --world 8
    """,
    interrupted=GOES_ON,
)
@click.argument("pipeline", help="Stable Diffusion: a folder, or hf://owner/name.")
@click.argument(
    "output", type=click.Path(file_okay=False, path_type=Path), help="Where <shift>/<class>.safetensors go."
)
@click.option("--classes", required=True, callback=_names, metavar="A,B|FILE", help="The classes.")
@click.option("--shifts", required=True, callback=_names, metavar="A,B|FILE", help="The shifts.")
@click.option(
    "--variant", type=click.Choice(["paper", "code"]), default="paper", help="Whose prompts and steps."
)
@click.option("--size", type=click.IntRange(min=8), default=512, help="Side of the pictures, in pixels.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), default="cpu", help="Where to work.")
@click.option(
    "--precision", type=click.Choice(["float32", "bfloat16"]), default="float32", help="Of the model."
)
@click.option("--iterations", type=click.IntRange(min=1), default=400, help="Steps of each training.")
@click.option("--batch", type=click.IntRange(min=1), default=16, help="Pictures a step.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, metavar="N", help="Processes, each with a model."
)
@click.option("--rank", type=int, metavar="R", help="Which of --world processes this is, from 0 on.")
@click.option("--world", type=int, metavar="W", help="How many processes share the work.")
@click.option("--slurm", is_flag=True, help="Take rank and world from Slurm.")
@quiet_option
def train_command(
    pipeline: str,
    output: Path,
    classes: tuple[str, ...],
    shifts: tuple[str, ...],
    variant: str,
    iterations: int,
    batch: int,
    workers: int,
    rank: int | None,
    world: int | None,
    slurm: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a slider for each shift and class; those that are there are left as they are.

    On one A100, CNS-Bench needed 1 to 2 hours a slider. A command that was stopped goes on, within a
    slider too. With --rank and --world (or --slurm) several share the work: one for each GPU.
    """
    diffusion = Diffusion(folder=pipeline, **(PAPER if variant == "paper" else CODE), **options)
    diffusion.weights_id()  # whatever is wrong with the pipeline is said before any work
    training = Training(variant=variant, iterations=iterations, batch=batch)  # type: ignore[arg-type]
    jobs = [Job(shift, label) for shift in shifts for label in classes]
    left = _missing(output, jobs)
    print(f"{len(jobs) - len(left)} of {len(jobs)} sliders are there")
    with progress("training", len(left), "slider", quiet=quiet) as bar:
        executor = Ranks(
            Here() if workers == 1 else Pool(workers),
            asked_rank(rank, world, slurm) or ALONE,
            partial(_missing, output),
        )
        for _, is_new in executor.run(partial(_trainer, diffusion, training, output), jobs):
            bar.update(is_new)
    print(f"{output}: {len(shifts)} shifts of {len(classes)} classes")


def _missing(output: Path, jobs: Any) -> list[Job]:
    return [job for job in jobs if not slider_file(output, job.shift, job.label).is_file()]


def _trainer(diffusion: Diffusion, training: Training, output: Path) -> Callable[[Job], bool]:
    """Return the function that trains sliders in a worker process."""

    def work(job: Job) -> bool:
        file = slider_file(output, job.shift, job.label)
        if file.is_file():  # by now: of another rank
            return False
        train(diffusion, job.label, job.shift, file, training)
        return True

    return work


command.add_command(train_command, "train")
