"""`shiftdata serve`: a server with the Hub's protocol, for existing folders and for what clients upload."""
