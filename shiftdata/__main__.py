"""`python -m shiftdata`: the command line, where its script is not on the PATH."""

from __future__ import annotations

import sys

from shiftdata.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
