"""Domain datasets from copies on the Hub, whose rows have lost the names of the authors' files."""

import re
from dataclasses import replace

from builders.raw.album import RawAlbum
from builders.raw.domain_class import DomainClass
from builders.recipe import Recipe
from builders.recipe_files import load_recipe
from shiftdata.errors import InputError

#: The recipes that read the authors' files, and a copy of each.
COPIES = {
    "domainnet": "wltjr1007/DomainNet",
    "office_home": "flwrlabs/office-home",
    "pacs": "flwrlabs/pacs",
}


def without_names(recipe: Recipe, copy: str) -> Recipe:
    """The recipe for rows instead of files; what follows from names is left out.

    Should a copy have numbers for domains, they are taken as those of the sorted names: not verified.
    """
    album = recipe.album
    if not isinstance(album, RawAlbum) or not isinstance(album.layout, DomainClass):
        raise InputError(f"{recipe.name} is not a dataset of domains and classes in folders")
    numbered = enumerate(sorted(album.layout.domains.items()))
    domains = {name: [*others, str(number)] for number, (name, others) in numbered}
    shown = re.split(r"[;.]", recipe.summary)[0]
    return replace(
        recipe,
        name=f"hub_{recipe.name}",
        title=f"{recipe.title}, from rows without names",
        summary=(
            f"{shown}. Made from rows, such as those of {copy}, that have lost the names of the files: which "
            "pictures come from one origin is not known, and splits that go by names are left out."
        ),
        album=replace(
            album, layout=DomainClass(domains=domains, labels=album.layout.labels), by_content=True
        ),
        protocols=tuple(
            protocol for protocol in recipe.protocols if protocol.variant not in protocol.from_files
        ),
    )


RECIPES = tuple(without_names(load_recipe(name), copy) for name, copy in COPIES.items())
