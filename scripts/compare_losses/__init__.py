"""Comparisons of `shiftdata.baselines.losses` with other packages and with plain loops."""
