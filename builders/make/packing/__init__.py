"""Pack in parallel: a plan of the files, runs that put the spool in their order, the files themselves."""
