"""Descriptions of a dataset: card, Croissant, datasheet, pictures."""
