"""`flykka savepoint verify`: every file of a savepoint or a checkpoint compared with what was written."""

from __future__ import annotations

import argparse
import sys

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.savepoint.command import EPILOG
from flykka.client.checkpoints import read_checkpoint, verify_checkpoint
from flykka.errors import CheckpointError
from flykka.views.text.formats import format_bytes, format_count

_DESCRIPTION = """\
Read every file of a savepoint or a checkpoint, and compare it with the digest that
was computed when it was written; so are files that sinks have staged, unless they
were published since. Each one that is missing, damaged, cut off or was not there
is printed with its path. A job that starts from it does the same with the
files that it reads. Spark is not started.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("path", metavar="PATH", help="the savepoint")
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    try:
        verified = verify_checkpoint(read_checkpoint(arguments.path))
    except CheckpointError as unreadable:
        return fail(f"flykka savepoint: {unreadable}", FAILED)
    for damage in verified.damages:
        print(f"- {damage}")
    files = "file" if verified.files == 1 else "files"
    looked_at = f"{format_count(verified.files)} {files} of state, {format_bytes(verified.size_bytes)}"
    if verified.staged_files:
        looked_at += f", and {format_count(verified.staged_files)} that sinks have staged"
    if verified.without_digests:
        print(
            f"flykka savepoint: {verified.without_digests} of its files and folders have no digest, as an older flykka"
            " has written them: at most their sizes were compared",
            file=sys.stderr,
        )
    outcome = f"{len(verified.damages)} damaged or missing" if verified.damages else "all as they were written"
    print(f"{verified.path}: {looked_at}: {outcome}")
    return FAILED if verified.damages else OK
