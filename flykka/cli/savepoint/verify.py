"""`flykka savepoint verify`: compares every file of a savepoint or checkpoint with its digest."""

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
Read every file of a savepoint or checkpoint, and compare it with the digest that was
computed when it was written, including files that sinks have staged, unless they have
been published since. Files that are missing, damaged, truncated or unexpected are
printed with their paths. A job that starts from it checks the files that it reads in
the same way. Spark is not started.
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
        looked_at += f", and {format_count(verified.staged_files)} staged by sinks"
    if verified.without_digests:
        print(
            f"flykka savepoint: {verified.without_digests} of its files and folders have no digest, because an older"
            " flykka has written them: at most their sizes were compared",
            file=sys.stderr,
        )
    outcome = f"{len(verified.damages)} damaged or missing" if verified.damages else "all undamaged"
    print(f"{verified.path}: {looked_at}: {outcome}")
    return FAILED if verified.damages else OK
