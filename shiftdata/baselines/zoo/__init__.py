"""Methods beside the first-class ones: one small file each over `shiftdata.baselines.losses`."""
