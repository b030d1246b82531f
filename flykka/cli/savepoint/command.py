"""The commands of `flykka savepoint`, and their help."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_commands, describe

EPILOG = """\
PATH is the folder of a savepoint or checkpoint, or its _metadata file; addresses such
as s3://bucket/savepoints/savepoint-ab12cd-1f03a9c2-1 work too.

exit codes:
  0  success
  1  it cannot be read, is incomplete, or does not fit the app
  2  the command line is wrong
"""

_DESCRIPTION = """\
A savepoint is a folder that contains all the state of a job, and may be moved.
`flykka savepoint take` and `client.trigger_savepoint()` take one while the job keeps
running, `flykka run --savepoint-dir DIR` takes one when it is stopped with Ctrl-C.
Start a job from it with `flykka run APP.py --from-savepoint PATH`.
"""

_EXAMPLES = """\
examples:
  flykka savepoint take --address localhost:8081
  flykka savepoint inspect savepoints/savepoint-ab12cd-1f03a9c2-1
  flykka savepoint inspect savepoints/savepoint-ab12cd-1f03a9c2-1 --rows 20
  flykka savepoint verify savepoints/savepoint-ab12cd-1f03a9c2-1
  flykka savepoint check savepoints/savepoint-ab12cd-1f03a9c2-1 delays.py
  flykka savepoint check checkpoints/<job id>/chk-7 delays.py --parallelism 4
  flykka savepoint inspect --json checkpoints/<job id>/chk-7 | jq .operators
"""

_COMMANDS = {
    "take": ("flykka.cli.remote.commands:configure_take", "take one of a running job"),
    "inspect": ("flykka.cli.savepoint.inspect", "show its content"),
    "verify": ("flykka.cli.savepoint.verify", "check its files for damage"),
    "check": ("flykka.cli.savepoint.check", "check whether an app can start from it"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, f"{_EXAMPLES}\n{EPILOG}")
    add_commands(parser, _COMMANDS)
