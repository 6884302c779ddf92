"""`shiftdata catalog`: sign catalogs, check them, and make and replace the keys."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from shiftdata.cli.verbs import Verb, verb
from shiftdata.data.format.names import shown
from shiftdata.data.places import freshness
from shiftdata.data.places.catalog import Catalog
from shiftdata.data.places.signatures import SUFFIX, VARIABLE, SecretKey, make_key, pinned
from shiftdata.errors import InputError


class CatalogVerbs(Verb, click.Group):
    """Four verbs under one name."""


command = CatalogVerbs(
    "catalog",
    help="Sign catalogs, so that readers know who made one and whether it is the newest.",
    epilog=f"""
    examples:
      shiftdata catalog key lab.key                               lab.key stays with you, readers get lab.pub
      shiftdata catalog sign catalog.json --key lab.key --name my-lab --expires 2027-03-01
      shiftdata catalog check https://lab/catalog.json --key lab.pub

    `publish --catalog` and the /catalog.json of `shiftdata serve` make the catalog itself. Readers pin
    the key by {VARIABLE}=lab.pub. Keys and signatures are those of minisign: its command line takes them too.
    """,
)


@verb("""
    examples:
      shiftdata catalog key lab.key                 asks for a password
      shiftdata catalog key ci.key --no-password    for a machine that signs by itself
""")
@click.argument("file", type=Path, help="The file of the secret key, which is made.")
@click.option("--no-password", is_flag=True, help="Write the secret key as it is, readable for you alone.")
def key_command(file: Path, no_password: bool) -> None:
    """Make a secret key and its public key, as `minisign -G` does."""
    password = "" if no_password else click.prompt("password", hide_input=True, confirmation_prompt=True)
    key = make_key(file, password)
    print(f"{file}: the secret key {key.id}: keep it, and a copy of it elsewhere")
    print(f"{file.with_suffix('.pub')}: the public key, for your readers: {VARIABLE}={key.text}")


@verb("""
    examples:
      shiftdata catalog sign catalog.json --key lab.key --name my-lab --expires 2027-03-01
      shiftdata catalog sign catalog.json --key lab.key --expires 2027-06-01      the next version, same name
""")
@click.argument("file", type=Path, help="The catalog.")
@click.option("--key", required=True, type=Path, metavar="FILE", help="Your secret key.")
@click.option("--name", metavar="NAME", help="The name of the catalog. [default: that of its last signature]")
@click.option("--expires", required=True, metavar="YYYY-MM-DD", help="The last day on which it is believed.")
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="[default: one more than the last]")
def sign_command(file: Path, key: Path, name: str | None, expires: str, version: int | None) -> None:
    """Sign a catalog, as the next version; do it again whenever it changes, and before it expires.

    The signature is FILE.minisig: put it next to the catalog.
    """
    try:
        day = date.fromisoformat(expires)
    except ValueError as error:
        raise InputError(f"--expires is a day such as 2027-03-01, not {expires!r}") from error
    data = file.read_bytes()
    Catalog.from_json(data.decode(errors="replace"), str(file))
    print(f"{file}{SUFFIX}: {freshness.sign_catalog(file, data, SecretKey(key), name, day, version)}")


@verb("""
    examples:
      shiftdata catalog check https://lab/catalog.json --key lab.pub
""")
@click.argument("address", help="The catalog: a file or URL.")
@click.option("--key", metavar="KEY", help=f"A public key, or its file. [default: ${VARIABLE}]")
def check_command(address: str, key: str | None) -> None:
    """Check a catalog as a reader does: who signed it, its version, and its end."""
    keys = pinned(key)
    if not keys:
        raise InputError(f"no key is pinned: give --key, or set {VARIABLE}")
    catalog = Catalog.read(address, keys)
    print(f"{address}: {catalog.statement}")
    for name, entry in catalog.entries.items():
        print(f"  {name}  {entry.manifest[:12]}  {', '.join(map(shown, entry.places))}")


@verb("""
    examples:
      shiftdata catalog next-key catalog.json new.pub --key old.key
      shiftdata catalog sign catalog.json --key new.key --expires 2027-03-01
""")
@click.argument("file", type=Path, help="The catalog.")
@click.argument("new", type=Path, help="The public key that follows.")
@click.option("--key", required=True, type=Path, metavar="FILE", help="The secret key that readers pinned.")
def next_key_command(file: Path, new: Path, key: Path) -> None:
    """Let a new key follow an old one: readers who pinned the old one learn it, and believe the old no more.

    A key that was stolen cannot be replaced so: tell your readers to pin another.
    """
    for path in freshness.sign_next_key(file, SecretKey(key), pinned(str(new))[0]):
        print(f"{path}: put it next to the catalog, and leave it there")


for name, subcommand in {
    "key": key_command,
    "sign": sign_command,
    "check": check_command,
    "next-key": next_key_command,
}.items():
    command.add_command(subcommand, name)
