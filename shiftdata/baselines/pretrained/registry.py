"""Corpora and supervision of trained weights, and the datasets that the corpora contain.

The facts are in `registry.toml`. Needs no torch: a leaderboard judges without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from shiftdata.errors import InputError
from shiftdata.untrusted.texts import read_json, read_toml

if TYPE_CHECKING:
    from shiftdata.baselines.pretrained.model import Pretrained

#: Class labels, captions of pictures, or neither: each tells less of the classes than the one before.
Supervision: TypeAlias = Literal["labels", "text", "none"]
SUPERVISIONS: tuple[Supervision, ...] = ("labels", "text", "none")
#: Answers to whether pretraining contains a dataset, the best first.
Flag: TypeAlias = Literal["no", "unknown", "may", "contained"]
FLAGS: tuple[Flag, ...] = ("no", "unknown", "may", "contained")
#: For datasets no part of which was ever on the web.
NEVER = "never"
#: A training of your own as a corpus: the dataset, its content_id, the task whose training set it read.
RUN = re.compile(r"run (?P<dataset>.+) [0-9a-f]{0,16} (?P<task>[0-9a-f]{16})")
#: The beginnings of names under which several libraries have the same weights.
PREFIXES = {
    "hf:timm/": "timm:",
    "timm:hf-hub:timm/": "timm:",
    "timm:hf_hub:timm/": "timm:",
    "timm:hf-hub:": "hf:",
    "open_clip:hf-hub:": "hf:",
    "transformers:": "hf:",
}


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """The training of weights. `by` says who knows it: "" for nobody."""

    weights: str = ""
    sha256: str = ""
    corpora: tuple[str, ...] = ()
    supervision: Supervision = "none"
    date: str = ""  # the month in which they became public
    source: str = ""
    by: Literal["", "from scratch", "hash", "name", "record", "statement"] = ""

    @property
    def known(self) -> bool:
        return bool(self.by)

    def __str__(self) -> str:
        """Describe it in a line, as tables show it."""
        if not self.known:
            return f"{self.weights or self.sha256[:16]}: unknown"
        if not self.corpora:
            return self.by
        who = {"statement": "stated by the submitter"}.get(self.by, f"by {self.by}")
        words = "no labels" if self.supervision == "none" else self.supervision
        return f"{self.weights or self.sha256[:16]}: {', '.join(self.corpora)}, {words} ({who})"


class Contamination(NamedTuple):
    """The answer to whether pretraining contains a dataset, and its reason."""

    flag: Flag
    reason: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus: what it has, whether it is of the whole web, and its last month."""

    about: str
    reads: Literal["pictures", "texts"] = "pictures"
    web: bool = False
    until: str = ""  # a month; unknown
    includes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Names and hashes of weights, and their training."""

    names: Sequence[str]
    corpora: Sequence[str]
    supervision: Supervision
    source: str
    date: str = ""
    sha256: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of the examples of datasets, and the corpora known to have them or not."""

    names: Sequence[str]
    reason: str
    reads: Literal["pictures", "texts"] = "pictures"
    since: str = ""
    contained: Sequence[str] = ()
    may: Sequence[str] = ()
    no: Sequence[str] = ()


@dataclass(frozen=True)
class Registry:
    """The tables of `registry.toml`."""

    corpora: Mapping[str, Corpus]
    weights: Sequence[Weights]
    datasets: Sequence[Origin]
    unlisted: Sequence[str]


@lru_cache
def registry() -> Registry:
    """Read `registry.toml`."""
    raw = read_toml(Path(__file__).with_suffix(".toml"))
    return Registry(
        {name: Corpus(**corpus) for name, corpus in raw["corpora"].items()},
        [Weights(**weights) for weights in raw["weights"]],
        [Origin(**dataset) for dataset in raw["datasets"]],
        raw["unlisted"]["names"],
    )


Named = TypeVar("Named", Weights, Origin)


def _first(entries: Iterable[Named], name: str) -> Named | None:
    """Return the first entry with a pattern that matches a name."""
    return next((of for of in entries if any(fnmatchcase(name, each) for each in of.names)), None)


def lookup(name: str, sha256: str = "") -> Pretraining:
    """Return what the registry knows of weights, by their hash or else by their name; no file is read."""
    sha256 = sha256.lower()
    if not name and not sha256:
        return Pretraining(by="from scratch")
    entries = registry().weights
    by_hash = next((of for of in entries if sha256 and sha256 in of.sha256), None)
    entry = by_hash or _first(entries, _plain(name))
    if entry is None or (by_hash is None and sha256 and entry.sha256):
        return Pretraining(weights=name, sha256=sha256)
    return Pretraining(
        weights=name or entry.names[0], sha256=sha256, corpora=tuple(entry.corpora), date=entry.date,
        supervision=entry.supervision, source=entry.source, by="hash" if by_hash else "name",
    )  # fmt: skip


