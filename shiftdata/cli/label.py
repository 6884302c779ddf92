"""`shiftdata label`: a page on which a person labels pictures, by keys."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shiftdata.cli.verbs import progress, quiet_option, verb
from shiftdata.errors import InputError
from shiftdata.evaluation.labelling.agreement import agreements
from shiftdata.evaluation.labelling.purposes import PURPOSES, purpose_of
from shiftdata.evaluation.labelling.table import latest, read_labels, read_rows
from shiftdata.extras import require

if TYPE_CHECKING:
    from shiftdata.evaluation.labelling.work import Work


@verb(
    """
    examples:
      shiftdata label cns_emoji --for filter                      keep, partly or drop each picture
      shiftdata label cns_emoji 'severity>=1' shift=graffiti --for filter --each 5
      shiftdata label my_styles --for styles                      good or bad, for `styles filter my_styles`
      shiftdata label my_pets --for duplicates                    pairs that look alike: same or different
      shiftdata label --agreement labels.csv                      of those who labelled in one file
      shiftdata label --agreement anna.csv ben.csv                of two files

    It prints an address with a token: open it in a browser. Keys 1, 2, 3 or the first letters of the labels
    set one, arrows go back and forth, u takes back, ? lists them. Each label is in the CSV at once: key,
    label, who, when (UTC). The same command again goes on at the first picture without a label.

    The labels of a filter set its threshold:
      python scripts/calibrate_filter.py build/shift/my_pets all to-start my_pets-filter.csv
    """,
    interrupted="stopped: every label is in the file",
)
@click.argument(
    "what",
    nargs=-1,
    metavar="WHAT [CONDITION]...",
    required=True,
    help="A dataset, or a folder of styles; conditions as of `fetch --select`. With --agreement: CSVs.",
)
@click.option("--for", "purpose", type=click.Choice([*PURPOSES]), help="What the labels are for.")
@click.option("--base", metavar="NAME", help="The base of the dataset. [default: its default, or content]")
@click.option("--each", type=click.IntRange(1), metavar="N", help="Examples a group (filter). [default: all]")
@click.option("--seed", type=int, default=0, metavar="N", help="Another order, and other examples of --each.")
@click.option(
    "--out", type=Path, metavar="FILE", help="The CSV. [default: <dataset>-<for>.csv, FOLDER/labels.csv]"
)
@click.option("--who", metavar="NAME", help="Who labels. [default: the page asks]")
@click.option("--compare", type=Path, metavar="FILE", help="Labels of others, for the page on agreement.")
@click.option("--agreement", is_flag=True, help="Print how far people agree in one or several CSVs, and end.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="0 is any free port.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0 listens to every network.")
@click.option("--allowed-host", multiple=True, metavar="NAME", help="A name of this server; several times.")
@quiet_option
def command(
    what: tuple[str, ...],
    purpose: str | None,
    base: str | None,
    each: int | None,
    seed: int,
    out: Path | None,
    who: str | None,
    compare: Path | None,
    agreement: bool,
    port: int,
    host: str,
    allowed_host: tuple[str, ...],
    quiet: bool,
) -> None:
    """Label pictures of a dataset or a folder, into a CSV that filters read.

    WHAT is a dataset, or with --for styles a folder <style>/<picture>; conditions are those of `shiftdata
    fetch --select`. With --agreement it is the CSVs to compare.
    """
    if agreement:
        print(_agreement([Path(one) for one in what]))
        return
    if purpose is None:
        raise click.UsageError(f"--for says what the labels are for: {', '.join(PURPOSES)}")
    for module in ("starlette", "uvicorn", "jinja2"):
        require(module, "shiftdata label")
    work = _work(purpose, what, base, each, seed, quiet)
    _serve(work, out or _default_out(purpose, what[0]), who, compare, host, port, allowed_host)


def _work(
    purpose: str, what: Sequence[str], base: str | None, each: int | None, seed: int, quiet: bool
) -> Work:
    from shiftdata.evaluation.labelling.duplicates import Duplicates
    from shiftdata.evaluation.labelling.examples import Examples
    from shiftdata.evaluation.labelling.styles import StylePictures

    name, *conditions = what
    if each is not None and purpose != "filter":
        raise InputError("--each draws the examples of a filter: leave it out")
    if purpose == "filter":
        return Examples(name, base, conditions, each=each, seed=seed)
    if purpose == "styles":
        if conditions or base:
            raise InputError("--for styles takes a folder alone, without conditions and --base")
        return StylePictures(Path(name), seed=seed)
    with progress("comparing", None, "picture", quiet=quiet) as bar:

        def on_done(count: int, total: int) -> None:
            bar.total = total
            bar.update(count)

        return Duplicates(name, base, conditions, on_done)


def _default_out(purpose: str, name: str) -> Path:
    if purpose == "styles":
        return Path(name) / "labels.csv"
    return Path(f"{Path(name).name}-{purpose}.csv")


def _serve(
    work: Work,
    out: Path,
    who: str | None,
    compare: Path | None,
    host: str,
    port: int,
    allowed_host: Sequence[str],
) -> None:
    """Serve the page until Ctrl-C."""
    import uvicorn

    from shiftdata.evaluation.labelling.desk import Desk, checked_name
    from shiftdata.evaluation.labelling.server import make_app
    from shiftdata.evaluation.labelling.writing import open_labels
    from shiftdata.serve.hosts import Hosts, listen

    others = []
    if compare is not None:
        rows = read_labels(compare, work.purpose.labels, pairs=work.purpose.pairs)
        others.append((compare.name, latest(rows)))
    token = secrets.token_urlsafe(24)
    with open_labels(out, work.purpose) as file, listen(host, port) as bound:
        names = {*allowed_host, host} - {"0.0.0.0", "::"}
        desk = Desk(work, file, token, who and checked_name(who), Hosts(names), others)
        shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        print(f"{work.title}: {len(work.keys):,} to label, {len(file.rows):,} rows in {out}")
        print(f"http://{shown}:{bound.getsockname()[1]}/?token={token}", flush=True)
        print("open it in a browser; Ctrl-C stops it", flush=True)
        config = uvicorn.Config(
            make_app(desk),
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
        )
        uvicorn.Server(config).run(sockets=[bound])


def _agreement(paths: Sequence[Path]) -> str:
    purpose = purpose_of(
        (row.label for path in paths for row in read_rows(path) if row.label), " and ".join(map(str, paths))
    )
    files = [(path.name, latest(read_labels(path, purpose.labels, pairs=purpose.pairs))) for path in paths]
    compared = list(agreements(purpose, files))
    if not compared:
        raise InputError(f"{paths[0]} has the labels of one person: give a second file, or let another label")
    return "\n\n".join(map(str, compared))
