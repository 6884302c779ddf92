"""Structured changes of a JSON value by a seed: types swapped, fields removed and added, odd values."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.properties import share

#: What each example is drawn from: a failure names it, so that it can stand as an `@example`.
SEEDS = st.integers(0, 2**32)

#: Put into a text after it was serialised: `json` itself cannot write what is nested so deeply.
DEEP = "@@deep@@"
DEPTHS = (30, 900, 5_000, 100_000)

TEXTS = [
    "../x", "../../etc/passwd", "/etc/passwd", "a/../../x", "a//b", ".", "..", "", "a\\..\\b", "C:\\x", "c:x",
    ".git/config", "data/mini", "manifest.json", "README.md", "x" * 300, "~/x", "file:///etc/passwd",
    "nul\0", "two\nlines", "\x1b[2J", "back\u202eward", "\ud800", "caf\u00e9", "cafe\u0301", "\u2028", "-rf",
    "=1+1", "train", "test", "label", "x", "image", "0", "None", "%s%n", "{0}", "<script>", "\U0001f600",
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400, 1e308, float("inf"), float("nan"), 0.5,
]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [{}], {"": {}}, [None], ["x", 1], {"x": "y"}, DEEP]


def fuzzed(part: float) -> settings:
    """So many seeds, a share of the profile's; a seed cannot be made simpler."""
    return settings(share(part), phases=[Phase.explicit, Phase.reuse, Phase.generate])


def odd_text(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(TEXTS)
    return "".join(
        chr(rng.choice([rng.randrange(128), rng.randrange(0x3000)])) for _ in range(rng.randrange(12))
    )


def odd_value(rng: random.Random) -> Any:
    draws: list[Callable[[], Any]] = [
        lambda: rng.choice(NUMBERS),
        lambda: rng.randrange(-(10**6), 10**6),
        lambda: odd_text(rng),
        lambda: copy.deepcopy(rng.choice(OTHERS)),
        lambda: [odd_value(rng) for _ in range(rng.randrange(3))],
    ]
    return rng.choice(draws)()


def like(value: Any, rng: random.Random) -> Any:
    """Another value of the same type: what no check of types sees."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice([0, 1, value + 1, max(0, value - 1), 2**40, rng.randrange(10**6)])
        case float():
            return rng.choice([0.0, -0.0, value / 2, -value, 1e300, rng.random()])
        case str():
            return rng.choice([odd_text(rng), value + "x", value[:-1], value[::-1], value.upper()])
        case list():
            return rng.sample(value, rng.randrange(len(value) + 1))
        case dict():
            return {key: value[key] for key in rng.sample(list(value), rng.randrange(len(value) + 1))}
    return odd_value(rng)


def mutated(whole: Any, seed: int, most: int = 3) -> Any:
    """A value with one to `most` changes, each at a place that is drawn level by level."""
    rng, value = random.Random(seed), copy.deepcopy(whole)
    for _ in range(rng.randint(1, most)):
        path = walk(value, rng)
        if path:
            change(value, path, rng)
    return value


def walk(value: Any, rng: random.Random) -> list[Any]:
    path: list[Any] = []
    while isinstance(value, dict | list) and value and (not path or rng.random() < 0.85):
        path.append(rng.choice(list(value) if isinstance(value, dict) else range(len(value))))
        value = value[path[-1]]
    return path


def change(value: Any, path: list[Any], rng: random.Random) -> None:
    parent, key = value, path[-1]
    for step in path[:-1]:
        parent = parent[step]
    match rng.choice(["odd", "odd", "like", "like", "like", "remove", "add", "rename", "repeat", "swap"]):
        case "odd":
            parent[key] = odd_value(rng)
        case "like":
            parent[key] = like(parent[key], rng)
        case "remove":
            del parent[key]
        case "add" if isinstance(parent[key], dict):
            parent[key][odd_text(rng)] = odd_value(rng)
        case "rename" if isinstance(parent, dict):
            parent[odd_text(rng)] = parent.pop(key)
        case "repeat" if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        case "swap" if isinstance(parent, dict):
            other = rng.choice(list(parent))
            parent[key], parent[other] = parent[other], parent[key]


def json_text(value: Any, seed: int) -> str:
    """The value as JSON, with what is nested deeply put in."""
    rng = random.Random(seed)
    text = json.dumps(value, indent=1, ensure_ascii=rng.random() < 0.5)
    opening, inner, closing = rng.choice([("[", "", "]"), ('{"a":', "1", "}"), ("[", "", "")])
    depth = rng.choice(DEPTHS)
    return text.replace(json.dumps(DEEP), opening * depth + inner + closing * depth)


def sealed(text: str) -> str:
    """The text of a manifest with the checksum that it must have, as a forger writes it."""
    if not text.startswith("{\n"):
        return text
    body = text.removeprefix("{\n")
    return f'{{\n "checksum": "{sha256(body.encode(errors="surrogatepass")).hexdigest()}",\n{body}'


def manifest_of(folder: Path) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    raw.pop("checksum", None)
    return raw
