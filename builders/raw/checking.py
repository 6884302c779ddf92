"""Compare a raw dataset on disk with what is known of it, before anything is built."""

from __future__ import annotations

import datetime
import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import shiftdata
from builders.albums.folder import picture_of
from builders.raw.album import RawAlbum, as_far_as_it_goes, place_of
from builders.raw.found import Odd, Row
from builders.raw.getting import Progress, fault, no_progress
from builders.raw.sources import CONTENT, Counts, Source
from builders.raw.tree import Tree
from builders.sample import BadItem, Json
from shiftdata.errors import ShiftdataError
from shiftdata.stable import content_hash
from shiftdata.threads import ahead, available_cores

MODE, CUT = "colour mode", "ends too soon, and is kept as far as it goes"
#: With more differing counts than that, they are one finding.
MOST_COUNTS = 10


class Kind(StrEnum):
    """A kind of finding, by what is to be done about it: nothing about a note."""

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


@dataclass
class Report:
    """The result of a check: examples by domain and class, how many are expected by whom, what is odd.

    `counts` are those of each part of a release, such as mini; those of "" are all. `tree` is a hash of the
    examples' domains, classes, file names and sizes: the same for a folder and its archive, wherever it is.
    """

    counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    findings: list[Finding] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
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
            _add_why_nothing(source, album.tree, report)
            return report
    except (ShiftdataError, OSError) as error:
        report.add(str(error), kind=Kind.REFUSED)
        return report
    if read:
        _read_all(source, album, rows, report, progress)
    shown = {row.label for row in rows}
    if empty := [label for label in album.allowed or () if label not in shown]:
        report.add(f"no {source.noun[0]} of the class", *empty, kind=Kind.MISSING)
    compare(source, report)
    return report


def _add_why_nothing(source: Source, tree: Tree, report: Report) -> None:
    """Add why there is no example: another dataset, or files that cannot be used whatever it is."""
    faults = [finding for finding in report.findings if {*finding.files[:1]} & {*tree.files, *tree.odd}]
    most = max(faults, key=lambda finding: len(finding.files), default=None)
    why = f" ({most.what}, such as {most.files[0]})" if most else ""
    if most and most.files[0] in tree.odd:
        report.add(f"no {source.noun[0]} of {source.name} can be read{why}", kind=Kind.REFUSED)
        return
    tops = list(dict.fromkeys(file.partition("/")[0] for file in tree.files))
    shown = f" ({', '.join(tops[:3])}{', ..' if len(tops) > 3 else ''})" if tops else ""
    none = f"{len(tree.files):,} files{shown}, and none is a {source.noun[0]} of it{why}"
    report.add(
        f"this is not {source.name}: {tree.place} has {none}: "
        f"give the folder, zip or tar that holds {source.holds}",
        kind=Kind.WRONG_PLACE,
    )


def compare(source: Source, report: Report) -> None:
    """Add where counts differ from the nearest source: a sample, and a long list, in one finding."""
    for base in sorted({counts.base for counts in source.counts} & report.counts.keys()):
        known = [counts for counts in source.counts if counts.base == base]
        by_source = [list(_differences(report.counts[base], counts, source.noun)) for counts in known]
        order = sorted(range(len(known)), key=lambda place: sum(size for size, _ in by_source[place]))
        report.expected.append("; ".join(f"{known[place].all:,} by {known[place]}" for place in order))
        findings = [finding for _, finding in by_source[order[0]]]
        texts = [finding.what for finding in findings]
        part, total = f"{base}: " if base else "", report.counts[base].total()
        if 2 * total < (wanted := known[order[0]].all):
            whole = f"{total:,} of {wanted:,} {source.noun[1]}"
            report.add(f"{part}a sample, {whole}", *texts, kind=Kind.SAMPLE)
        elif len(texts) > MOST_COUNTS:
            report.add(f"{part}counts that differ", *texts, kind=Kind.MISSING)
        else:
            for finding in findings:
                report.add(f"{part}{finding.what}", kind=finding.kind)


