"""Stylized Meta-Album as its authors release it: pictures of a set, and each painted in 20 styles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd
from builders.raw.merging import merged
from builders.raw.releases import (
    CONTENT,
    IMAGES,
    NAMES,
    STYLES,
    STYLIZED,
    UNLISTED,
    Picture,
    Read,
    Release,
    fault_of,
    listed,
    mended,
    name_of,
    plain,
    releases,
    stem_of,
    unusable,
)
from builders.raw.tree import Tree
from shiftdata.errors import InputError

#: The 20 styles, in the order of the authors' site.
STYLE_NAMES = (
    "prehistorian_painting",
    "analytical_art",
    "water_lilies",
    "swamp",
    "american_barbizon_school",
    "arts_and_crafts_movement",
    "aurora",
    "fauvism_painting",
    "cloud",
    "chinese_art",
    "wave",
    "american_impressionism",
    "land_art",
    "abstract_illusionism",
    "hurricane",
    "meadow",
    "dawn",
    "rayonism",
    "autumn_leaves",
    "thunder",
)
NO_STYLE = "no style of Stylized Meta-Album is in its folder or table"
NO_CONTENT = "neither its name nor the table says which picture was painted, which would leak over splits"


@dataclass(frozen=True, kw_only=True)
class Sma:
    """One set of Stylized Meta-Album: untouched pictures, and each in 20 styles, which share its origin.

    Reads what the authors' code reads (`content/<class>/`, `stylized/<class>_<style>/`), and the form of
    Meta-Album (`images/`, `labels.csv`); untouched and stylized, Mini and Extended may lie beside each other.
    Photographs of styles are never read.
    """

    code_version: ClassVar[int] = 1

    set: str

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture; which of the stylized ones are in Mini stands in their bases."""
        read = []
        mine, odd = releases(tree, self.set, "SMA")
        yield from odd
        untouched: dict[str, dict[str, str]] = {}
        for one in sorted(mine, key=lambda one: one.stylized):
            known = _Reader(one, untouched)
            read.append((one, list(known.read())))
            for picture in read[-1][1]:
                if isinstance(picture, Picture) and picture.style is None:
                    untouched.setdefault(plain(picture.label), {})[plain(picture.name)] = picture.name
        if not any(isinstance(one, Picture) and one.style for _, several in read for one in several):
            raise InputError(
                f"{tree.place} has no stylized picture of {self.set} that can be read{_first_fault(read)}: "
                f"they are in the release {self.set}_STY"
            )
        read.sort(key=lambda pair: mine.index(pair[0]))
        yield from merged(read)


