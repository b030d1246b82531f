"""Records the golden traces anew: `python -m tests.histories.record [NAME ...]`, without names all of them.

A deliberate change of behaviour does so in its own commit, with a line in the CHANGELOG. `flights-with-a-kill` needs
Java and the libraries of the examples; the others need nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.histories.runs import RUNS

FOLDER = Path(__file__).parent


def main() -> None:
    """Record what was named. A run that does not end as it was meant to leaves the old trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], metavar="NAME", help=", ".join(RUNS))
    for name in parser.parse_args().names or RUNS:
        unfinished = FOLDER / f"{name}.trace.inprogress"
        try:
            RUNS[name](unfinished)
            unfinished.replace(FOLDER / f"{name}.trace")
        finally:
            unfinished.unlink(missing_ok=True)
        print(f"{name}: {(FOLDER / f'{name}.trace').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
