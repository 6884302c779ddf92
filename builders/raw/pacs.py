"""PACS: photographs, art, cartoons and sketches of seven classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.lists import ListedClass

#: A sketch of a photograph ends in the number of the sketch: `n02103406_343-1.png`.
SKETCH_OF = re.compile(r"-\d+$")


@dataclass(frozen=True, kw_only=True)
class Pacs(ListedClass):
    """`<domain>/<class>/<file>`, under `PACS`, `kfold` or nothing.

    Its lists are those of the authors (`photo_train_kfold.txt`), of JigenDG (`photo_train.txt`) and of
    DomainBed-v2 (`photo.txt`). The picture that Dassl leaves out for bad can be read, and stays.
    Sketches that were drawn after a photograph of the dataset share its origin, and are in its split.
    """

    code_version: ClassVar[int] = 1

    lists: Sequence[str] = ("train_kfold", "crossval_kfold", "test_kfold", "train", "test", "")

    def origin(self, file: str, label: str, domain: str) -> str | None:
        stem = PurePosixPath(file).stem
        return SKETCH_OF.sub("", stem) if domain in ("photo", "sketch") else None
