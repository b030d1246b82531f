"""What several commands take on their command lines, read from its text."""

from __future__ import annotations

import argparse


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add `--import`: what a replay needs where no actor of the trace imports it."""
    modules = "import this module first: one that declares messages; may be given several times"
    parser.add_argument("--import", dest="modules", metavar="MODULE", action="append", default=[], help=modules)


def at_least_one(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add the option of all commands that can do with the plan of an app as it was seen before."""
    parser.add_argument(
        "--no-cache", action="store_true", help="run the app up to its first execute(), also where its plan is kept"
    )
