"""Where datasets lie: the search path, addresses of Hubs, catalogs."""