def _differences(
    counted: Mapping[tuple[str, str], int], known: Counts, noun: Sequence[str]
) -> Iterator[tuple[int, Finding]]:
    """Yield counts that are not as a source says, domains before classes, and how far each is from that.

    Of the classes of a missing domain nothing is said.
    """
    counts, domains = Counter[str](), Counter[str]()
    for (domain, label), count in counted.items():
        counts[_plain(domain, label)] += count
        domains[_plain(domain)] += count
    content, total = domains[CONTENT], domains.total()
    exact = [("all", total, known.total), ("content", content, known.content)]
    exact.append(("stylized", total - content, known.stylized))
    for domain, wanted in known.domains.items():
        exact.append((domain, domains[_plain(domain)], wanted))
        for label, of_class in known.groups.get(domain, {}).items() if exact[-1][1] else ():
            exact.append((f"{domain}/{label}", counts[_plain(domain, label)], of_class))
    ranges = [(where, count, number, number) for where, count, number in exact if number is not None]
    if known.each:
        smallest, largest = known.each
        groups = (("/".join(group), count) for group, count in sorted(counted.items()))
        ranges += [(group, count, smallest, largest) for group, count in groups]
    for where, count, least, most in sorted(ranges, key=lambda row: "/" in row[0]):
        if not least <= count <= most:
            shown = f"{count:,} {noun[count > 1]}" if count else f"no {noun[0]}"
            expected = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            kind = Kind.MISSING if count < least else Kind.OTHER
            what = f"{where}: {shown}, and {expected} expected"
            yield max(least - count, count - most), Finding(what=what, kind=kind)


def _plain(*names: str) -> str:
    """Return names as every spelling of them has it.

    >>> _plain("Real World"), _plain("real_world"), _plain("photo", "Dog")
    ('realworld', 'realworld', 'photo/dog')
    """
    return "/".join(re.sub(r"[^a-z0-9]", "", name.lower()) or name for name in names)


def _check_files(source: Source, place: Path, report: Report, *, read: bool) -> None:
    """Compare archives and lists with the known sizes, and hashes where all is read."""
    for file in source.files:
        path = place if place.is_file() else place / file.name
        if path.name != Path(file.name).name:
            continue
        if path.with_name(f"{path.name}.part").exists():
            goes_on = f"`shiftdata raw get {source.name}` goes on"
            report.add(f"{file.name} is only begun: {goes_on}", kind=Kind.MISSING)
        if path.is_file() and (wrong := fault(file, path, hashed=read)):
            report.add(f"{file.name} {wrong}", kind=Kind.DAMAGED)


def _rows(source: Source, album: RawAlbum, report: Report, progress: Progress) -> list[Row]:
    """Return the examples by the layout; what is odd goes into the report.

    What is missing is a problem by itself only where no source says how many there should be.
    """
    rows, odd = list[Row](), defaultdict[str, list[str]](list)
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
        is_problem = rows and why.startswith("missing") and not source.counts
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
    places = list(dict.fromkeys((row.file, row.part) for row in rows))
    step = progress(source.noun[1], len(places))
    read = ahead(lambda place: _read(album, *place), places, available_cores())
    for place, (digest, wrong) in zip(places, read, strict=True):
        step(1)
        if digest:
            same[digest].append(place_of(*place))
        if wrong:
            faults[wrong].append(place_of(*place))
    for wrong, names in faults.items():
        is_read = wrong == CUT or wrong.startswith(MODE)
        report.add(wrong, *names, kind=Kind.NOTE if is_read else Kind.DAMAGED)
    if copies := [" = ".join(names) for names in same.values() if len(names) > 1]:
        report.add("equal bytes", *copies)


def _read(album: RawAlbum, file: str, part: int | None) -> tuple[bytes, str]:
    """Return the hash of an example's bytes, if it can be read, and what is wrong with it."""
    try:
        data = album.data(file, part)
        wrong = _fault_of(data) if part is None else ""
    except (BadItem, ShiftdataError, OSError) as error:
        return b"", str(error)
    return hashlib.sha256(data).digest()[:16], wrong


def _fault_of(data: bytes) -> str:
    """Say why a picture is not as every viewer shows it; raises `BadItem` where it cannot be used."""
    try:
        picture_of(io.BytesIO(data))
    except BadItem as error:
        as_far_as_it_goes(data)
        return f"{error}: stored in RGB" if str(error).startswith(MODE) else CUT
    return ""
