"""The steps of a recipe that shift content: frozen records of what determines their pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from PIL import Image

from builders.sample import Item, Json, Sample
from builders.shifts.contexts.compose import in_context
from builders.shifts.contexts.domains import COMMON, DOMAINS, TABLE, unique_of
from builders.shifts.contexts.scene import Stage
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from builders.shifts.styles import network, sliders
from builders.shifts.styles.bank import StyleBank
from builders.shifts.styles.sliders import SCALES, SLIDERS, Subject
from builders.shifts.weather import FIGURES, WEATHERS, render
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash, rng

SMALLEST_SCENE = 64


def _check_names(what: str, names: tuple[str, ...]) -> None:
    if not names or len(set(names)) < len(names):
        raise InputError(f"{what} need at least one name, each once, got {names}")


@dataclass(frozen=True, kw_only=True)
class OnGround:
    """Compose each picture on a plain ground: centred, scaled to fit, with a margin (a share of the side)."""

    code_version: ClassVar[int] = 1

    size: int
    ground: tuple[int, int, int] = (244, 241, 234)
    margin: float = 0

    @property
    def inner(self) -> int:
        return self.size - 2 * round(self.size * self.margin)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            yield replace(sample, example=self.compose(sample.image))

    def compose(self, picture: Image.Image) -> Image.Image:
        scale = self.inner / max(picture.size)
        fitted = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        cutout = picture.convert("RGBA")
        if cutout.size != fitted:
            # Premultiplied, so that the colour of fully transparent pixels does not bleed into the edge.
            cutout = cutout.convert("RGBa").resize(fitted, Image.Resampling.LANCZOS).convert("RGBA")
        canvas = Image.new("RGBA", (self.size, self.size), (*self.ground, 255))
        canvas.alpha_composite(cutout, ((self.size - fitted[0]) // 2, (self.size - fitted[1]) // 2))
        return canvas.convert("RGB")


@dataclass(frozen=True, kw_only=True)
class _OneStrength:
    """What a seed draws for each content and nuisance, in one strength from 0 (untouched) to 1 (whole)."""

    seed: int
    dataset: str
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {self.strength}")

    @property
    def severities(self) -> tuple[float, ...]:
        return (self.strength,)


@dataclass(frozen=True, kw_only=True)
class Stylize(_OneStrength):
    """One stylized sample for each content sample and style; names draw the style picture."""

    code_version: ClassVar[int] = 1

    @property
    def nuisances(self) -> tuple[str, ...]:
        return StyleBank.load().names

    def fingerprint(self) -> str:
        """The parameters, the bank's codes and the network's graphs."""
        parts = (str(self.seed), self.dataset, str(self.strength))
        return content_hash(*parts, StyleBank.load().fingerprint(), network.fingerprint())

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        bank = StyleBank.load()
        for sample in samples:
            features = network.features(sample.image)
            own = network.code(sample.image) if 0 < self.strength < 1 else None
            for style in bank.names:
                key = f"{sample.key}-{style}"
                index = int(rng(self.seed, self.dataset, "style-picture", key).integers(bank.size))
                code = bank.code(style, index)
                if own is not None:
                    code = network.mix(own, code, self.strength)
                painted = self.strength > 0
                image = network.paint(features, code, sample.image.size) if painted else sample.image
                params = {**sample.params, "style": style, "style_picture": index, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=style, severity=self.strength, params=params
                )


@dataclass(frozen=True, kw_only=True)
class Contexts(_OneStrength):
    """One picture for each cut-out and domain of its class: the ten common ones, and ten of its own.

    At strength 0 the object stands large on plain ground. Names draw the scene.
    """

    code_version: ClassVar[int] = 1

    size: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < SMALLEST_SCENE:
            raise InputError(f"scenes need at least {SMALLEST_SCENE} pixels, got {self.size}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return tuple(DOMAINS)

    def fingerprint(self) -> str:
        """The parameters, and the table of unique domains."""
        parts = (str(self.seed), self.dataset, str(self.size), str(self.strength))
        return content_hash(*parts, TABLE.read_bytes())

    def nuisances_of(self, item: Item) -> tuple[str, ...]:
        return (*COMMON, *unique_of(item.label))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for domain in self.nuisances_of(sample.item):
                key = f"{sample.key}-{domain}"
                random = rng(self.seed, self.dataset, "context", key)
                scenes = DOMAINS[domain]
                make = scenes[int(random.integers(len(scenes)))]
                image = in_context(sample.image, make, Stage(self.size, random, self.strength))
                params = {**sample.params, "scene": make.__name__, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=domain, severity=self.strength, params=params
                )


@dataclass(frozen=True, kw_only=True)
class Corrupt:
    """One trajectory for each content sample and corruption; severity 0 is the untouched picture."""

    code_version: ClassVar[int] = 1

    seed: int
    dataset: str
    names: tuple[str, ...] = CORRUPTIONS
    steps: tuple[int, ...] = (0, *SEVERITIES)

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in CORRUPTIONS:
                raise not_found("corruption", name, CORRUPTIONS)
        _check_names("corruptions", self.names)
        allowed = (0, *SEVERITIES)
        if not self.steps or list(self.steps) != sorted(set(self.steps) & set(allowed)):
            raise InputError(f"severities must be some of {allowed}, ascending, got {self.steps}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        return tuple(float(step) for step in self.steps)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            names = (self.seed, self.dataset, sample.key)
            for name in self.names:
                for step in self.steps:
                    yield replace(
                        sample,
                        key=f"{sample.key}-{name}-{step}",
                        example=corrupt(name, sample.image, step, key=names) if step else sample.image,
                        nuisance=name,
                        severity=float(step),
                        trajectory=f"{sample.key}-{name}",
                        params={**sample.params, "corruption": name, "severity": step},
                    )


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """Each picture along one trajectory for each shift and seed; along a trajectory only the scale changes.

    The 14 shifts of CNS-Bench, from the untouched picture to a scale of 2.5. A seed chooses the style picture
    of a style shift, and the place of every stroke, flake and cloud.
    """

    code_version: ClassVar[int] = 1

    dataset: str
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        known = range(sliders.style_codes().size)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not set(self.seeds) <= set(known):
            raise InputError(f"seeds are of 0 to {known[-1]}, each once, at least one; got {self.seeds}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return (*SLIDERS, *WEATHERS)

    @property
    def severities(self) -> tuple[float, ...]:
        return SCALES

    def fingerprint(self) -> str:
        """The parameters, the assets behind the style shifts, and the figures of the weather."""
        parts = (self.dataset, *map(str, self.seeds), *self.nuisances, *map(str, SCALES))
        return content_hash(*parts, sliders.fingerprint(), network.fingerprint(), repr(FIGURES))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            subject = Subject.of(sample.image)
            for shift in self.nuisances:
                for seed in self.seeds:
                    trajectory = f"{sample.key}-{shift}-s{seed}"
                    for scale in SCALES:
                        image, params = self._shifted(sample.key, subject, shift, seed, scale)
                        yield replace(
                            sample,
                            key=f"{trajectory}-{round(100 * scale):03d}",
                            example=image,
                            nuisance=shift,
                            severity=scale,
                            trajectory=trajectory,
                            params={**sample.params, "shift": shift, "seed": seed, **params},
                        )

    def _shifted(
        self, content: str, subject: Subject, shift: str, seed: int, scale: float
    ) -> tuple[Image.Image, dict[str, Json]]:
        """One picture of a trajectory, and what else is needed to make it again."""
        key = (seed, self.dataset, content)
        if shift in WEATHERS:
            return render(shift, subject.image, scale, key=key), {}
        # A fixed order for each content and shift: no two seeds have the same style picture.
        order = rng(self.dataset, "style-picture", content, shift).permutation(sliders.style_codes().size)
        index, strength = int(order[seed]), sliders.strength_at(shift, scale)
        image = sliders.slide(subject, shift, index, strength, (*key, shift))
        blend = sliders.blend_at(strength)
        return image, {"style_picture": index, "strength": round(strength, 3), "blend": round(blend, 3)}


@dataclass(frozen=True, kw_only=True)
class Domains:
    """Pass each content on under the domain that its album gives; `names` fixes their order."""

    code_version: ClassVar[int] = 1

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_names("domains", self.names)

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        return ()

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if sample.item.nuisance is None:
                raise InputError(
                    f"the album gives {sample.item.key} no domain: name the folder or column that gives it"
                )
            yield replace(sample, nuisance=sample.item.nuisance, severity=None)
