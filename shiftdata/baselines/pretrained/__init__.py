"""Models that come trained: sources of them, heads over their features, predictions of a task."""
