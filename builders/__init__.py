"""The producer half of shiftdata: makes datasets and publishes them, by `pip install "shiftdata[build]"`."""
