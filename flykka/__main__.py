"""Runs the command line as `python -m flykka`, for environments in which its script is not on the path."""

from __future__ import annotations

import sys

from flykka.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
