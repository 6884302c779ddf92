"""Report shortcuts, on the card and by commands: traces that give away a label or a nuisance."""

from __future__ import annotations

from collections.abc import Iterator

from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Shortcuts, Trace

#: Halfway between a guess (0.5) and certainty, for one class against all others; sampling noise comes on top.
BOUND, NOTHING = 0.75, 0.5
#: No model reads bytes, which show how much there is to see; and a domain may have colours of its own.
UNREAD, COLOURS = "size in bytes", "mean colour"


def warnings(manifest: Manifest) -> list[str]:
    """A line for each trace that gives away a label, or a nuisance that comes with the content.

    A nuisance that the recipe made lies all over the picture, so its traces are reported on the card alone.
    """
    shortcuts = manifest.shortcuts
    if shortcuts is None:
        return []

    lines = [
        f"warning: {_sentence(manifest, trace)}" for trace in shortcuts.traces if _is_fault(shortcuts, trace)
    ]
    for of_files in filter(lambda trace: _is_fault(shortcuts, trace), shortcuts.files):
        built = [trace for trace in shortcuts.traces if trace.target == of_files.target]
        left = max((trace for trace in built if trace.name != UNREAD), key=lambda trace: trace.alone)
        lines.append(
            f"note: in the album's files, {_sentence(manifest, of_files)}; after the build, no trace "
            f"predicts more than the {left.name}: {left.plainest!r} with {left.alone:.2f}"
        )
    return lines


def _is_fault(shortcuts: Shortcuts, trace: Trace) -> bool:
    if trace.alone < BOUND + 2 * trace.noise or trace.name == UNREAD:
        return False
    return trace.target == "label" or not (shortcuts.made or trace.name == COLOURS)


def shortcut_table(manifest: Manifest) -> str:
    """Every trace in a line: how right it is about label and nuisance, and the class it gives away most."""
    shortcuts = manifest.shortcuts
    if shortcuts is None:
        return ""
    targets = [name for name in ("label", "nuisance") if any(t.target == name for t in shortcuts.traces)]
    header = ["trace"]
    for target in targets:
        guess = next(trace.chance for trace in shortcuts.traces if trace.target == target)
        name = "label" if target == "label" else manifest.roles.nuisance
        header += [f"`{name}` (a guess: {guess:.2f})", "given away most (a guess: 0.50)"]
    rows = [header, ["---"] * len(header)]
    for where, traces in (("", shortcuts.traces), (" of the album's files", shortcuts.files)):
        for name in dict.fromkeys(trace.name for trace in traces if trace.alone > NOTHING):
            of: dict[str, Trace] = {trace.target: trace for trace in traces if trace.name == name}
            rows.append([name + where, *(text for target in targets for text in _cells(of.get(target)))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def silent_traces(manifest: Manifest) -> list[str]:
    """Name the traces of the built files that give away nothing; the table leaves them out."""
    traces = manifest.shortcuts.traces if manifest.shortcuts else []
    telling = {trace.name for trace in traces if trace.alone > NOTHING}
    return [name for name in dict.fromkeys(trace.name for trace in traces) if name not in telling]


def _cells(trace: Trace | None) -> Iterator[str]:
    yield f"{trace.accuracy:.2f}" if trace else ""
    yield f"{cell(trace.plainest)} {trace.alone:.2f}" if trace and trace.alone > NOTHING else ""


def _sentence(manifest: Manifest, trace: Trace) -> str:
    target = "label" if trace.target == "label" else manifest.roles.nuisance
    alone = f", and {trace.plainest!r} against the rest with {trace.alone:.2f} (a guess: 0.50)"
    return (
        f"the {trace.name} alone predicts the {target} with accuracy {trace.accuracy:.2f} (a guess: "
        f"{trace.chance:.2f}){alone if trace.chance < 0.5 else ''}"
    )
