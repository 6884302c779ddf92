"""`shiftdata explore`: rows of a dataset in Embedding Atlas, with filters, a map of features and predictions.

Embedding Atlas (MIT) draws; what it draws is made here: the table of rows, frozen features with a map of them
and neighbours, pictures by their bytes, a selection as keys or as filters.
"""
