"""Contexts: procedural scenes round a cut-out, common domains and those of a class alone."""
