"""`shiftdata explore`: look at the rows of a dataset, filter and select them, compare predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftdata.cli.verbs import GOES_ON, dataset_argument, progress, quiet_option, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.extras import require

if TYPE_CHECKING:
    from shiftdata.data.metadata import Metadata
    from shiftdata.serve.explore.rows import Predicted


@verb(
    """
    examples:
      shiftdata explore sma_glyphs_k8                              the default base, in a browser
      shiftdata explore sma_glyphs_k8 --base content
      shiftdata explore sma_glyphs_k8 gf_k8_mu10 --predictions runs/erm --predictions rwg=runs/rwg
      shiftdata explore sma_glyphs_k8 --out space                  files, for a Space or any web server
      shiftdata explore sma_glyphs_k8 --keep                       features/ becomes a part of the dataset

    Each row is a point on a map of its features, by which neighbours are found. Label, nuisance, split,
    severity, licence, group, origin and predictions are columns to filter by. A selection becomes Python or
    a file of keys. Features are computed once and kept in the user's cache folder. Only this machine can
    reach the server; from another one: ssh -L 8050:localhost:8050 MACHINE.
    Needs: pip install 'shiftdata[explore]' && pip install --no-deps 'embedding-atlas==0.26.*'
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.argument("protocol", nargs=-1, metavar="[TASK]...", help="The task that --predictions are of.")
@click.option("--base", metavar="NAME", help="A base of `shiftdata info`.  [default: the default base]")
@click.option(
    "--predictions", multiple=True, metavar="[NAME=]PLACE", help="A run, a sweep, a file; repeatable."
)
@click.option(
    "--set", "name", metavar="SET", help="The set that they predict.  [default: the first that tests]"
)
@click.option("--model", default="", help="A model whose features make the map.  [default: of the modality]")
@click.option("--no-map", is_flag=True, help="No features and no map: filters and the table alone.")
@click.option("--keep", is_flag=True, help="Write the features and the map into the dataset's folder.")
@click.option("--out", type=Path, metavar="FOLDER", help="Write files for any web server, and stop.")
@click.option("--most", type=click.IntRange(1), default=20_000, help="Rows of --out that have pictures.")
@click.option("--port", type=click.IntRange(0, 65535), default=8050, metavar="N", help="0 is any free port.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    base: str | None,
    predictions: tuple[str, ...],
    name: str | None,
    model: str,
    no_map: bool,
    keep: bool,
    out: Path | None,
    most: int,
    port: int,
    quiet: bool,
) -> None:
    """Look at every row of a dataset: a map, filters, neighbours, and where runs are wrong.

    The view is Embedding Atlas; it runs in a browser, over a server on this machine or as files of its own.
    """
    from shiftdata.serve.explore import atlas
    from shiftdata.serve.explore.neighbours import add_map
    from shiftdata.serve.explore.rows import explored

    if protocol and not predictions:
        raise InputError(f"{' '.join(protocol)} is a task, which only --predictions need: give them too")
    opened = open_dataset(dataset)
    metadata = read_metadata(opened, base or opened.manifest.default_base)
    _ = atlas.application() if out else atlas.component()  # what is missing is said before the work
    if out is None:
        require("duckdb", "`shiftdata explore`")
    runs = [run for place in predictions for run in _runs(metadata, protocol, place, name)]
    placed = None if no_map else _map(metadata, model, quiet)
    if keep and placed is not None:
        path = add_map(opened, metadata, placed)
        print(f"{path}: listed in the manifest; `shiftdata build {opened.manifest.name}` renews the card")
        opened = open_dataset(dataset)
        metadata = read_metadata(opened, metadata.base)
    table = explored(metadata, placed, runs)
    if out is not None:
        from shiftdata.serve.explore.space import write_space

        with progress("pictures", None, "row", quiet=quiet) as bar:
            print(write_space(metadata, table, out, most=most, on_rows=bar.update))
        return
    _serve(metadata, table, port)


def _runs(metadata: Metadata, protocol: tuple[str, ...], place: str, name: str | None) -> list[Predicted]:
    from shiftdata.cli.evaluate import predictions_of
    from shiftdata.cli.task import protocol_of
    from shiftdata.evaluation.protocols import task
    from shiftdata.serve.explore.rows import Predicted

    assert metadata.dataset is not None
    made = task(metadata.dataset, protocol_of(protocol) if protocol else None, base=metadata.base)
    chosen, words = name or made.set_of("test"), " ".join(protocol) or "the base"
    found = predictions_of(place, made, chosen)
    return [Predicted(run, words, made, chosen, given) for run, given in found.items()]


def _map(metadata: Metadata, model: str, quiet: bool) -> Any:
    from shiftdata.serve.explore.neighbours import row_map

    with progress("encode", len(metadata), "row", quiet=quiet) as bar:

        def step(text: str) -> None:
            bar.close()
            if not quiet:
                click.echo(f"{text} ...", err=True)

        return row_map(metadata, model, on_rows=bar.update, on_step=step)


def _serve(metadata: Metadata, table: Any, port: int) -> None:
    from shiftdata.serve.explore.app import Exploration, Server
    from shiftdata.serve.pages.rows import Rows

    assert metadata.dataset is not None
    exploration = Exploration(Rows.of(metadata.dataset, metadata.base), table)
    with Server(exploration, port) as server:
        _ = exploration.database  # filled before anybody asks
        print(f"{server.address}  Ctrl-C stops it", flush=True)
        server.serve_forever()
