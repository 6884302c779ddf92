"""The layouts by name: where each puts pictures, and which lists it writes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias

from shiftdata.data.exporting.folders.contents import CLASSES, Contents, Entry, folder_names
from shiftdata.data.exporting.webdataset.tar import write_tar
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError
from shiftdata.files import remove
from shiftdata.tables import csv_lines

#: Text files by their paths, with their lines.
Texts: TypeAlias = Iterator[tuple[str, Iterable[str]]]
#: The entries of each set, each with the path of every copy.
Placed: TypeAlias = Mapping[str, Sequence[tuple[Entry, Sequence[str]]]]

#: CLIP_benchmark: the pictures that it decodes, the samples of a tar at most, and how many workers it starts.
CLIP_IMAGES, MOST_SAMPLES, WORKERS = ("webp", "png", "jpg", "jpeg"), 10_000, 4
#: Prompts where the dataset has none.
PROMPTS = ("a photo of a {}.",)

#: What readers of one list per domain call the set.
PHASES = {"validation": "val"}


class Layout:
    """One layout. Here, each picture lies once in the folder of its class, and lists name its sets."""

    #: What is in its folder, and who reads it.
    about: str
    #: True if readers take examples from folders: classes have the order of their folders' names, and a row
    #: drawn several times is as many files.
    in_folders = False
    #: True if each row must be in a domain.
    needs_domains = False

    def stem(self, contents: Contents, entry: Entry) -> str:
        """Return the path of an entry's file without its ending."""
        return f"images/{contents.classes[entry.label].folder}/{entry.key}"

    def stems(self, contents: Contents) -> list[list[str]]:
        """Return the path of each copy of each entry: a file each, or in lists the same path again."""
        stems = [(self.stem(contents, entry), entry.times) for entry in contents.entries]
        if not self.in_folders:
            return [[stem] * times for stem, times in stems]
        # Keys have no dot, so no two are equal.
        return [[stem, *(f"{stem}.{number}" for number in range(2, times + 1))] for stem, times in stems]

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        """Yield the lists."""
        raise NotImplementedError

    def finish(self, placed: Placed, work: Path) -> None:
        """Bring the pictures in a folder into their last form."""

    def check(self, contents: Contents) -> list[str]:
        """Note what readers of this layout cannot see; raise an error where they would see it wrongly."""
        return []


class ImageFolder(Layout):
    """One folder per set and class."""

    about = "<set>/<label>/<key>.jpg: torchvision's ImageFolder, `datasets`"
    in_folders = True

    def stem(self, contents: Contents, entry: Entry) -> str:
        return f"{contents.folders[entry.set]}/{contents.classes[entry.label].folder}/{entry.key}"

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        """Name the splits for `datasets`, which would guess them: a class `train` would become one.

        No metadata.csv: where there is one, `datasets` gives no labels.
        """
        files = [{"split": _split(name), "path": f"{name}/**"} for name in contents.folders.values()]
        configs = [{"config_name": "default", "data_files": files}]
        about = f"{contents.manifest.title}, {contents.of.protocol}: `keys.csv` says more of each picture."
        yield README, ["---", f"configs: {json.dumps(configs)}", "---", "", about]

    def check(self, contents: Contents) -> list[str]:
        present: dict[str, set[int]] = {}
        for entry in contents.entries:
            present.setdefault(entry.set, set()).add(entry.label)
        wanted = len(contents.classes)
        return [
            f"{name} has {len(labels)} of {wanted} classes, and torchvision's ImageFolder numbers those it "
            "finds: take labels by the folders' names"
            for name, labels in present.items()
            if len(labels) < wanted
        ]


def _split(name: str) -> str:
    """Name a set as a split of `datasets`, which has only letters, digits, dots and underscores."""
    return "".join(sign if sign.isalnum() or sign in "._" else "_" for sign in name)


class DomainBed(Layout):
    """One folder per domain and class."""

    about = "<domain>/<label>/<key>.jpg, all sets together, and their lists: DomainBed"
    in_folders = needs_domains = True

    def stem(self, contents: Contents, entry: Entry) -> str:
        return f"{contents.domains[entry.domain].folder}/{contents.classes[entry.label].folder}/{entry.key}"

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        for name, entries in placed.items():
            yield f"{contents.folders[name]}.txt", _lines(entries)

    def check(self, contents: Contents) -> list[str]:
        """Refuse a domain without one of the classes: an ImageFolder would number its classes otherwise."""
        present = {(entry.domain, entry.label) for entry in contents.entries}
        missing = [
            f"{domain.name}/{label.name}"
            for at, domain in enumerate(contents.domains)
            for number, label in enumerate(contents.classes)
            if (at, number) not in present
        ]
        if missing:
            raise InputError(
                f"{contents.of.protocol} has no row in {len(missing):,} cells of domain and class (the first "
                f"is {missing[0]}), and DomainBed numbers each domain's classes by the folders it finds: "
                "choose a task with every class in every domain, or the layout lists or wilds"
            )
        return []


