"""From a recipe to a packed dataset: plan, render, spool, gather, pack, build, check."""
