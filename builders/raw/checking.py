"""Compare a raw dataset on disk with what is known of it, before anything is built."""

from __future__ import annotations

import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builders.albums.folder import picture_of
from builders.raw.album import PART, Odd, RawAlbum, Row, as_far_as_it_goes, bytes_of
from builders.raw.counting import compare
from builders.raw.getting import Progress, file_hash, no_progress
from builders.raw.sources import CONTENT, RawFile, Source
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.errors import ShiftdataError
from shiftdata.threads import ahead, available_cores

#: What stands where a picture should be, and names of it that a line shows.
CUT, FEW = "ends too soon, and is kept as far as it goes", 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something odd: a problem, or what the facts allow. `files` are those it is about."""

    what: str
    files: tuple[str, ...] = ()
    is_problem: bool = False

    def lines(self, *, everything: bool) -> Iterator[str]:
        """It in a line, or with `everything` and a line for each file."""
        mark = "problem" if self.is_problem else "note"
        if not self.files:
            yield f"{mark}: {self.what}"
        elif everything:
            yield from (f"{mark}: {self.what}: {file}" for file in self.files)
        else:
            more = f", and {len(self.files) - FEW:,} more" if len(self.files) > FEW else ""
            count = f" ({len(self.files):,})" if len(self.files) > 1 else ""
            yield f"{mark}{count}: {self.what}: {', '.join(self.files[:FEW])}{more}"


@dataclass
class Report:
    """What a check came to: examples by domain and class, how many are expected by whom, what is odd.

    `counts` are those of each part of a release, such as mini; those of "" are all.
    """

    counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    findings: list[Finding] = field(default_factory=list)
    expected: Sequence[str] = ()

    @property
    def problems(self) -> list[Finding]:
        return [one for one in self.findings if one.is_problem]

    def add(self, what: str, *files: str, is_problem: bool = False) -> None:
        self.findings.append(Finding(what=what, files=files, is_problem=is_problem))

    def by_domain(self) -> Mapping[str, int]:
        """The examples of each domain."""
        sums: Counter[str] = Counter()
        for (domain, _), count in self.counts[""].items():
            sums[domain] += count
        return dict(sorted(sums.items()))


def check(
    source: Source,
    album: RawAlbum,
    place: Path,
    *,
    read: bool = False,
    progress: Progress = no_progress,
) -> Report:
    """Go over a raw dataset; with `read`, decode every example and compare hashes too."""
    report = Report()
    _check_files(source, place, report, read=read)
    try:
        album = album.at(place)
        rows = _rows(source, album, report, progress)
    except (ShiftdataError, OSError) as error:
        report.add(str(error), is_problem=True)
        return report
    if not rows:
        some = ", ".join(list(album.tree.files)[:FEW])
        report.add(
            f"no {source.noun[0]} of {source.name} is among {len(album.tree.files):,} files ({some}): it is "
            "another dataset, another archive, or only a part of it",
            is_problem=True,
        )
        return report
    if read:
        _read_all(source, album, rows, report, progress)
    shown = {row.label for row in rows}
    if empty := [label for label in album.allowed or () if label not in shown]:
        report.add(f"no {source.noun[0]} of the class", *empty, is_problem=True)
    report.expected, differences = compare(report.counts, source.counts, source.noun)
    for difference in differences:
        report.add(difference, is_problem=True)
    return report


def _check_files(source: Source, place: Path, report: Report, *, read: bool) -> None:
    """Compare archives and lists with the known sizes, and hashes where all is read."""
    for file in source.files:
        path = place if place.is_file() else place / file.name
        if path.name != Path(file.name).name:
            continue
        if path.with_name(f"{path.name}.part").exists():
            report.add(
                f"{file.name} is only begun: `python -m builders raw get {source.name}` goes on",
                is_problem=True,
            )
        if path.is_file() and (fault := _fault(file, path, read)):
            report.add(f"{file.name} {fault}", is_problem=True)


def _fault(file: RawFile, path: Path, read: bool) -> str:
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        why = "half a download: get it again" if size < file.bytes else "another file, or another version"
        return f"has {size:,} bytes, and should have {file.bytes:,}: {why}"
    if read and file.hash and (found := file_hash(path, file.hash)) != file.hash:
        return f"has {found}, and should have {file.hash}: another version, or damaged: get it again"
    return ""


def _rows(source: Source, album: RawAlbum, report: Report, progress: Progress) -> list[Row]:
    """The examples by the layout; what is odd goes into the report.

    What is missing is a problem by itself only where no source says how many there should be.
    """
    rows, odd = list[Row](), defaultdict[str, list[str]](list)
    counted = any(not one.about for one in source.counts)
    files = album.tree.files
    step = progress("files", len(files))
    for found in album.found():
        step(1)
        if isinstance(found, Odd):
            odd[found.why].append(found.file)
        else:
            rows.append(found)
            for base in ("", *found.bases):
                report.counts[base][found.nuisance or CONTENT, found.label] += 1
    for why, names in odd.items():
        report.add(why, *names, is_problem=why.startswith("missing") and not counted)
    known = {row.file for row in rows} | {name for names in odd.values() for name in names}
    known |= {archive.path.name for archive in album.tree.archives}
    if others := [name for name in files if name not in known]:
        report.add(f"other files, which are not read as {source.noun[1]}", *others)
    return rows


def _read_all(source: Source, album: RawAlbum, rows: list[Row], report: Report, progress: Progress) -> None:
    """Decode every example; name those that cannot be, and those with equal bytes."""
    faults, same = defaultdict[str, list[str]](list), defaultdict[bytes, list[str]](list)
    places = sorted({(row.file, -1 if row.part is None else row.part) for row in rows})
    step = progress(source.noun[1], len(places))

    def one(place: tuple[str, int]) -> tuple[str, bytes, str]:
        file, part = place
        if part < 0:
            return file, *_read(album.tree, file)
        return f"{file}, {PART} {part}", *_read_part(album, file, part)

    for file, digest, fault in ahead(one, places, available_cores()):
        step(1)
        same[digest].append(file)
        if fault:
            faults[fault].append(file)
    for fault, names in faults.items():
        allowed = fault.startswith("colour mode") or (fault == CUT and not source.all_decode)
        because = f" ({source.all_decode})" if source.all_decode and not allowed else ""
        report.add(fault + because, *names, is_problem=not allowed)
    if copies := [" = ".join(names) for names in same.values() if len(names) > 1]:
        because = f" ({source.no_duplicates})" if source.no_duplicates else ""
        report.add(f"equal bytes{because}", *copies, is_problem=bool(source.no_duplicates))


def _read_part(album: RawAlbum, file: str, part: int) -> tuple[bytes, str]:
    """The hash of an example that is a part of a file, and what is wrong with it."""
    try:
        return hashlib.sha256(bytes_of(album.example(file, part))).digest()[:16], ""
    except (BadItem, ShiftdataError, OSError) as error:
        return f"{file} {part}".encode(errors="replace"), str(error)


def _read(tree: Tree, file: str) -> tuple[bytes, str]:
    """The hash of a picture's bytes, and what is wrong with it."""
    try:
        data = tree.read(file)
    except (ShiftdataError, OSError) as error:
        return file.encode(errors="replace"), str(error)
    digest = hashlib.sha256(data).digest()[:16]
    try:
        picture_of(io.BytesIO(data))
    except BadItem as error:
        try:
            as_far_as_it_goes(data)
        except BadItem as worse:
            return digest, str(worse) if data else "empty"
        return digest, f"{error}: stored in RGB" if str(error).startswith("colour mode") else CUT
    return digest, ""
