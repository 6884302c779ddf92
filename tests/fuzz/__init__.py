"""Generated attacks on every door: requests, manifests, catalogs, places; long runs: `make test-slow`."""
