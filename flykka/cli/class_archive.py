"""`flykka class-archive`: records the classes that Spark loads, once per version of Java and Spark."""

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

The file of about 200 MB is in $FLYKKA_CACHE_DIR, else in flykka/ below
$XDG_CACHE_HOME, else in ~/.cache/flykka, and may be deleted at any time. Java
ignores it if it does not fit.
"""

_TRAINING = "flykka.cli.class_archive_training"


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, allow_abbrev=False)
    parser.set_defaults(run=_record)


def _record(arguments: argparse.Namespace) -> int:
    # Imported here because the import takes half a second, which `--help` should not wait for.
    from flykka.spark_bridge.session.class_archive import class_archive

    archive = class_archive()
    if archive is None:
        return fail("flykka class-archive: no Java in JAVA_HOME or on PATH", FAILED)
    if archive.exists():
        print(f"Spark's classes are recorded already: {archive}")
        return OK
    print("recording the classes that Spark loads, which takes about 20 seconds", flush=True)
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Each of two concurrent recordings replaces a complete file with a complete file.
    new = archive.with_suffix(f".{os.getpid()}")
    try:
        training = subprocess.run(
            [sys.executable, "-m", _TRAINING, str(new)], capture_output=True, text=True, check=False
        )
        if training.returncode != 0 or not new.exists():
            print(f"flykka class-archive: recording the classes failed\n{training.stderr}", end="", file=sys.stderr)
            return FAILED
        os.replace(new, archive)
    finally:
        new.unlink(missing_ok=True)
    print(f"Spark starts faster from now on: {archive.stat().st_size >> 20} MiB in {archive}")
    return OK
