"""`python -m builders styles`: styles of one's own, from addresses or files to a file of codes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from builders.curate.content import Content
from builders.curate.encoding import encode
from builders.curate.fidelity import TABLE, measure
from builders.curate.filtering import SCORES, Codes, VggMeans, filter_pictures
from builders.curate.getting import REFUSED, get
from builders.curate.labelling import LABELS, draw_sheets, sample
from builders.recipe_files import load_recipe
from builders.shifts.steps import Stylize
from builders.shifts.styles.listed import read_listed
from builders.shifts.stylizers import Arbitrary, Stylizer
from builders.shifts.stylizers.vgg import LAYOUTS
from shiftdata.cli.verbs import GOES_ON, Verb, progress, quiet_option, verb
from shiftdata.data.executors import Executor, Here, Pool
from shiftdata.data.format.records import by_reason
from shiftdata.errors import InputError
from shiftdata.threads import available_cores


class Styles(Verb, click.Group):
    """The verbs of styles under one name."""


command = Styles(
    "styles",
    help="Styles of your own: get pictures, label some, filter all, measure fidelity, encode.",
    epilog="""
    examples:
      python -m builders styles get pictures.tsv my_styles
      python -m builders styles sample my_styles --content sma_emoji
      python -m builders styles filter my_styles
      python -m builders styles fidelity my_styles --content sma_emoji
      python -m builders styles encode my_styles my_styles.parquet

    docs/generators/own_styles.md explains each.
    """,
)

File = click.Path(exists=True, dir_okay=False, path_type=Path)
Folder = click.Path(exists=True, file_okay=False, path_type=Path)
out_argument = click.argument("out", type=Folder, help="The folder that `styles get` wrote.")
like_option = click.option(
    "--like", metavar="RECIPE", help="A recipe whose stylizer paints. [default: the one that ships]"
)
content_help = "A recipe, or a folder <label>/<picture>, to stylize."
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Processes at work. [default: all cores]"
)


@verb(
    """
    examples:
      python -m builders styles get pictures.tsv my_styles     columns style and file
      python -m builders styles get /data/paintings my_styles  /data/paintings/<style>/<picture>
    """,
    interrupted=GOES_ON,
)
@click.argument(
    "list_", metavar="LIST", type=click.Path(exists=True, path_type=Path), help="A table or a folder."
)
@click.argument("out", type=click.Path(path_type=Path), help="The folder to write.")
@quiet_option
def get_command(list_: Path, out: Path, quiet: bool) -> None:
    """Take the style pictures of LIST into the folder OUT.

    OUT gets <style>/<picture>, styles.tsv with the source of each picture, and refused.tsv with the reason
    why others were refused: no picture, too small, too large, animated, equal to another.
    """
    with ExitStack() as stack:
        got = get(list_, out, on_done=_bar(stack, "get", quiet))
    for style, count in Counter(picture.style for picture in got.pictures).items():
        print(f"{style}: {count} pictures")
    for reason, count in by_reason(Counter(why for _, _, why in got.refused)).items():
        print(f"refused: {count:,}: {reason}", file=sys.stderr)
    print(f"{out}: {len(got.pictures):,} pictures, {len(got.refused):,} refused ({out / REFUSED})")


@verb(
    """
    examples:
      python -m builders styles sample my_styles --content sma_emoji
      python -m builders styles sample my_styles --count 100
    """,
)
@out_argument
@click.option("--count", type=click.IntRange(min=1), default=200, help="Pictures to label.")
@click.option("--content", metavar="RECIPE_OR_FOLDER", help=f"{content_help} [default: no sheets]")
@like_option
@workers_option
@quiet_option
def sample_command(
    out: Path, count: int, content: str | None, like: str | None, workers: int | None, quiet: bool
) -> None:
    """Draw the pictures that a person should label, evenly over styles, into OUT/labels.csv.

    With --content, each gets a sheet of 20 pictures in its style. Write `good` where all 20 can be
    recognised, else `bad`, or label the sheets in Label Studio and run `shiftdata labels import`. Labels
    that the table has already stay.
    """
    todo = sample(out, count)
    print(f"{out / LABELS}: {len(todo):,} pictures to label good or bad")
    if content:
        with ExitStack() as stack:
            bar = _bar(stack, "sheets", quiet, len(todo))
            sheets = draw_sheets(out, todo, Content(content), _executor(workers), bar, _stylizer(like))
        print(f"{sheets}: a sheet for each, also as tasks.json and config.xml for Label Studio")


@verb(
    """
    examples:
      python -m builders styles filter my_styles
      python -m builders styles filter my_styles --encoder vgg19.pth
      python -m builders styles filter my_styles --encoder hf://owner/name/vgg19.safetensors --keep 60
    """,
)
@out_argument
@click.option("--labels", type=File, help="The table of labels. [default: OUT/labels.csv]")
@click.option("--encoder", metavar="WEIGHTS", help="Of a VGG. [default: style codes, which need none]")
@click.option("--layout", type=click.Choice([*LAYOUTS]), default="vgg19", help="Of these weights.")
@click.option("--keep", type=click.IntRange(min=1), default=40, help="The most pictures of a style.")
@workers_option
@quiet_option
def filter_command(
    out: Path,
    labels: Path | None,
    encoder: str | None,
    layout: str,
    keep: int,
    quiet: bool,
    workers: int | None,
) -> None:
    """Score every picture by what was learned from the labelled ones, and write OUT/scores.tsv.

    A support vector machine on standardised features: the mean activations of a VGG, or style codes.
    """
    with ExitStack() as stack:
        report = filter_pictures(
            out,
            labels or out / LABELS,
            VggMeans(encoder, layout) if encoder else Codes(),
            _executor(workers),
            keep=keep,
            on_done=_bar(stack, "features", quiet, len(read_listed(out))),
        )
    print(report, f"wrote {out / SCORES}", sep="\n")


@verb(
    """
    examples:
      python -m builders styles fidelity my_styles --content sma_emoji
      python -m builders styles fidelity my_styles --content /data/pets --trials 200
    """,
    interrupted=GOES_ON,
)
@out_argument
@click.option("--content", metavar="RECIPE_OR_FOLDER", required=True, help=content_help)
@click.option("--trials", type=click.IntRange(min=1), default=100, help="Draws of three styles and classes.")
@click.option("--keep", type=click.IntRange(min=1), default=20, help="The most styles.")
@like_option
@workers_option
@quiet_option
def fidelity_command(
    out: Path, content: str, trials: int, keep: int, like: str | None, workers: int | None, quiet: bool
) -> None:
    """Measure how much stays recognisable in each style, and write OUT/fidelity.tsv.

    Pictures that OUT/scores.tsv leaves out take no part.
    """
    with ExitStack() as stack:
        bar = _bar(stack, "trials", quiet, trials)
        executor, stylizer = _executor(workers), _stylizer(like)
        result = measure(out, Content(content), executor, stylizer, trials=trials, keep=keep, on_done=bar)
    print(result, f"wrote {out / TABLE}", sep="\n")


@verb("""
    examples:
      python -m builders styles encode my_styles my_styles.parquet
      python -m builders styles encode my_styles my_styles.parquet \\
        --scores my_styles/scores.tsv --fidelity my_styles/fidelity.tsv
      python -m builders styles encode my_styles my_styles.parquet --like my_adain.py
