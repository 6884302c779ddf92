"""Fetch a dataset, or a part of it, from the first of its places that has it, and check every byte."""
