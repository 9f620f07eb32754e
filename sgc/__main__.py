"""`python -m sgc`: the command line."""

from __future__ import annotations

import sys

from sgc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
