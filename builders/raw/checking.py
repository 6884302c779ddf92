"""Compare a raw dataset on disk with what is known of it, before anything is built."""

from __future__ import annotations

import datetime
import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import shiftdata
from builders.albums.folder import picture_of
from builders.raw.album import PART, Odd, RawAlbum, Row, as_far_as_it_goes, bytes_of
from builders.raw.counting import compare
from builders.raw.getting import Progress, file_hash, no_progress
from builders.raw.sources import CONTENT, RawFile, Source
from builders.raw.tree import Tree
from builders.sample import BadItem, Json
from shiftdata.errors import ShiftdataError
from shiftdata.stable import content_hash
from shiftdata.threads import ahead, available_cores

CUT = "ends too soon, and is kept as far as it goes"
#: Names that a line shows; with more differing counts than that, they are one finding.
FEW, MOST_COUNTS = 3, 10


class Kind(StrEnum):
    """What is to be done about a finding: nothing about a note."""

    NOTE = "note"
    WRONG_PLACE = "wrong place"
    MISSING = "missing"
    DAMAGED = "damaged"
    SAMPLE = "sample"
    OTHER = "other"
    REFUSED = "refused"  # by an error that says what to do


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something odd, and the files that it is about."""

    what: str
    files: tuple[str, ...] = ()
    kind: Kind = Kind.NOTE

    def lines(self, *, everything: bool) -> Iterator[str]:
        """Describe it in a line, or with `everything` in a line for each file."""
        mark = "note" if self.kind is Kind.NOTE else "problem"
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
    """The result of a check: examples by domain and class, how many are expected by whom, what is odd.

    `counts` are those of each part of a release, such as mini; those of "" are all. `tree` is a hash of the
    examples' domains, classes, file names and sizes: the same for a folder and its archive, wherever it is.
    """

    counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    findings: list[Finding] = field(default_factory=list)
    expected: Sequence[str] = ()
    tree: str = ""

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind is not Kind.NOTE]

    def add(self, what: str, *files: str, kind: Kind = Kind.NOTE) -> None:
        self.findings.append(Finding(what=what, files=files, kind=kind))

    def by_domain(self) -> Mapping[str, int]:
        """Count the examples of each domain."""
        sums: Counter[str] = Counter()
        for (domain, _), count in self.counts[""].items():
            sums[domain] += count
        return dict(sorted(sums.items()))

    def line(self, name: str, *, read: bool) -> dict[str, Json]:
        """Return what a user can send us: no content, no name of a file, no path."""
        return {
            "dataset": name,
            "shiftdata": shiftdata.__version__,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "examples": dict(self.by_domain()),
            "problems": dict(Counter(str(finding.kind) for finding in self.problems)),
            "read": read,
            "tree": self.tree,
        }

    def advice(self, source: Source, place: Path) -> Iterator[str]:
        """What to do about the problems, a line for each kind."""
        kinds = {finding.kind for finding in self.findings}
        get = f"python -m builders raw get {source.name}"
        if source.ways[0].how != "hand" and place.is_dir() and place != source.place:
            get += f" --raw {place}"
        if Kind.WRONG_PLACE in kinds:
            yield f"give the right place: python -m builders raw check {source.name} --raw PLACE"
        if Kind.DAMAGED in kinds:
            yield f"remove the damaged files and get them again: {get}"
        if Kind.MISSING in kinds:
            yield f"add what is missing: {get}"
        if Kind.OTHER in kinds:
            yield f"compare with what others count: python -m builders raw list {source.name}"
        if self.counts:
            yield "a build goes on with what is there; its results do not compare with the papers'"


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
        if not rows:
            report.add(_another(source, album.tree), kind=Kind.WRONG_PLACE)
            return report
    except (ShiftdataError, OSError) as error:
        report.add(str(error), kind=Kind.REFUSED)
        return report
    if read:
        _read_all(source, album, rows, report, progress)
    shown = {row.label for row in rows}
    if empty := [label for label in album.allowed or () if label not in shown]:
        report.add(f"no {source.noun[0]} of the class", *empty, kind=Kind.MISSING)
    _compare(source, report)
    return report


def _another(source: Source, tree: Tree) -> str:
    """Say that a place holds another dataset, and what the right one holds."""
    holds = f"give the folder, zip or tar that holds {source.holds}"
    if not tree.files:
        return f"{tree.place} has no file: {holds}"
    tops = list(dict.fromkeys(file.partition("/")[0] for file in tree.files))
    more = ", .." if len(tops) > FEW else ""
    files = f"{len(tree.files):,} files ({', '.join(tops[:FEW])}{more})"
    return (
        f"this is not {source.name}: {tree.place} has {files}, and none is a {source.noun[0]} of it: {holds}"
    )


def _compare(source: Source, report: Report) -> None:
    """Add where counts differ from the nearest source: a sample, and a long list, in one finding."""
    comparisons = compare(report.counts, source.counts)
    report.expected = [comparison.expected for comparison in comparisons]
    for comparison in comparisons:
        texts = [difference.text(source.noun) for difference in comparison.differences]
        part = f"{comparison.base}: " if comparison.base else ""
        if comparison.wanted and 2 * comparison.total < comparison.wanted:
            whole = f"{comparison.total:,} of {comparison.wanted:,} {source.noun[1]}"
            report.add(f"{part}a sample, {whole}", *texts, kind=Kind.SAMPLE)
        elif len(texts) > MOST_COUNTS:
            report.add(f"{part}counts that differ", *texts, kind=Kind.MISSING)
        else:
            for difference, text in zip(comparison.differences, texts, strict=True):
                kind = Kind.MISSING if difference.count < difference.least else Kind.OTHER
                report.add(f"{part}{text}", kind=kind)


def _check_files(source: Source, place: Path, report: Report, *, read: bool) -> None:
    """Compare archives and lists with the known sizes, and hashes where all is read."""
    for file in source.files:
        path = place if place.is_file() else place / file.name
        if path.name != Path(file.name).name:
            continue
        if path.with_name(f"{path.name}.part").exists():
            goes_on = f"`python -m builders raw get {source.name}` goes on"
            report.add(f"{file.name} is only begun: {goes_on}", kind=Kind.MISSING)
        if path.is_file() and (fault := _fault(file, path, read)):
            report.add(f"{file.name} {fault}", kind=Kind.DAMAGED)


def _fault(file: RawFile, path: Path, read: bool) -> str:
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        why = "half a download" if size < file.bytes else "another file, or another version"
        return f"has {size:,} bytes, and should have {file.bytes:,}: {why}"
    if read and file.hash and (digest := file_hash(path, file.hash)) != file.hash:
        return f"has {digest}, and should have {file.hash}: another version, or damaged"
    return ""


def _rows(source: Source, album: RawAlbum, report: Report, progress: Progress) -> list[Row]:
    """Return the examples by the layout; what is odd goes into the report.

    What is missing is a problem by itself only where no source says how many there should be.
    """
    rows, odd = list[Row](), defaultdict[str, list[str]](list)
    counted = any(not counts.about for counts in source.counts)
    files = album.tree.files
    step = progress("files", len(files))
    for example in album.found():
        step(1)
        if isinstance(example, Odd):
            odd[example.why].append(example.file)
        else:
            rows.append(example)
            for base in ("", *example.bases):
                report.counts[base][example.nuisance or CONTENT, example.label] += 1
    for why, names in odd.items():
        is_problem = rows and why.startswith("missing") and not counted
        report.add(why, *names, kind=Kind.MISSING if is_problem else Kind.NOTE)
    known = {row.file for row in rows} | {name for names in odd.values() for name in names}
    known |= {archive.path.name for archive in album.tree.archives}
    if rows and (others := [name for name in files if name not in known]):
        report.add(f"other files, which are not read as {source.noun[1]}", *others)
    described = ((row.nuisance, row.label, Path(row.file).name, row.part, files[row.file]) for row in rows)
    report.tree = content_hash(*sorted("\t".join(map(str, row)) for row in described))
    return rows


def _read_all(source: Source, album: RawAlbum, rows: list[Row], report: Report, progress: Progress) -> None:
    """Decode every example; name those that cannot be, and those with equal bytes."""
    faults, same = defaultdict[str, list[str]](list), defaultdict[bytes, list[str]](list)
    places = sorted({(row.file, -1 if row.part is None else row.part) for row in rows})
    step = progress(source.noun[1], len(places))

    def digest_of(place: tuple[str, int]) -> tuple[str, bytes, str]:
        file, part = place
        if part < 0:
            return file, *_read(album.tree, file)
        return f"{file}, {PART} {part}", *_read_part(album, file, part)

    for file, digest, fault in ahead(digest_of, places, available_cores()):
        step(1)
        same[digest].append(file)
        if fault:
            faults[fault].append(file)
    for fault, names in faults.items():
        allowed = fault.startswith("colour mode") or (fault == CUT and not source.all_decode)
        because = f" ({source.all_decode})" if source.all_decode and not allowed else ""
        report.add(fault + because, *names, kind=Kind.NOTE if allowed else Kind.DAMAGED)
    if copies := [" = ".join(names) for names in same.values() if len(names) > 1]:
        because = f" ({source.no_duplicates})" if source.no_duplicates else ""
        report.add(f"equal bytes{because}", *copies, kind=Kind.OTHER if source.no_duplicates else Kind.NOTE)


def _read_part(album: RawAlbum, file: str, part: int) -> tuple[bytes, str]:
    """Return the hash of an example that is a part of a file, and what is wrong with it."""
    try:
        return hashlib.sha256(bytes_of(album.example(file, part))).digest()[:16], ""
    except (BadItem, ShiftdataError, OSError) as error:
        return f"{file} {part}".encode(errors="replace"), str(error)


def _read(tree: Tree, file: str) -> tuple[bytes, str]:
    """Return the hash of a picture's bytes, and what is wrong with it."""
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
            return digest, str(worse)
        return digest, f"{error}: stored in RGB" if str(error).startswith("colour mode") else CUT
    return digest, ""