class Wilds(Layout):
    """One CSV file with names and numbers."""

    about = "<name>_v1.0/metadata.csv with splits, labels and groups: WILDS"
    needs_domains = True

    def stem(self, contents: Contents, entry: Entry) -> str:
        return f"{_wilds_folder(contents)}/{super().stem(contents, entry)}"

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        manifest, nuisance, folder = contents.manifest, contents.nuisance, _wilds_folder(contents)
        header = ["img_filename", "y", "split", nuisance, "group", "split_name", "label_name"]
        rows = chain([[*header, f"{nuisance}_name"]], self._rows(contents, placed))
        yield f"{folder}/metadata.csv", csv_lines(rows)
        about = f"{manifest.name} {manifest.version}, {contents.of.protocol}, content {manifest.content_id}"
        yield f"{folder}/RELEASE_v{folder.rpartition('_v')[2]}.txt", [about]

    def _rows(self, contents: Contents, placed: Placed) -> Iterator[Sequence[Any]]:
        splits = split_numbers(contents.folders)
        for entry, paths in chain.from_iterable(placed.values()):
            group = entry.label * len(contents.domains) + entry.domain
            numbers = [entry.label, splits[entry.set], entry.domain, group]
            names = [entry.set, contents.classes[entry.label].name, contents.domains[entry.domain].name]
            for path in paths:
                yield [path.partition("/")[2], *numbers, *names]


def _wilds_folder(contents: Contents) -> str:
    """Name a dataset's folder as WILDS does; its versions have two numbers."""
    version = ".".join(contents.manifest.version.split(".")[:2])
    return f"{contents.manifest.name}_v{version}"


def split_numbers(sets: Iterable[str]) -> dict[str, int]:
    """Number train, validation and test 0, 1 and 2, as everywhere; other sets follow in their order.

    >>> split_numbers(["source_train", "test", "train", "target_test"])
    {'source_train': 3, 'test': 2, 'train': 0, 'target_test': 4}
    """
    names = list(sets)
    more = iter(range(len(SPLITS), len(SPLITS) + len(names)))
    return {name: list(SPLITS).index(name) if name in SPLITS else next(more) for name in names}


class Lists(Layout):
    """One list per set, and one per set and domain."""

    about = "<set>.txt, lists/<domain>_<set>.txt of `path label` lines: TLlib, DomainBed-v2, NICO++"

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        yield f"{CLASSES}.txt", [" ".join(label.name.split()) for label in contents.classes]
        pairs = [(name, at) for name in placed for at in range(len(contents.domains))]
        titles = [
            f"{contents.domains[at].folder}_{PHASES.get(folder, folder)}"
            for folder, at in ((contents.folders[name], at) for name, at in pairs)
        ]
        lists = dict(zip(pairs, folder_names(titles), strict=True))  # no two alike, whatever the names
        for name, entries in placed.items():
            yield f"{contents.folders[name]}.txt", _lines(entries)
            for at in range(len(contents.domains)):
                of_domain = [(entry, paths) for entry, paths in entries if entry.domain == at]
                if of_domain:
                    yield f"lists/{lists[name, at]}.txt", _lines(of_domain)


class ClipBenchmark(Layout):
    """Tars of each set, next to the names of classes and the prompts.

    While it is written, the pictures of `<set>/0.tar` are files in the folder `<set>/0`, where unpacking it
    puts them, and where `keys.csv` has them.
    """

    about = "<set>/<n>.tar, nshards.txt, classnames.txt, prompts: CLIP_benchmark's `wds/`"

    def stems(self, contents: Contents) -> list[list[str]]:
        total = Counter[str]()
        for entry in contents.entries:
            total[entry.set] += entry.times
        tars = {name: _tars(samples) for name, samples in total.items()}
        seen, stems = Counter[str](), []
        numbers: dict[str, dict[int, int]] = defaultdict(dict)  # without gaps
        for entry in contents.entries:  # a row and its copies share a tar
            share = seen[entry.set] * tars[entry.set] // total[entry.set]
            tar = numbers[entry.set].setdefault(share, len(numbers[entry.set]))
            stem = f"{contents.folders[entry.set]}/{tar}/{entry.key}"
            stems.append([stem, *(f"{stem}+{number}" for number in range(2, entry.times + 1))])
            seen[entry.set] += entry.times
        return stems

    def texts(self, contents: Contents, placed: Placed) -> Texts:
        yield "classnames.txt", [" ".join(label.name.split()) for label in contents.classes]
        prompts = contents.manifest.prompts or PROMPTS
        yield "zeroshot_classification_templates.txt", [prompt.replace("{}", "{c}") for prompt in prompts]
        for name, entries in placed.items():
            tars = {path.rpartition("/")[0] for _, paths in entries for path in paths}
            yield f"{contents.folders[name]}/nshards.txt", [str(len(tars))]

    def finish(self, placed: Placed, work: Path) -> None:
        for entries in placed.values():
            samples = ((path, entry.label) for entry, paths in entries for path in paths)
            for folder, of_tar in groupby(samples, lambda sample: sample[0].rpartition("/")[0]):
                write_tar(work / f"{folder}.tar", _samples(work, of_tar))
                remove(work / folder)


def _samples(work: Path, samples: Iterable[tuple[str, int]]) -> Iterator[tuple[str, dict[str, bytes]]]:
    for path, label in samples:
        key, _, extension = path.rpartition("/")[2].rpartition(".")
        if extension not in CLIP_IMAGES:
            raise InputError(f"{path}: CLIP_benchmark reads {', '.join(CLIP_IMAGES)}, no {extension}")
        yield key, {extension: (work / path).read_bytes(), "cls": str(label).encode()}


def _tars(samples: int) -> int:
    """Return the number of tars of a set: its readers share whole ones, and a worker without one fails."""
    return max(-(-samples // MOST_SAMPLES), min(WORKERS, samples))


def _lines(entries: Iterable[tuple[Entry, Sequence[str]]]) -> Iterator[str]:
    return (f"{path} {entry.label}" for entry, paths in entries for path in paths)


LAYOUTS: dict[str, Layout] = {
    "imagefolder": ImageFolder(),
    "wilds": Wilds(),
    "domainbed": DomainBed(),
    "lists": Lists(),
    "clip-benchmark": ClipBenchmark(),
}
