"""The producer half of shiftdata: makes datasets and publishes them. Run from a checkout, never installed."""
