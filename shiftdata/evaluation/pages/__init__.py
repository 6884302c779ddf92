"""The shell, the style and common templates of all pages."""
