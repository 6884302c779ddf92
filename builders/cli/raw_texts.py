"""The texts of the verbs of `raw`: facts of a raw dataset, steps to get it, the result of a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from builders.raw.checking import Finding, Kind, Report
from builders.raw.sources import FACTS, Counts, How, Source, Way

#: How a dataset is got, in a word.
HOW: Mapping[How, str] = {
    "http": "get",
    "hub": "get, from the Hub",
    "openml": "get, with openml",
    "hand": "by hand",
}
#: Names that the line of a finding shows, and lines that a report shows.
FEW, MOST = 3, 20


def description(source: Source) -> Iterator[str]:
    """Everything that is known, in lines."""
    size = size_text(source.size) + (f" ({source.bytes_by})" if source.bytes_by else "")
    files = [(f.name, f"{f.bytes:,} bytes" if f.bytes else "", f.hash) for f in source.files]
    lines = [
        ("licence", source.license + (f"; source: {source.source}" if source.source else "")),
        ("terms", source.terms),
        ("page", source.page),
        ("size", size),
        *(("file", ", ".join(filter(None, file))) for file in files),
        *(("OpenML", f"{name.replace('_', ' ')}: {number}") for name, number in source.openml.items()),
        *((source.noun[1], f"{_numbers(counts)}: {counts}") for counts in source.counts),
        *(("note", note) for note in (*source.notes, *source.more)),
    ]
    for state in source.states:
        of = f"{state['state']} ({state['part']})" if state["part"] else state["state"]
        read = f"{state['recipe']} on {of}, {state['date']}: content_id {state['content_id']}"
        lines.append(("read", read))
    for number, way in enumerate(source.ways, 1):
        option = "" if way.how == "hand" else f"--way {way.how}"
        details = ", ".join(filter(None, (option, way.repo, size_text(way.bytes) if way.bytes else "")))
        how = f"{HOW[way.how]} ({details})" if details else HOW[way.how]
        lines.append((f"way {number}", f"{how}; facts of {FACTS}: {way.state}"))
    yield f"{source.name}: {source.title}"
    yield from (f"  {name:<10}{text}" for name, text in lines if text)


def by_hand(source: Source, way: Way, folder: Path) -> Iterator[str]:
    """Yield the steps for data that no program may or can download."""
    yield f"{source.name} has to be downloaded by hand: {source.title}."
    yield f"Licence: {source.license}. {source.terms}".rstrip()
    yield f"Facts of {FACTS}: {way.state}."
    where = f" --raw {folder}" if folder != source.place else ""
    last = f"Run `shiftdata raw check {source.name}`{where}"
    for number, step in enumerate([*way.steps, last], 1):
        yield f"  {number}. {step.replace('{place}', str(folder))}"
    for other in source.ways:
        if other is not way:
            details = f"({other.repo or other.how}, {size_text(other.bytes)})"
            command = f"shiftdata raw get {source.name} --way {other.how} --accept"
            yield f"Or `{command}`: {other.state} {details}"


def result(source: Source, name: str, report: Report, place: Path, *, verbose: bool) -> Iterator[str]:
    """Yield what a check of a dataset, or a recipe, of that name found: problems first, then advice."""
    where = "" if place == source.place else f" --raw {place}"
    notes = [finding for finding in report.findings if finding.kind is Kind.NOTE]
    if not verbose and Kind.WRONG_PLACE in {finding.kind for finding in report.problems}:
        notes = []  # on the files of another dataset
    for findings in (report.problems, notes):
        lines = [line for finding in findings for line in _lines(finding, verbose=verbose)]
        most = len(lines) if verbose else MOST
        yield from lines[:most]
        if lines[most:]:
            yield f"and {len(lines) - most:,} more: --verbose"
    if report.counts:
        domains = ", ".join(f"{domain} {count:,}" for domain, count in report.by_domain().items())
        yield f"{source.name}: {report.counts[''].total():,} {source.noun[1]} ({domains})"
        yield from (f"expected: {text}" for text in report.expected or ["no source says how many"])
    if not report.problems:
        yield f"{place}: all well."
        recipes = [name] if name in source.recipes or name.endswith(".toml") else source.recipes
        yield from (f"Next: shiftdata build {recipe}{where}" for recipe in recipes[:1])
        return
    advice = list(_advice(source, report, place))
    yield f"{place}: problems: {len(report.problems):,}.{' What to do:' if advice else ''}"
    yield from (f"  {line}" for line in advice)


def _lines(finding: Finding, *, verbose: bool) -> Iterator[str]:
    mark, files = "note" if finding.kind is Kind.NOTE else "problem", finding.files
    if not files:
        yield f"{mark}: {finding.what}"
    elif verbose:
        yield from (f"{mark}: {finding.what}: {file}" for file in files)
    else:
        more = f", and {len(files) - FEW:,} more" if len(files) > FEW else ""
        count = f" ({len(files):,})" if len(files) > 1 else ""
        yield f"{mark}{count}: {finding.what}: {', '.join(files[:FEW])}{more}"


def _advice(source: Source, report: Report, place: Path) -> Iterator[str]:
    """Advise on the problems, in a line for each kind."""
    kinds = {finding.kind for finding in report.findings}
    get = f"shiftdata raw get {source.name}"
    downloads = source.ways and source.ways[0].how != "hand"
    if downloads and place.is_dir() and place != source.place:
        get += f" --raw {place}"
    advice = {
        Kind.WRONG_PLACE: f"give the right place: shiftdata raw check {source.name} --raw PLACE",
        Kind.DAMAGED: f"remove the damaged files and get them again: {get}",
        Kind.MISSING: f"add what is missing: {get}",
        Kind.OTHER: f"compare with what others count: shiftdata raw list {source.name}",
    }
    yield from (line for kind, line in advice.items() if kind in kinds)
    if report.counts:
        yield "a build goes on with what is there; its results do not compare with the papers'"


def _numbers(counts: Counts) -> str:
    domains = ", ".join(f"{name} {number:,}" for name, number in counts.domains.items())
    if counts.content is not None:
        domains = f"content {counts.content:,}, stylized {counts.stylized or 0:,}"
    return f"{counts.all:,} ({domains})" if domains else f"{counts.all:,}"


def size_text(size: int | None) -> str:
    """A size as a reader wants it.

    >>> size_text(18_448_292_000), size_text(191_900_000), size_text(None)
    ('18.4 GB', '192 MB', 'not known')
    """
    if size is None:
        return "not known"
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
