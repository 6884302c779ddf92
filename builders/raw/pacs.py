"""PACS: photographs, art, cartoons and sketches of seven classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.domain_class import DomainClass

#: A sketch of a photograph ends in the number of the sketch: `n02103406_343-1.png`.
SKETCH_OF = re.compile(r"-\d+$")


@dataclass(frozen=True, kw_only=True)
class Pacs(DomainClass):
    """`<domain>/<class>/<file>`, under `PACS`, `kfold` or nothing.

    Sketches that were drawn after a photograph of the dataset share its origin, and are in its split.
    """

    code_version: ClassVar[int] = 1

    def origin(self, file: str, label: str, domain: str) -> str | None:
        stem = PurePosixPath(file).stem
        return SKETCH_OF.sub("", stem) if domain in ("photo", "sketch") else None
