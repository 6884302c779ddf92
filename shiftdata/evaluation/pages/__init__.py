"""What every page shares: the shell, the style, templates of common parts, heat maps."""
