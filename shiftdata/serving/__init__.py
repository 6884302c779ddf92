"""A server with the protocol of the Hub, for a lab: existing folders, and repos that clients upload."""