def _plain(name: str) -> str:
    name = name.lower()
    for prefix, plain in PREFIXES.items():
        if name.startswith(prefix):
            return plain + name.removeprefix(prefix)
    return name


def pretraining_of(model: Pretrained | str, sha256: str = "") -> Pretraining:
    """Return what a model, or weights of a name and perhaps a hash, were trained on.

    `run:FOLDER`, a training of your own, says so in its run.json. The empty name is a network from scratch.
    """
    if isinstance(model, str):
        name = model
    else:
        name, sha256 = model.name, model.weights
        if "task_id" in model.about:  # trained here, and perhaps not saved
            return of_record(model.about, name, sha256)
    if not name.startswith("run:"):
        return lookup(name, sha256)
    path = Path(name.removeprefix("run:")) / "run.json"
    try:
        return of_record(read_json(path), name, sha256)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not tell what {name} was trained on: {error}") from error


def of_record(record: Mapping[str, Any], name: str = "", sha256: str = "") -> Pretraining:
    """Return the pretraining of those who begin with a run: its own task, and what it began with."""
    began = record.get("pretraining") or {}
    if began and not began["by"]:
        return Pretraining(weights=name, sha256=sha256)
    dataset = record["dataset"].partition("/")[0]
    here = f"run {dataset} {record['content_id'][:16]} {record['task_id'][:16]}"
    supervisions = {record.get("supervision", "labels"), began.get("supervision", "none")}
    return Pretraining(
        weights=name, sha256=sha256, corpora=(*began.get("corpora", ()), here), source="its run.json",
        supervision=next(each for each in SUPERVISIONS if each in supervisions), by="record",
    )  # fmt: skip


def contamination(pretraining: Pretraining, dataset: str, task_id: str = "") -> Contamination:
    """Say whether pretraining contains rows of a dataset, by the worst of its corpora.

    The training set of the task itself, by `task_id`, is not held against a run of your own.
    """
    if not pretraining.known:
        return Contamination(
            "unknown", f"the registry does not know {pretraining.weights or 'these weights'}"
        )
    answers = [_in(corpus, dataset, task_id) for corpus in _included(pretraining.corpora)]
    worst = max(answers, key=lambda answer: FLAGS.index(answer.flag), default=None)
    return worst or Contamination("no", "trained from scratch")


def _included(corpora: Iterable[str]) -> Iterator[str]:
    for name in corpora:
        yield name
        if name in (known := registry().corpora):
            yield from _included(known[name].includes)


def _in(name: str, dataset: str, task_id: str) -> Contamination:
    """Say whether one corpus contains rows of a dataset."""
    if (own := RUN.fullmatch(name)) and own["dataset"] == dataset:
        if task_id.startswith(own["task"]):
            return Contamination("no", "its pretraining read the training set of this task alone")
        return Contamination("contained", f"it was trained on {dataset}, in another task or build")
    corpus, origin = registry().corpora.get(name), _first(registry().datasets, dataset)
    if corpus is None or origin is None:
        return Contamination("unknown", f"nobody stated whether {name} has {dataset}")
    for flag in ("contained", "may", "no"):
        if name in getattr(origin, flag):
            return Contamination(flag, f"{name}: {origin.reason}")
    if corpus.reads != origin.reads:
        return Contamination("no", f"{name} has {corpus.reads} alone, and {dataset} is of {origin.reads}")
    if origin.since == NEVER:
        return Contamination("no", origin.reason)
    if corpus.until and corpus.until < origin.since:
        return Contamination("no", f"{name} ended in {corpus.until}: {origin.reason}")
    if corpus.web:
        return Contamination("may", f"{name} is of the web: {origin.reason}")
    return Contamination("unknown", f"nobody compared {name} with {dataset}: {origin.reason}")


def flagged(pretraining: Pretraining, dataset: str, task_id: str = "") -> dict[str, Any]:
    """Return pretraining and contamination as a record holds them, in values of JSON."""
    answer = contamination(pretraining, dataset, task_id)
    corpora = list(pretraining.corpora)
    return asdict(pretraining) | {"corpora": corpora, "contamination": answer.flag, "reason": answer.reason}
