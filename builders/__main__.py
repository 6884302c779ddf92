"""`python -m builders`."""

from __future__ import annotations

import sys

from builders.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
