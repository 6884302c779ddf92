"""Noise fields and palettes, shared by styles, weather and contexts."""
