"""The methods that are not first-class, by family, over `shiftdata.baselines.losses`."""
