"""Sliders of a diffusion model (CNS-Bench): one shift of one class, from the untouched picture on.

A slider is a low-rank adapter of Stable Diffusion's denoiser. Its scale says how strong the shift is.
"""

from builders.shifts.diffusion.pipeline import CODE, PAPER, Diffusion
from builders.shifts.diffusion.slider import Slider, read_slider, slider_file
from builders.shifts.diffusion.training import Training, train

__all__ = ["CODE", "PAPER", "Diffusion", "Slider", "Training", "read_slider", "slider_file", "train"]
