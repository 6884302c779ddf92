"""Golden pictures: one of every step, and of every scene family, weather, corruption and style shift.

`tests/golden/pictures.tsv` records the `code_version` and the hash of each. Pictures that a network paints
are kept as PNG too: on a CPU other than the recorded one they may differ a little. A change of the pixels
needs a higher `code_version`, then `python scripts/regenerate_goldens.py`.
"""

from __future__ import annotations

import csv
import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from builders.filters import (
    AtLeast,
    Filters,
    RightClass,
    Sketch,
    TextAlignment,
    Threshold,
    ToStart,
    View,
    judge,
)
from builders.filters.scoring import asked
from builders.sample import Item, Sample, Step
from builders.shifts.contexts.domains import DOMAINS
from builders.shifts.contexts.scene import Stage, in_context
from builders.shifts.contexts.scenery import MATERIALS, PATTERNS
from builders.shifts.steps import (
    Contexts,
    Continuous,
    Corrupt,
    CropSquare,
    Domains,
    OnGround,
    Pad,
    Resize,
    Stylize,
)
from builders.shifts.steps.framing import Framing
from builders.shifts.styles.sliders import SLIDERS
from shiftdata.errors import InputError
from shiftdata.stable import rng

FOLDER = Path(__file__).parent / "golden"
MAX_DIFFERENCE, MEAN_DIFFERENCE = 2, 0.05  # of a network's picture on another CPU, of 255
ITEM = Item(key="golden", label="B", origin="golden", license="MIT", attribution="x", nuisance="here")


@dataclass(frozen=True)
class Golden:
    """What the code makes today. `network`: painted by a network, so not the same to the bit everywhere."""

    code_version: int
    picture: Image.Image | str
    network: bool = False

    @property
    def sha256(self) -> str:
        """The hash of mode, size and pixels, or of the text."""
        made = self.picture
        if isinstance(made, str):
            return hashlib.sha256(made.encode()).hexdigest()
        return hashlib.sha256(f"{made.mode} {made.size} ".encode() + made.tobytes()).hexdigest()


@dataclass(frozen=True)
class Recorded:
    """A line of the table. `cpu` is empty where every CPU gives the same bytes."""

    name: str
    code_version: int
    sha256: str
    cpu: str


def cpu() -> str:
    """The family of this machine's processor, by which the last bits of a network differ."""
    try:
        lines = [
            line.partition(":") for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        ]
    except OSError:
        return f"{platform.machine()} {platform.processor()}".strip()
    known = {name.strip(): value.strip() for name, _, value in lines}
    return " ".join(known[name] for name in ("vendor_id", "cpu family", "model") if name in known)


def made_now() -> dict[str, Golden]:
    """Every golden picture, drawn by today's code."""
    return dict(sorted([*_steps(), *_continuous(), *_contexts(), *_scores()]))


def problem(golden: Golden, known: Recorded | None, folder: Path = FOLDER) -> str | None:
    """Why a picture is not the recorded one; None where it is."""
    if known is None:
        return "not recorded yet: run scripts/regenerate_goldens.py"
    if golden.code_version != known.code_version:
        return (
            f"code_version is {golden.code_version}, recorded is {known.code_version}: run "
            "scripts/regenerate_goldens.py"
        )
    if golden.sha256 == known.sha256 or _close(golden, known, folder):
        return None
    return (
        f"the pixels changed and code_version is still {golden.code_version}: raise it if the change is "
        "meant, then run scripts/regenerate_goldens.py"
    )


def recorded(folder: Path = FOLDER) -> dict[str, Recorded]:
    """The table by name."""
    path = folder / "pictures.tsv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return {
        row["name"]: Recorded(row["name"], int(row["code_version"]), row["sha256"], row["cpu"])
        for row in rows
    }


