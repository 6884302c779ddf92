"""Shifts of examples: styles, contexts, weather, corruptions, domains, continuous severities.

Raise a step's `code_version` whenever it gives other pixels: a golden picture (tests/golden) fails otherwise.
"""
