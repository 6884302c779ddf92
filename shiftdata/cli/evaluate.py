"""`shiftdata evaluate`: evaluate predictions on a set of a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from shiftdata.cli.task import protocol_of, task_options
from shiftdata.cli.verbs import begin_bar, format_option, verb
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import task
from shiftdata.evaluation.tasks import Task, imagenet_outputs
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.frozen import Frozen
from shiftdata.evaluation.tasks.predictions import predictions_file
from shiftdata.untrusted.arrays import read_array
from shiftdata.untrusted.texts import read_json

if TYPE_CHECKING:
    from shiftdata.evaluation.metrics.calibration import Calibration


@verb("""
    examples:
      shiftdata evaluate mine.parquet predictions.csv              a file of `shiftdata task ... --freeze`
      shiftdata evaluate sma_glyphs group-fairness k=8 mu=0.1 predictions.csv
      shiftdata evaluate dom_glyphs leave-one-domain-out test=script predictions.npy --by domain
      shiftdata evaluate mine.parquet predictions.csv --set validation --by label,style --format markdown
      shiftdata evaluate mine.parquet predictions.csv --format json > result.json
      shiftdata evaluate mine.parquet predictions.csv --picture groups.png
      shiftdata evaluate mine.parquet erm=a.csv --also rwg=b.csv --page pages/erm-rwg
      shiftdata evaluate cns_bench continuous@paper logits.npy --outputs imagenet
      shiftdata evaluate dom_glyphs leave-one-domain-out test=script runs/erm --calibration

    A file of predictions (.csv, .parquet, .npy) has the columns key and prediction, or one
    prediction for each row in the order of `shiftdata task ... --set test`: a label's name or number, or a
    logit for each label. Or give the folder of a run or of a sweep, which means all of its methods.
