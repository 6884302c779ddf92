"""What is said of a dataset: card, Croissant, datasheet, pictures."""