""")
@click.argument("folder", type=Folder, help="One folder of pictures a style.")
@click.argument("output", type=click.Path(path_type=Path), help="The file of codes, ending in .parquet.")
@click.option("--scores", type=File, help="Only the pictures that this table keeps.")
@click.option("--fidelity", type=File, help="Only the styles that this table keeps.")
@like_option
@quiet_option
def encode_command(
    folder: Path, output: Path, scores: Path | None, fidelity: Path | None, like: str | None, quiet: bool
) -> None:
    """Encode the style pictures FOLDER/<style>/<picture>: 400 bytes a picture, which no longer show it.

    With --like, by the stylizer of a recipe (AdaIN over VGG-19: 4 KB a picture).

    `Stylize(styles=Path("my_styles.parquet"))` makes the same pictures as the folder does. The file says
    where each picture is from, if FOLDER has the table styles.tsv.
    """
    with ExitStack() as stack:
        bar = _bar(stack, "encode", quiet)
        bank = encode(folder, output, _stylizer(like), scores=scores, fidelity=fidelity, on_done=bar)
    for style, codes in bank.codes.items():
        print(f"{style}: {len(codes)} pictures")
    print(f"{output}: {output.stat().st_size:,} bytes")


for _name, _command in {
    "get": get_command,
    "sample": sample_command,
    "filter": filter_command,
    "fidelity": fidelity_command,
    "encode": encode_command,
}.items():
    command.add_command(_command, _name)


def _bar(stack: ExitStack, title: str, quiet: bool, total: int | None = None) -> Callable[..., Any]:
    """Return a function that moves a progress bar; the total may come with each step."""
    bar = stack.enter_context(progress(title, total, "", quiet=quiet))

    def on_done(count: int, total: int | None = None) -> None:
        bar.total = total or bar.total
        bar.update(count)

    return on_done


def _stylizer(recipe: str | None) -> Stylizer:
    """The stylizer of a recipe, or the one that ships."""
    if recipe is None:
        return Arbitrary()
    shift = load_recipe(recipe).shift
    if not isinstance(shift, Stylize):
        raise InputError(f"the shift of {recipe} is {type(shift).__name__}, and --like needs one by Stylize")
    return shift.stylizer


def _executor(workers: int | None) -> Executor:
    count = workers or available_cores()
    return Pool(count) if count > 1 else Here()
