"""What a recipe says about its dataset: a manifest without anything that only a build can know."""

from __future__ import annotations

import json
from typing import Any

from builders.recipe import Recipe
from shiftdata.format.attribution import credited, terms
from shiftdata.format.manifest import Base, Config, Manifest

#: How many canonical splits the card carries, and how many bytes of filters: every load parses all of them.
MOST_VIRTUAL = 24
MOST_FILTER_BYTES = 72_000


def draft(recipe: Recipe) -> Manifest:
    """The manifest of a dataset that is not built: no counts, no hashes, no files."""
    pairs = ((item.license, item.attribution) for item in recipe.album.items())
    return Manifest(
        name=recipe.name,
        family=recipe.family,
        version=recipe.version,
        **description_of(recipe),
        **terms(credited(pairs)),
        seed=recipe.seed,
        recipe_id=recipe.recipe_id(),
        content_id="",
        roles=recipe.roles,
        origins_shared=False,
        labels=list(recipe.album.labels),
        nuisances=list(recipe.shift.nuisances),
        severities=list(recipe.shift.severities),
        default_base=recipe.default_base,
        bases=[Base(name=b.name, summary=b.summary, content_id="", splits={}) for b in recipe.bases],
        configs=_configs(recipe),
        sample={},
        files={},
    )


def description_of(recipe: Recipe) -> dict[str, Any]:
    """The part of a manifest that can change without building anything again."""
    return {
        "title": recipe.title,
        "summary": recipe.summary,
        "creators": list(recipe.creators),
        "citation": recipe.citation,
        "released": recipe.released,
        "datasheet": recipe.datasheet.stated(),
        "publish_pixels": recipe.publish_pixels,
    }


def _configs(recipe: Recipe) -> list[Config]:
    """The canonical splits; as many as a card carries are virtual, the others are frozen keys alone."""
    configs: list[Config] = []
    room = MOST_FILTER_BYTES
    for protocol in recipe.protocols:
        filters = protocol.filters(recipe.album.labels, recipe.shift.nuisances, recipe.nuisance)
        room -= len(json.dumps(filters))
        config = Config(
            name=protocol.config_name,
            summary=protocol.summary(recipe.nuisance),
            base=recipe.default_base,
            protocol=protocol.name,
            params={"k": protocol.k, "mu": protocol.mu, "seed": protocol.seed},
            filters=filters,
            splits={},
            virtual=len(configs) < MOST_VIRTUAL and room >= 0,
        )
        configs.append(config)
    return configs
