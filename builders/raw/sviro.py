"""SVIRO: rear seats of ten cars, in the form of DomainBed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.album import Found, Odd
from builders.raw.domain_class import DomainClass

NAME = re.compile(r"imageid_(?P<image>\d+)_seatposition_\d+_gt_(?P<label>\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Sviro(DomainClass):
    """`<car>/<0..6>/<car>_train_imageID_<id>_seatPosition_<0-2>_GT_<label>.png`.

    The seats of one image are cut out of it with some of their neighbours, whatever class each has: the image
    is the origin of all.
    """

    code_version: ClassVar[int] = 1

    def row(self, file: str, label: str, domain: str) -> Found:
        """A seat, with the image that it is cut out of."""
        found = super().row(file, label, domain)
        said = NAME.search(PurePosixPath(file).stem)
        if isinstance(found, Odd) or said is None:
            return found
        if said["label"] != label:
            return Odd(file=file, why=f"its folder says another class than its name (GT {said['label']})")
        return replace(found, origin=f"{domain} {int(said['image'])}", across=True)
