"""`flykka class-archive`: has the classes that Spark loads recorded, once for a Java and a Spark."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK, fail

_DESCRIPTION = """\
Record the classes that Spark loads, so that it starts in about half the time: every
later run, plan, notebook and script of yours with the same Java and the same Spark
maps them from one file instead of reading them from Spark's jars (Java calls it
class data sharing). A small job is run for it, which takes about 20 seconds.

The file, of some 200 MB, is in $FLYKKA_CACHE_DIR, else in flykka/ below
$XDG_CACHE_HOME, else in ~/.cache/flykka, and may be removed at any time. Java does
not use it where it does not fit.
"""

_TRAINING = "flykka.cli.class_archive_training"


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, allow_abbrev=False)
    parser.set_defaults(run=_record)


def _record(arguments: argparse.Namespace) -> int:
    # Loading it takes half a second, which `--help` should not have to wait for.
    from flykka.spark_bridge.session.class_archive import class_archive

    archive = class_archive()
    if archive is None:
        return fail("flykka class-archive: no Java in JAVA_HOME or on PATH", FAILED)
    if archive.exists():
        print(f"Spark's classes are recorded already: {archive}")
        return OK
    print("recording the classes that Spark loads, which takes about 20 seconds", flush=True)
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Of two that record at a time the later one replaces a whole file by a whole file.
    written = archive.with_suffix(f".{os.getpid()}")
    try:
        training = subprocess.run(
            [sys.executable, "-m", _TRAINING, str(written)], capture_output=True, text=True, check=False
        )
        if training.returncode != 0 or not written.exists():
            print(f"flykka class-archive: nothing was recorded\n{training.stderr}", end="", file=sys.stderr)
            return FAILED
        os.replace(written, archive)
    finally:
        written.unlink(missing_ok=True)
    print(f"Spark starts faster from now on: {archive.stat().st_size >> 20} MiB in {archive}")
    return OK
