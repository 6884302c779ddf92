"""`python -m builders publish`: a built dataset, put where others find it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from tqdm import tqdm

from builders.publish.hub import Gated, RepoOptions
from builders.publish.plan import Verify
from builders.publish.publishing import WORK, Publication
from builders.recipe import load_recipe
from shiftdata.errors import InputError
from shiftdata.format.manifest import Manifest
from shiftdata.places import search as places

ABOUT = f"""Put a built dataset where others find it, and look at it again there.

  --to FOLDER                            a folder; what readers see changes in one move
  --to s3://BUCKET/PREFIX                object storage, or any URL that fsspec writes
  --to hf://datasets/OWNER/NAME          a repo on the Hub; hf:// alone is shift/<name>
  --to http://SERVER                     a mirror (`shiftdata serve --writable`): its repo shift/<name>
  --to hf+http://SERVER/datasets/OWNER/NAME   another repo of a mirror

In a folder or below a URL the files lie in <name>/, unless the address ends in the name already.

What `check` finds fault with is not published, nor are rows whose licence is not known to let others pass
them on. Only what changed is sent. Data goes first and the manifest last, in one commit where the place has
commits: at no moment does a manifest lie there that is not true. Stopped by whatever, the same command goes
on. A passed check is remembered in {WORK} until a file, the recipe or the card's template changes.

Tokens come from where they usually are: HF_TOKEN or `hf auth login`, for object storage the environment or
the profile of its tool. A server named by its address gets HF_TOKEN or --token-file, never a stored login.
"""
EXAMPLES = """examples:
  python -m builders publish sma_emoji --to /srv/shift --dry-run       what would happen
  python -m builders publish sma_emoji --to /srv/shift                 into /srv/shift/sma_emoji
  python -m builders publish sma_emoji --to s3://lab-data/shift --catalog catalog.json
  python -m builders publish sma_emoji --to hf:// --private --tag
  HF_TOKEN=... python -m builders publish sma_emoji --to http://mirror.lab:8000
  python -m builders publish build/shift/mine --recipe mine.py --to hf://datasets/me/mine --gated manual
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "publish",
        help="put a built dataset into a folder, object storage, the Hub, a mirror",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("dataset", help="its name, or its folder")
    verb.add_argument("--to", required=True, help="the place")
    verb.add_argument("--dry-run", action="store_true", help="say what would happen, file by file, and end")
    verb.add_argument("--recipe", help="a .py file, if it is not a recipe of the house")
    verb.add_argument("--recheck", action="store_true", help="check again what passed before")
    verb.add_argument(
        "--allow-license",
        action="append",
        default=[],
        metavar="ID",
        help="publish rows of this licence though it is not known to allow it; may be given several times",
    )
    verb.add_argument(
        "--verify",
        choices=get_args(Verify),
        default="hash",
        help="how each sent file is looked at again: all of its bytes, or its size (default: hash)",
    )
    verb.add_argument("--catalog", type=Path, help="a JSON catalog that gets the place (`shiftdata fetch`)")
    verb.add_argument("--private", action="store_true", help="Hub, mirror: make the repo private")
    verb.add_argument("--gated", choices=get_args(Gated), help="Hub: readers must ask for access")
    verb.add_argument("--tag", action="store_true", help="Hub, mirror: tag the commit v<version>")
    verb.add_argument("--token-file", type=Path, help="Hub, mirror: a file with nothing but the token")
    verb.add_argument("--quiet", action="store_true", help="no progress bars")
    verb.set_defaults(run=run_publish)


def run_publish(options: argparse.Namespace) -> int:
    """Publish, and say what was done."""
    folder = places.find(options.dataset).folder
    if folder is None:
        raise InputError(
            f"{options.dataset} is not in a folder on this machine: build it, or give its folder"
        )
    total = sum(record.bytes for record in Manifest.read(folder).files.values())
    with tqdm(
        total=total, desc="check", unit="B", unit_scale=True, leave=False, disable=options.quiet
    ) as bar:
        publication = Publication.prepare(
            folder,
            options.to,
            recipe=load_recipe(options.recipe) if options.recipe else None,
            allowed=options.allow_license,
            options=RepoOptions(options.private, options.gated, options.tag, _token(options.token_file)),
            recheck=options.recheck,
            on_file=_bytes_of(folder, bar),
        )
    for line in publication.lines(every_file=options.dry_run):
        print(line)
    if options.dry_run:
        print("nothing was changed (--dry-run)")
        return 0
    quiet = options.quiet or publication.plan.idle
    with tqdm(total=publication.plan.bytes, desc="send", unit="B", unit_scale=True, disable=quiet) as bar:
        done = publication.carry_out(verify=options.verify, catalog=options.catalog, tell=bar.update)
    for line in done:
        print(line)
    return 0


def _bytes_of(folder: Path, bar: Any) -> Callable[[str], object]:
    """Move a bar by the size of each file that is told of."""
    files = Manifest.read(folder).files
    return lambda path: bar.update(files[path].bytes if path in files else 0)


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    if not path.is_file():
        raise InputError(f"there is no token file {path}")
    token = path.read_text(encoding="utf-8").strip()
    if not token or len(token.split()) != 1:
        raise InputError(f"{path} must hold one token and nothing else")
    return token
