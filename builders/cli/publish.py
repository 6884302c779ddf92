"""`shiftdata publish`: a built dataset, put where others find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from builders.cli.check import built_argument, built_folder, recipe_option
from builders.publish.hub import Gated, RepoOptions
from builders.publish.publishing import WORK, Publication
from builders.recipe_files import load_recipe
from shiftdata.cli.verbs import GOES_ON, progress, quiet_option, read_token, verb
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places.signatures import SecretKey


@verb(
    f"""
    examples, one a place:
      shiftdata publish sma_glyphs --to /srv/shift --dry-run       a folder: /srv/shift/sma_glyphs
      shiftdata publish sma_glyphs --to s3://lab-data/shift        any URL that fsspec writes
      shiftdata publish sma_glyphs --to hf:// --private            the Hub, as shift/sma_glyphs
      shiftdata publish build/shift/mine --recipe mine.py --to hf://datasets/me/mine --gated manual
      shiftdata publish sma_glyphs --to hf+https://hub.lab/datasets/me/glyphs   another Hub

    A passed check is remembered in {WORK} until a file, the recipe or the card's template changes.
    The Hub gets HF_TOKEN or the login of `hf auth login`, object storage what its tool has configured.
    Another Hub gets its entry of ~/.config/shiftdata/tokens.json or --token-file, by https. A folder that
    `shiftdata serve` shows is published to as a folder: the server itself only reads.
    """,
    interrupted=GOES_ON,
)
@built_argument
@click.option("--to", required=True, metavar="PLACE", help="Where to; see the examples.")
@click.option("--dry-run", is_flag=True, help="Print what would happen, file by file, and stop.")
@recipe_option
@click.option("--allow-license", multiple=True, metavar="ID", help="Also publish rows of this licence.")
@click.option("--catalog", type=Path, metavar="FILE", help="Add the place to this catalog.")
@click.option("--sign", type=Path, metavar="KEY", help="Sign the manifest by this secret key of minisign.")
@click.option("--web", metavar="URL", help="Folder, bucket: where a web server or CDN shows it.")
@click.option("--private", is_flag=True, help="Hub: make the repo private.")
@click.option("--gated", type=click.Choice(get_args(Gated)), help="Hub: readers must ask for access.")
@click.option("--token-file", type=Path, metavar="FILE", help="Hub: a file with only the token.")
@quiet_option
def command(
    dataset: str,
    to: str,
    dry_run: bool,
    recipe: str | None,
    allow_license: tuple[str, ...],
    catalog: Path | None,
    token_file: Path | None,
    sign: Path | None,
    web: str | None,
    quiet: bool,
    **repo: Any,
) -> None:
    """Put a built dataset where others find it, and compare it there with the original.

    A dataset with problems is not published, nor are rows whose licence is not known to allow it. Only what
    changed is sent: data first and the manifest last, in one commit where the place has commits, so that
    readers never see a manifest that is not true.
    """
    folder = built_folder(dataset)
    manifest = Manifest.read(folder)
    token = read_token(token_file) if token_file else None
    secret = SecretKey(sign) if sign else None
    with progress("check", manifest.bytes, "B", quiet=quiet) as bar:
        publication = Publication.prepare(
            folder,
            to,
            recipe=load_recipe(recipe) if recipe else None,
            allowed=allow_license,
            options=RepoOptions(token=token, **repo),
            web=web,
            sign=secret,
            on_file=lambda path: bar.update(manifest.files[path].bytes if path in manifest.files else 0),
        )
    print("\n".join(publication.lines(every_file=dry_run)))
    if dry_run:
        print("nothing was changed (--dry-run)")
        return
    changes = publication.changes
    with progress("send", changes.bytes, "B", quiet=quiet or changes.none) as bar:
        done = publication.carry_out(catalog=catalog, on_bytes=bar.update)
    print("\n".join(done))
