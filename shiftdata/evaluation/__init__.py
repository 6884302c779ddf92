"""From rows to figures: protocols make tasks, samplers choose rows, predictions are judged."""
