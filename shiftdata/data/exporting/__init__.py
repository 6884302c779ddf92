"""A dataset in the layout that other code reads: folders of pictures, WebDataset tars."""
