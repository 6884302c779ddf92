"""Train a slider: a denoiser learns to see a shift where its prompt names the class alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from builders.shifts.diffusion.pipeline import Diffusion
from builders.shifts.diffusion.slider import Slider
from shiftdata.errors import InputError
from shiftdata.files import whole_file
from shiftdata.stable import content_hash, hash64, rng

if TYPE_CHECKING:
    from torch import Tensor

#: The prompts (without the shift, with it) of CNS-Bench's paper, and of its published code.
PROMPTS = {
    "paper": ("A picture of a {label}", "A picture of a {label} in {shift}"),
    "code": ("{label}", "{label}, in {shift}"),
}
FINE = 1000  # the noise levels of the model


@dataclass(frozen=True, kw_only=True)
class Training:
    """The settings of a slider's training. Where the paper is silent, the defaults are its published code's.

    Each step denoises to a random level with the slider on, at a guidance of 7.5, and there brings what the
    slider says near to `neutral + pull (with the shift - without it)` of the bare model.
    """

    variant: Literal["paper", "code"] = "paper"
    iterations: int = 400
    lr: float = 2e-4
    batch: int = 16
    rank: int = 4
    alpha: float = 1.0
    levels: int = 50
    guidance: float = 7.5
    pull: float = 4.0
    every: int = 50  # steps between two saved states, from which a stopped training goes on

    def __post_init__(self) -> None:
        if self.variant not in PROMPTS:
            raise InputError(f"variant must be one of {', '.join(PROMPTS)}, got {self.variant!r}")
        if min(self.iterations, self.batch, self.rank, self.every) < 1 or self.lr <= 0 or self.levels < 2:
            raise InputError(
                "iterations, batch, rank and every are at least 1, levels at least 2, lr above 0; got "
                f"{self.iterations}, {self.batch}, {self.rank}, {self.every}, {self.levels}, {self.lr}"
            )

    def prompts(self, label: str, shift: str) -> tuple[str, str]:
        """Of the class alone, and of the class in the shift."""
        named = {"label": label.replace("_", " "), "shift": shift.replace("_", " ")}
        without, within = PROMPTS[self.variant]
        return without.format(**named), within.format(**named)


def train(
    diffusion: Diffusion,
    label: str,
    shift: str,
    output: Path,
    training: Training | None = None,
    *,
    on_step: Callable[[int, float], object] = lambda step, loss: None,
) -> Path:
    """Train the slider of a class and a shift into a file; a training that was stopped goes on.

    Each step draws by its number alone, so that it ends in the same weights wherever it was stopped (on a
    GPU: nearly the same).
    """
    training = training or Training()
    if output.is_file():
        return output
    trainer = _Trainer(diffusion, label, shift, training)
    state = output.with_name(f"{output.name}.state")
    first = trainer.resumed(state)
    for step in range(first, training.iterations):
        loss = trainer.step(step)
        on_step(step, loss)
        if (step + 1) % training.every == 0 and step + 1 < training.iterations:
            trainer.save(state, step + 1)
    about = {"shift": shift, "label": label, "pipeline": diffusion.weights_id(), **asdict(training)}
    trainer.slider.write(output, about | {"losses": [round(loss, 6) for loss in trainer.losses]})
    state.unlink(missing_ok=True)
    return output


class _Trainer:
    def __init__(self, diffusion: Diffusion, label: str, shift: str, training: Training) -> None:
        torch = diffusion.torch
        self.diffusion, self.training = diffusion, training
        self.names = ("slider", label, shift)
        self.unet = diffusion.networks.unet
        new = Slider.new(
            self.unet,
            torch.Generator().manual_seed(self._seed("weights")),
            rank=training.rank,
            alpha=training.alpha,
        )
        # Weights and their optimizer in full precision, whatever the model computes in.
        self.slider = new.to(diffusion.place, torch.float32)
        for parameter in self.slider.parameters:
            parameter.requires_grad_()
        self.optimizer = torch.optim.AdamW(self.slider.parameters, lr=training.lr)
        self.losses: list[float] = []
        without, within = training.prompts(label, shift)
        with diffusion.working(str(without), "take a smaller model"):
            self.nothing, self.neutral, self.positive = (
                one.repeat(training.batch, 1, 1)
                for one in diffusion.texts(["", without, within]).unsqueeze(1)
            )
        # Tokens, not embeddings: those of one text differ in their last bits with its place in a batch.
        tokens = diffusion.tokens([without, within])
        if tokens[0].equal(tokens[1]):
            raise InputError(
                f"the model reads {within!r} as it reads {without!r}: the shift says nothing, or stands "
                f"beyond the {self.neutral.shape[1]} tokens that it reads"
            )
        self.id = content_hash(
            diffusion.weights_id(),
            diffusion.device,
            diffusion.precision,
            str(diffusion.size),
            repr(training),
            *self.names,
        )

    def _seed(self, *names: str | int) -> int:
        return hash64(*self.names, *names) >> 1

    def step(self, step: int) -> float:
        training, diffusion = self.training, self.diffusion
        advice = f"train in smaller batches (batch={training.batch} now), or at a smaller size"
        with diffusion.working(
            f"{training.batch} pictures of {diffusion.size} pixels", advice, gradients=True
        ):
            loss = self._loss(step)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self.losses.append(float(loss.detach()))
        return self.losses[-1]

    def _loss(self, step: int) -> Tensor:
        torch, training = self.diffusion.torch, self.training
        count = int(rng(*self.names, "level", step).integers(1, training.levels))
        with torch.no_grad():
            latents, t = self._denoised(step, count), self._level(count)
            neutral = self.diffusion.predicted(latents, t, self.neutral)
            positive = self.diffusion.predicted(latents, t, self.positive)
            wanted = neutral + training.pull * (positive - neutral)
        with self._on():
            predicted = self.diffusion.predicted(latents, t, self.neutral)
        loss: Tensor = (predicted - wanted).float().square().mean()
        return loss

    def _on(self) -> Any:
        kind, place = self.diffusion.kind, self.diffusion.place
        scales = self.diffusion.torch.ones(self.training.batch, device=place)
        return self.slider.to(place, kind).on(self.unet, scales)

    def _denoised(self, step: int, count: int) -> Tensor:
        diffusion, training = self.diffusion, self.training
        scheduler = diffusion.new_scheduler(training.levels)
        noise = diffusion.noise(self._seed("noise", step), training.batch)
        latents: Tensor = noise * scheduler.init_noise_sigma
        with self._on():
            for t in scheduler.timesteps[:count]:
                read = scheduler.scale_model_input(latents, t)
                noise = diffusion.guided(read, t, self.nothing, self.neutral, training.guidance)
                latents = scheduler.step(noise, t, latents).prev_sample
        return latents

    def _level(self, count: int) -> Any:
        """The noise level after `count` steps, on the model's own fine scale."""
        scheduler = self.diffusion.new_scheduler(FINE)
        return scheduler.timesteps[int(count * FINE / self.training.levels)]

    def save(self, path: Path, step: int) -> None:
        torch = self.diffusion.torch
        state = {
            "id": self.id,
            "step": step,
            "losses": self.losses,
            "weights": [parameter.detach().cpu() for parameter in self.slider.parameters],
            "optimizer": self.optimizer.state_dict(),
        }
        with whole_file(path) as temporary:
            torch.save(state, temporary)

    def resumed(self, path: Path) -> int:
        torch = self.diffusion.torch
        if not path.is_file():
            return 0
        state = torch.load(path, map_location=self.diffusion.place, weights_only=True)
        if state["id"] != self.id:
            raise InputError(
                f"{path} is the state of another training (other settings, weights or device): give another "
                "folder, or remove it to start again"
            )
        with torch.no_grad():
            for parameter, saved in zip(self.slider.parameters, state["weights"], strict=True):
                parameter.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses = list(state["losses"])
        return int(state["step"])
