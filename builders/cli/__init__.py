"""The command line of the producers: one file a verb."""
