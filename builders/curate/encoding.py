"""The bank of codes of what was kept, with where each picture is from; the pictures stay at home."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from builders.curate.fidelity import read_kept_styles
from builders.curate.filtering import read_kept
from builders.shifts.styles.bank import StyleBank, encode_pictures, style_pictures
from builders.shifts.styles.listed import LISTED, PROVENANCE, StylePicture, read_listed
from builders.shifts.stylizers import Stylizer
from shiftdata.errors import InputError, not_found


def encode(
    folder: Path,
    output: Path,
    stylizer: Stylizer,
    *,
    scores: Path | None = None,
    fidelity: Path | None = None,
    on_done: Callable[[int, int], object] = lambda count, total: None,
) -> StyleBank:
    """Write the codes of a folder's style pictures; of a curated picture, with their provenance.

    `scores` and `fidelity` are tables that say which pictures and which styles are kept.
    """
    if not (folder / LISTED).is_file():
        if scores or fidelity:
            raise InputError(
                f"{folder} has no {LISTED}, so no scores and no fidelity are of it: leave them out"
            )
        styles: Mapping[str, Sequence[Path]] = style_pictures(folder)
        provenance = None
    else:
        pictures = _chosen(folder, scores, fidelity)
        provenance = {name: [getattr(picture, name) for picture in pictures] for name in PROVENANCE}
        names = dict.fromkeys(picture.style for picture in pictures)
        styles = {
            name: [folder / picture.file for picture in pictures if picture.style == name] for name in names
        }
    total = sum(map(len, styles.values()))
    bank = encode_pictures(styles, stylizer, on_done=lambda count: on_done(count, total))
    bank.write(output, stylizer, provenance)
    return bank


def _chosen(folder: Path, scores: Path | None, fidelity: Path | None) -> list[StylePicture]:
    """The pictures to encode, by style and file."""
    pictures = read_kept(folder, scores) if scores else list(read_listed(folder))
    if fidelity:
        kept, known = read_kept_styles(fidelity), {picture.style for picture in pictures}
        for style in sorted(kept - known):
            raise not_found(
                "style", style, known, f"{fidelity} keeps it, and {scores or folder} does not have it."
            )
        pictures = [picture for picture in pictures if picture.style in kept]
    if not pictures:
        raise InputError(f"no picture of {folder} is kept by the tables: give others")
    return pictures
