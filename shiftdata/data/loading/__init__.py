"""Data for training and evaluation: plain datasets, bytes of rows, batches, tars."""
