"""Comparisons of `shiftdata.losses` with other packages and with plain loops."""
