"""Datasets on disk and elsewhere: their format, where they lie, their rows, reading, fetching, checking."""
