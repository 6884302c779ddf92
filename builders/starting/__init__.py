"""The start of a dataset: look at somebody's data, ask what only they know, write a recipe."""