@dataclass(frozen=True)
class _Reader:
    """What reads one release; `untouched` are names of pictures read before, by class and spelling."""

    release: Release
    untouched: Mapping[str, Mapping[str, str]]

    def read(self) -> Iterator[Read]:
        """The pictures that the table lists, then those of folders that it does not speak of."""
        used: dict[str, str] = {}
        yield from unusable(self.release)
        rows = self.release.rows
        painted = [row for row in rows if self._is_painted(row)]
        untouched = [row for row in rows if not self._is_painted(row)]
        yield from listed(self.release, untouched, used)
        grouped = all(_split(row.get("CATEGORY", ""))[1] == _style(row.get("STYLE", "")) for row in painted)
        for row in painted:
            yield from self._painted(row, used, grouped=grouped)
        yield from self._unlisted(used, {CONTENT: bool(untouched), STYLIZED: bool(painted)})

    def _is_painted(self, row: Mapping[str, str]) -> bool:
        """Whether a row is of a stylized picture; beside folders a table may list the untouched alone."""
        if row.get("STYLE") or _path_of(row):
            return True
        if self._has_groups and _split(row.get("CATEGORY", ""))[1] is not None:
            return True
        return self.release.stylized and self._is_flat

    @cached_property
    def _is_flat(self) -> bool:
        return not any(
            path.lower().startswith((f"{CONTENT}/", f"{STYLIZED}/")) for path in self.release.files
        )

    @cached_property
    def _has_groups(self) -> bool:
        """Whether categories are a class and a style each; that of a class may end in a style too."""
        categories = {row.get("CATEGORY", "") for row in self.release.rows}
        return 2 * sum(_split(one)[1] is not None for one in categories) > len(categories)

    def _painted(self, row: Mapping[str, str], used: dict[str, str], *, grouped: bool) -> Iterator[Read]:
        """The stylized picture of a row."""
        category, given = row.get("CATEGORY", ""), _path_of(row)
        folder = _folder_of(given)
        label, style = mended(category), _style(row.get("STYLE", ""))
        if grouped or (not style and self._has_groups):
            label, style = _split(category)
        style = style or _style(row.get("SUPER_CATEGORY", ""))
        if style is None and folder:
            label, style = label or _split(folder)[0], _split(folder)[1]
        name = row.get("FILE_NAME") or name_of(given)
        if not name:
            return
        style = style or _style_in(stem_of(name), label)
        groups = [
            *filter(None, (folder, category)),
            f"{category}_{row.get('STYLE', '')}",
            f"{label}_{style}",
            "",
        ]
        path = self.release.find(_places(groups, (name_of(given), name)), any_ending=True)
        if fault := fault_of(self.release, path, f"{STYLIZED}/{groups[0]}/{name}", label, used):
            yield fault
        elif path and style is None:
            yield Odd(file=self.release.files[path], why=NO_STYLE)
        elif path and style and path not in used:
            used[path] = label
            content = self._content(row, path, label, style)
            if content is None:
                yield Odd(file=self.release.files[path], why=NO_CONTENT)
                return
            more = {"style_picture": name_of(row["STYLE_PATH"])} if row.get("STYLE_PATH") else {}
            yield Picture(path=path, label=label, name=content, style=style, more=more)

    def _content(self, row: Mapping[str, str], path: str, label: str, style: str) -> str | None:
        """What the untouched picture is called that a stylized one was made from."""
        source = row.get("ORIGINAL_NAME") or (
            "" if _path_of(row) == row.get("FILE_PATH") else row.get("FILE_PATH")
        )
        if source and name_of(source) != name_of(path):
            return stem_of(source)
        if _split(_folder_of(path))[1] == style:  # a folder a group, in which names are those of the content
            return stem_of(row.get("FILE_NAME") or path)
        if row.get("STYLIZED_PATH") and stem_of(row.get("FILE_NAME", "")) not in ("", stem_of(path)):
            return stem_of(row["FILE_NAME"])
        group, stem = f"{plain(label)}_{style}", stem_of(path)
        names = [_without(stem, one) for one in (f"^{group}_", f"_{style}$", f"^{style}_", f"_{group}$")]
        found = [one for one in names if one]
        known = self.untouched.get(plain(label), {})
        same = (known.get(plain(one)) for name in found for one in (name, f"{label}_{name}"))
        return next(filter(None, same), found[0] if found else None)

    def _unlisted(self, used: Mapping[str, str], has_list: Mapping[str, bool]) -> Iterator[Read]:
        """Pictures in a folder of a class or a group, where the table lists none such; others by name."""
        for path, file in self.release.files.items():
            parts = path.split("/")
            top, is_picture = parts[0].lower(), path.lower().endswith(ENDINGS)
            if path in used or top == STYLES or (not is_picture and (len(parts) < 3 or top not in has_list)):
                continue
            if top == IMAGES:
                top = STYLIZED if self.release.stylized else CONTENT
            label, style = _split(parts[-2]) if top == STYLIZED and len(parts) > 1 else (parts[0], None)
            if not is_picture:
                yield Odd(file=file, why="its name does not end as that of a picture")
            elif len(parts) != 3 or top not in has_list or has_list[top]:
                yield Odd(file=file, why=UNLISTED)
            elif top == CONTENT:
                yield Picture(path=path, label=mended(parts[1]), name=stem_of(path), rank=1)
            elif style is None:
                yield Odd(file=file, why=NO_STYLE)
            else:
                yield Picture(path=path, label=label, name=stem_of(path), style=style, rank=2)


def _first_fault(read: Sequence[tuple[Release, Sequence[Read]]]) -> str:
    odd = [one for _, several in read for one in several if isinstance(one, Odd)]
    return f" ({len(odd):,} files are left out, such as {odd[0].file}: {odd[0].why})" if odd else ""


def _path_of(row: Mapping[str, str]) -> str:
    """Where a row says that the stylized picture is."""
    given = row.get("FILE_PATH", "")
    return row.get("STYLIZED_PATH") or (given if given.lower().split("/")[-3:-2] == [STYLIZED] else "")


def _style(text: str) -> str | None:
    """The style that a text names, whatever its spelling."""
    return plain(text) if plain(text) in STYLE_NAMES else None


def _style_in(stem: str, label: str) -> str | None:
    """The style at the end of a flat name, or at its beginning, where the class may stand before it."""
    begins = plain(stem).removeprefix(f"{plain(label)}_")
    return _split(stem)[1] or next((one for one in STYLE_NAMES if begins.startswith(f"{one}_")), None)


def _folder_of(path: str) -> str:
    return name_of(path.rpartition("/")[0])


def _places(groups: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Where a stylized picture may lie: in a folder of a group, or flat."""
    for group in groups:
        for top in (STYLIZED, IMAGES):
            for name in filter(None, names):
                yield f"{top}/{group}/{name}" if group else f"{top}/{name}"
    yield from names


@lru_cache(NAMES)
def _split(group: str) -> tuple[str, str | None]:
    """A class and a style, of a name of both; either may contain `_`.

    >>> _split("polar_bear_land_art"), _split("DARK EYED JUNCO_cloud"), _split("polar_bear")
    (('polar_bear', 'land_art'), ('DARK EYED JUNCO', 'cloud'), ('polar_bear', None))
    """
    for style in STYLE_NAMES:
        if label := _without(mended(group), f"_{style}$"):
            return label, style
    return mended(group), None


def _without(text: str, part: str) -> str | None:
    """A text without a part at its beginning (^) or end ($), whatever stands for `_`; None if it has none."""
    rest = re.sub(part.replace("_", r"[\W_]+"), "", text, flags=re.IGNORECASE)
    return rest if rest not in (text, "") else None
