"""`shiftdata serve`: a server with the Hub's protocol, for folders of datasets. It only reads."""
