"""Places of datasets: the search path, addresses of Hubs, catalogs."""