def record(pictures: Mapping[str, Golden], folder: Path = FOLDER) -> None:
    """Write the table and the PNG files again; refuse where pixels changed and the version was not raised."""
    known = recorded(folder)
    refused = [
        f"{name}: code_version {one.code_version}, recorded {known[name].code_version}"
        for name, one in pictures.items()
        if name in known
        and one.code_version <= known[name].code_version
        and problem(one, known[name], folder)
    ]
    if refused:
        raise InputError(
            "nothing was written: pixels changed, and code_version was not raised, of\n" + "\n".join(refused)
        )
    lines = [("name", "code_version", "sha256", "cpu")]
    (folder / "pictures").mkdir(exist_ok=True)
    for name, one in pictures.items():
        if name in known and problem(one, known[name], folder) is None:
            kept = known[name]  # also where this CPU gives slightly other bytes
            lines.append((name, str(kept.code_version), kept.sha256, kept.cpu))
            continue
        lines.append((name, str(one.code_version), one.sha256, cpu() if one.network else ""))
        if one.network and isinstance(one.picture, Image.Image):
            one.picture.save(_png(name, folder), optimize=True)
    with (folder / "pictures.tsv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, delimiter="\t", lineterminator="\n").writerows(lines)
    for path in set((folder / "pictures").iterdir()) - {_png(name, folder) for name in pictures}:
        path.unlink()


def _close(golden: Golden, known: Recorded, folder: Path) -> bool:
    """Whether a network's picture on another CPU is as near to the recorded one as it must be."""
    if not golden.network or known.cpu == cpu():
        return False
    with Image.open(_png(known.name, folder)) as image:
        apart = np.abs(np.asarray(golden.picture, dtype=np.float64) - np.asarray(image, dtype=np.float64))
    return bool(apart.max() <= MAX_DIFFERENCE and apart.mean() < MEAN_DIFFERENCE)


def _png(name: str, folder: Path) -> Path:
    return folder / "pictures" / f"{name.replace('/', '-')}.png"


def _cutout() -> Image.Image:
    """Something with colours, edges and a hole, on nothing."""
    image = Image.new("RGBA", (60, 72))
    pen = ImageDraw.Draw(image)
    pen.ellipse((2, 10, 56, 70), (206, 64, 48, 255), (60, 20, 20, 255), 3)
    pen.polygon([(30, 0), (58, 34), (20, 26)], (48, 92, 190, 255))
    pen.rectangle((16, 40, 28, 54), (250, 220, 80, 255))
    pen.ellipse((34, 38, 46, 50), (0, 0, 0, 0))
    return image


def _made_by(step: Step, picture: Image.Image) -> list[Sample]:
    return list(step(iter([Sample(item=ITEM, key=ITEM.key, example=picture)])))


def _sheet(pictures: Sequence[Image.Image], columns: int = 6) -> Image.Image:
    width, height = pictures[0].size
    columns = min(columns, len(pictures))
    sheet = Image.new("RGB", (width * columns, height * -(-len(pictures) // columns)))
    for number, picture in enumerate(pictures):
        sheet.paste(picture, (number % columns * width, number // columns * height))
    return sheet


def _on_ground(size: int) -> Image.Image:
    return OnGround(size=size, margin=0.05).compose(_cutout())


def _steps() -> Iterator[tuple[str, Golden]]:
    ground = _made_by(OnGround(size=48, ground=(40, 90, 160), margin=0.1), _cutout())
    yield "on_ground", Golden(OnGround.code_version, ground[0].image)
    yield from _framed()
    passed = _made_by(Domains(names=("here", "there")), ground[0].image)
    yield "domains", Golden(Domains.code_version, f"{passed[0].nuisance} {passed[0].image.tobytes().hex()}")
    for strength, kept in ((1.0, 20), (0.5, 5)):
        made = _made_by(Stylize(seed=0, dataset="golden", strength=strength), _on_ground(32))[:kept]
        picture = _sheet([sample.image for sample in made], columns=5)
        yield f"stylize/{strength:g}", Golden(Stylize.code_version, picture, network=True)
    corrupted = _made_by(Corrupt(seed=0, dataset="golden"), _on_ground(64))
    for name in Corrupt.names:
        picture = _sheet([sample.image for sample in corrupted if sample.nuisance == name])
        yield f"corrupt/{name}", Golden(Corrupt.code_version, picture)


def _framed() -> Iterator[tuple[str, Golden]]:
    """A cut-out, a photograph that is wide and one that is tall, in each frame."""
    wide = Image.composite(_cutout().convert("RGB"), Image.new("RGB", (60, 72), (20, 90, 60)), _cutout())
    pictures = (_cutout(), wide.crop((0, 20, 60, 50)), wide.crop((20, 0, 40, 72)))
    steps: Sequence[Framing] = (
        *(Pad(size=48, fill=fill) for fill in ("reflect", "edge", "blur")),
        CropSquare(size=48),
        Resize(size=48),
    )
    for step in steps:
        made = [_made_by(step, picture)[0].image for picture in pictures]
        name = type(step).__name__.lower() + (f"/{step.fill}" if isinstance(step, Pad) else "")
        yield name, Golden(step.code_version, _sheet(made))


def _continuous() -> Iterator[tuple[str, Golden]]:
    step = Continuous(dataset="golden", seeds=(0,))
    made = _made_by(step, _on_ground(64))
    for shift in step.nuisances:
        network = shift in SLIDERS
        scales = (0.5, 2.5) if network else step.severities
        picture = _sheet([one.image for one in made if one.nuisance == shift and one.severity in scales])
        yield f"continuous/{shift}", Golden(Continuous.code_version, picture, network)


def _contexts() -> Iterator[tuple[str, Golden]]:
    """Every scene of each domain, every material, and the step, which chooses scenes by name."""
    for domain, makes in DOMAINS.items():
        pictures = [
            in_context(_cutout(), make, Stage(64, rng("golden", make.__name__, number), strength))
            for make in makes
            for number, strength in enumerate((0.5, 1.0, 1.0))
        ]
        yield f"contexts/{domain}", Golden(Contexts.code_version, _sheet(pictures))
    for name, draw in {**MATERIALS, **PATTERNS}.items():
        tiles = [draw(rng("golden", name, number)).reduce(2) for number in range(3)]
        yield f"contexts/material-{name}", Golden(Contexts.code_version, _sheet(tiles))
    chosen = _made_by(Contexts(seed=0, dataset="golden", size=64), _cutout())
    yield "contexts", Golden(Contexts.code_version, _sheet([sample.image for sample in chosen]))


@dataclass(frozen=True)
class _Texts(Sketch):
    """Texts as rows beside those of pictures."""

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([rng("golden", text).normal(size=320) for text in texts])


def _scores() -> Iterator[tuple[str, Golden]]:
    views = []
    for number in range(40):
        fill = tuple(rng("golden", number).integers(0, 255, 3).tolist())
        start = OnGround(size=32, ground=fill).compose(_cutout().rotate(90 * (number % 2)))
        label, picture = ("upright", "lying")[number % 2], start.transpose(Image.Transpose(number % 6))
        views.append(
            View(
                key=str(number),
                picture=picture,
                start=start,
                label=label,
                origin=str(number),
                nuisance="snow",
            )
        )
    for scorer in (RightClass(), ToStart(), TextAlignment(encoder=_Texts())):
        fitted = scorer.fit(views) if isinstance(scorer, RightClass) else scorer
        scores = " ".join(f"{score:.6f}" for score in asked(fitted, views))
        yield f"scores/{scorer.name}", Golden(Sketch.code_version + scorer.code_version, scores)
    aligned, right = (
        Threshold(scorer=one, least=0.5) for one in (TextAlignment(encoder=_Texts()), RightClass())
    )
    rules = Filters(base=right, easy=right, keep=AtLeast(m=2, of=(aligned, right)))
    severities = (0.0, 1.0, 2.0)
    rows = pa.table(
        {
            "trajectory": [f"t{number // 3}" for number in range(60)],
            "severity": severities * 20,
            "score_right-class": rng("golden", "a").random(60) + 0.2,
            "score_text-alignment": rng("golden", "b").random(60) + 0.2,
        }
    )
    judged = judge(rules, rows, severities).select(["base", "easy", "passes", "kept", "why"])
    yield "filters", Golden(Filters.code_version, repr(judged.to_pylist()))
