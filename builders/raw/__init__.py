"""Public datasets as their authors' archives lay them out, on the user's disk: one small file a layout."""