""")
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="TASK... [NAME=]PREDICTIONS",
    help="A frozen task, or a dataset with protocols as in `shiftdata task`; then the file of predictions.",
)
@click.option("--set", "name", metavar="SET", help="A set of the task. [default: the first that tests]")
@click.option("--by", default="", metavar="NAMES", help="Accuracy by label, group, severity, style ...")
@click.option("--remap", is_flag=True, help="Numbers count the task's labels, from 0 to k - 1.")
@click.option(
    "--outputs",
    type=click.Choice(["imagenet", "imagenet-masked"]),
    help="The model has the 1,000 outputs of ImageNet: all compete, or (of logits) those of the task alone.",
)
@format_option("text", "markdown", "json")
@click.option("--calibration", is_flag=True, help="ECE, Brier, risk and coverage, of saved scores.")
@click.option("--picture", metavar="FILE", help="Draw the accuracies, by the names of --by.")
@click.option(
    "--page", type=Path, metavar="FOLDER", help="Write a page: every wrong example, by group and method."
)
@click.option("--also", multiple=True, metavar="[NAME=]FILE", help="Other methods for the page.")
@click.option("--gallery", default="", metavar="URL", help="The dataset's page, to which examples lead.")
@click.option("--dataset", metavar="NAME", help="The dataset of a frozen task. [default: as it says]")
@task_options
def command(
    words: tuple[str, ...],
    name: str | None,
    by: str,
    remap: bool,
    outputs: str | None,
    form: str,
    calibration: bool,
    picture: str | None,
    page: Path | None,
    also: tuple[str, ...],
    gallery: str,
    **options: Any,
) -> None:
    """Evaluate predictions: the official metrics of a task's protocols, or the accuracy by names.

    Each figure comes with its number of rows. No picture of the dataset is read.
    """
    *of_task, place = words
    if (also or gallery) and page is None:
        raise InputError("--also and --gallery are for the page: give --page too, the folder for it")
    chosen = _task(of_task, **options)
    predictions = next(iter(predictions_of(place, chosen, name).values()))
    if outputs:
        result = _of_imagenet(chosen, predictions, name, masked=outputs == "imagenet-masked")
    else:
        result = chosen.evaluate(predictions, name, remap=remap)
    columns = [column for column in by.split(",") if column]
    shown = result.by(*columns) if columns else result
    measured = _calibrated(chosen, predictions, name) if calibration else None
    if form == "json":
        more = {"calibration": measured.to_dict()} if measured else {}
        print(json.dumps(shown.to_dict() | more, indent=1))
    else:
        print(shown if form == "text" else result.to_markdown(*columns))
        for table in measured.tables() if measured else ():
            print("", table.text() if form == "text" else table.markdown(), sep="\n")
    if picture:
        result.picture(*columns).save(picture)
    if page is not None:
        _write_page(chosen, [place, *also], page, name, remap=remap, gallery=gallery)


def _calibrated(task: Task, predictions: Any, name: str | None) -> Calibration:
    from shiftdata.evaluation.tasks.scores import calibrated

    if not isinstance(predictions, str):
        raise InputError("a sweep stores no scores: give --calibration the folder of a run")
    return calibrated(task, predictions, name)


def _write_page(task: Task, places: list[str], page: Path, name: str | None, **options: Any) -> None:
    """Write the page on the predictions of some places, each method under its own name."""
    from shiftdata.serve.pages.predictions_page import predictions_page

    given = [item for place in places for item in predictions_of(place, task, name).items()]
    if len(dict(given)) < len(given):
        raise InputError("two of the methods have one name: give NAME=FILE and --also NAME=FILE")
    front = predictions_page(task, dict(given), page, name, **options, begin=begin_bar())
    print(f"{front}: open it in a browser")


def predictions_of(text: str, task: Task, name: str | None = None) -> dict[str, Any]:
    """Return the predictions for a set of a task that [NAME=]PLACE names, by method.

    A place is a file that `task.evaluate` reads, the folder of a `shiftdata train --folder`, or that of a
    sweep, of which each method has the run that the sweep's first rule selects.
    """
    given, _, place = ("", "", text) if Path(text).exists() or "=" not in text else text.partition("=")
    path, name = Path(place), name or task.set_of("test")
    if (path / "sweep.json").is_file():
        from shiftdata.bench.selection import selected_predictions

        chosen = selected_predictions(path, task, name)
        return {f"{given}/{method}" if given else method: each for method, each in chosen.items()}
    if (path / "run.json").is_file():
        about = read_json(path / "run.json")
        file = path / predictions_file(name)
        if not file.is_file():
            raise InputError(f"{path} has no predictions for {name}: it was trained on another task")
        return {given or str(about.get("method", path.name)): str(file)}
    return {given or path.stem: place}


def _of_imagenet(task: Task, predictions: str, name: str | None, *, masked: bool) -> Evaluation:
    """Evaluate a model with the outputs of ImageNet; masked, only those of the task's labels compete."""
    outputs = imagenet_outputs(task)
    if not masked:
        return task.evaluate(predictions, name, outputs=outputs)
    logits: NDArray[Any] = read_array(Path(predictions)) if predictions.endswith(".npy") else np.empty(0)
    if logits.ndim != 2 or logits.shape[1] != len(outputs):
        raise InputError(
            f"imagenet-masked chooses among logits, and {predictions} is not a .npy file of rows x 1000: "
            "give one, or take --outputs imagenet"
        )
    return task.evaluate(logits[:, outputs >= 0], name, outputs=outputs[outputs >= 0])


def _task(words: list[str], dataset: str | None, base: str | None, **options: Any) -> Task:
    """Make the task that words describe; a frozen one names its dataset and base."""
    if not words:
        raise InputError("give the task, and then the file of predictions")
    frozen = Frozen.read(Path(words[0])) if words[0].endswith(".parquet") else None
    if dataset is None and frozen is None:
        dataset, *words = words
    dataset = dataset or (frozen.dataset if frozen else "")
    if not dataset:
        raise InputError(f"{words[0]} does not say of which dataset it is: give --dataset")
    base = base or (frozen.base if frozen else None)
    return task(dataset, protocol_of(words), base=base, **options)
