"""Get style pictures from files and addresses: the same folder for any number of threads and any order."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, urldefrag

import numpy as np

from builders.curate.listing import Entry, read_list
from builders.curate.pictures import MOST_BYTES, Facts, examine
from builders.sample import BadItem
from builders.shifts.styles.listed import LISTED, StylePicture, read_listed, write_listed, write_rows
from shiftdata.data.look_alikes import NEAR
from shiftdata.data.places.client import Answer, Client, HttpError
from shiftdata.data.places.http import PLAIN
from shiftdata.data.places.store import in_a_line, persistently
from shiftdata.errors import InputError, ShiftdataError, StorageError
from shiftdata.files import locked, open_regular, own_folder, remove, sha256_of, whole_file, write_bytes
from shiftdata.stable import content_hash
from shiftdata.threads import ahead

REFUSED = "refused.tsv"
WORK, LOCK = ".getting", ".getting.lock"
THREADS = 8


@dataclass(frozen=True)
class Got:
    """What is in the folder now, and what is not: style, source and reason of each."""

    pictures: tuple[StylePicture, ...]
    refused: tuple[tuple[str, str, str], ...]


def get(
    place: Path,
    out: Path,
    *,
    threads: int = THREADS,
    on_done: Callable[[int, int], object] = lambda count, total: None,
) -> Got:
    """Get the pictures of a list into a folder, `<style>/<first digits of its sha256>.<ending>`.

    What is there already is not downloaded again, neither what a killed call has left. Pictures that the list
    names no more leave the folder. `on_done` is called with how many more of how many sources were looked at.
    """
    entries = read_list(place)
    _check_folder(place, out)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / LOCK, f"another `styles get` is writing to {out}: wait for it"):
        work = own_folder(out / WORK)
        before = read_listed(out, whole=False) if (out / LISTED).is_file() else ()
        fetch = partial(_looked_at, out, {one.source: one for one in before})
        jobs = list({(one.source, one.file): one for one in entries if not one.fault}.values())
        looked: dict[tuple[str, Path | None], Facts | str] = {}
        with closing(ahead(fetch, jobs, threads)) as results:
            for job, result in zip(jobs, results, strict=True):
                looked[job.source, job.file] = result
                on_done(1, len(jobs))
        results_of = [(one, one.fault or looked[one.source, one.file]) for one in entries]
        kept, refused = _choose(results_of)
        _write(out, kept, refused, {one.file for one in before})
        remove(work)
    return Got(tuple(sorted(_picture(*one) for one in kept)), tuple(refused))


def _check_folder(place: Path, out: Path) -> None:
    """Refuse to write where something else lies."""
    one, other = place.resolve(), out.resolve()
    if place.is_dir() and (one.is_relative_to(other) or other.is_relative_to(one)):
        raise InputError(f"{out} and {place} lie in each other: give another folder to write to")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: give a folder to write to")
    others = [path.name for path in out.iterdir() if not path.name.startswith(".")] if out.is_dir() else []
    if others and not (out / LISTED).is_file() and not (out / WORK).is_dir():
        raise InputError(
            f"{out} has other files ({', '.join(sorted(others)[:3])}): give an empty folder to write to"
        )


def _looked_at(out: Path, before: Mapping[str, StylePicture], entry: Entry) -> Facts | str:
    """What a picture is, or why it is refused. Bytes from an address are kept in the work folder."""
    if entry.file is not None:
        try:
            return examine(_read(entry.file))
        except BadItem as error:
            return str(error)
        except OSError as error:
            return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    file, known = _kept(out, entry.source), before.get(entry.source)
    if not file.is_file() and known and _is_there(out, known):
        with whole_file(file) as temporary:
            shutil.copyfile(out / known.file, temporary)
    if file.is_file():
        with suppress(BadItem):  # or else it is asked for again
            return examine(file.read_bytes())
    try:
        answer = _asked(entry.source)
        facts = examine(answer.body)
    except BadItem as error:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        named = kind and not kind.startswith("image/") and kind.isprintable()
        return f"answered {kind[:80]}, not a picture" if named else str(error)
    except HttpError as error:
        return f"answered {str(error).removeprefix('status ')}"
    except (OSError, ShiftdataError, HTTPException, ValueError) as error:
        return in_a_line(error).removeprefix(f"{entry.source} ")
    write_bytes(file, answer.body)
    return facts


def _read(file: Path) -> bytes:
    with open_regular(file) as stream:
        return stream.read(MOST_BYTES + 1)


def _asked(url: str) -> Answer:
    """What a server answers, after a few tries where the error may pass."""
    address = quote(urldefrag(url).url, safe=PLAIN)
    client = Client(address)
    with closing(client):
        return persistently(lambda: client.get(address, MOST_BYTES))


def _kept(out: Path, source: str) -> Path:
    """Where the bytes from an address are until all are there."""
    return out / WORK / content_hash(source)[:32]


def _is_there(out: Path, picture: StylePicture) -> bool:
    return (out / picture.file).is_file() and sha256_of(out / picture.file) == picture.sha256


def _choose(
    looked: Sequence[tuple[Entry, Facts | str]],
) -> tuple[list[tuple[Entry, Facts]], list[tuple[str, str, str]]]:
    """Which pictures stay: of those that are equal or nearly so the one with most pixels.

    Ties are broken by hash, then by name, and never by what came first.
    """
    refused = {(one.style, one.source, why) for one, why in looked if isinstance(why, str)}
    usable = [(one, facts) for one, facts in looked if isinstance(facts, Facts)]
    usable.sort(key=lambda one: (-one[1].width * one[1].height, one[1].sha256, one[0].style, one[0].source))
    kept: list[tuple[Entry, Facts]] = []
    equal: dict[str, Entry] = {}
    hashes = np.zeros(len(usable), np.uint64)
    for entry, facts in usable:
        first = equal.setdefault(facts.sha256, entry)
        if first is not entry:
            if (first.style, first.source) != (entry.style, entry.source):
                refused.add((entry.style, entry.source, f"the same file as {_name(first)}"))
            continue
        bits = np.bitwise_count(hashes[: len(kept)] ^ np.uint64(facts.difference))
        near = np.flatnonzero(bits <= NEAR)
        if len(near):
            refused.add((entry.style, entry.source, f"nearly the same picture as {_name(kept[near[0]][0])}"))
            continue
        hashes[len(kept)] = facts.difference
        kept.append((entry, facts))
    return kept, sorted(refused)


def _name(entry: Entry) -> str:
    return f"{entry.source} of {entry.style}"


def _picture(entry: Entry, facts: Facts) -> StylePicture:
    return StylePicture(
        style=entry.style,
        file=f"{entry.style}/{facts.name}",
        source=entry.source,
        sha256=facts.sha256,
        width=facts.width,
        height=facts.height,
        bytes=facts.bytes,
        license=entry.license,
        attribution=entry.attribution,
    )


def _write(
    out: Path,
    kept: Sequence[tuple[Entry, Facts]],
    refused: Sequence[tuple[str, str, str]],
    before: set[str],
) -> None:
    """Write pictures, then tables; what a killed call leaves, the next one ends."""
    pictures = [_picture(*one) for one in kept]
    for picture, (entry, _) in zip(pictures, kept, strict=True):
        if _is_there(out, picture):
            continue
        with whole_file(out / picture.file) as temporary:
            shutil.copyfile(entry.file or _kept(out, entry.source), temporary)
            if sha256_of(temporary) != picture.sha256:
                raise StorageError(f"{entry.source} changed while it was read: run the same command again")
    write_rows(out / REFUSED, ("style", "source", "reason"), refused)
    if not pictures:
        some = "; ".join(f"{source}: {why}" for _, source, why in refused[:3])
        raise InputError(f"no picture of the list can be used ({some}): see {out / REFUSED}")
    for file in sorted(before - {picture.file for picture in pictures}):
        remove(out / file)
    write_listed(out, pictures)
