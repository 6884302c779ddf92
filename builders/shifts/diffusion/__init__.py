"""Sliders of a diffusion model (CNS-Bench): one shift of one class, from the untouched picture on.

A slider is a low-rank adapter of Stable Diffusion's denoiser. Its scale says how strong the shift is.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
