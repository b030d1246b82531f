"""`flykka history`: serves the web page and the REST interface for ended jobs, from their archives."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from types import FrameType

from flykka.api.configuration.option import OptionGroup
from flykka.api.configuration.options import OPTIONS
from flykka.api.configuration.rest_settings import rest_settings
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.launch_options import add_option, option_values
from flykka.client.directories import absolute_directory
from flykka.errors import ClusterError, ConfigurationError
from flykka.rest.errors import RestError
from flykka.spark_bridge.errors import MissingExtraError

PORT = 8082

_DESCRIPTION = """\
Show ended jobs: serve the web page and the REST interface as they were while the
jobs ran, from the archive that each job writes at its end. Archives are found in DIR
and below it, including later ones; DIR may be a checkpoint folder. All access is
read-only.
"""

_EPILOG = f"""\
A job writes its archive to `archives` in its checkpoint folder, if one is set, or to
the directory set by env.set_archive_dir(...) or `flykka run --archive-dir`.

examples:
  flykka history /data/checkpoints
  flykka history s3://bucket/archives --rest 0.0.0.0:{PORT} --rest-token-file token

exit codes:
  0  ended by Ctrl-C or SIGTERM
  1  there is no such folder, or the address cannot be used
  2  the command line is wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("directory", metavar="DIR", help="a folder, or an address such as s3://bucket/archives")
    group = parser.add_argument_group("the server")
    for option in OPTIONS.values():
        if option.group is OptionGroup.REST:
            add_option(group, option, str(PORT) if option.name == "rest" else option.meaning.default)
    group = parser.add_argument_group("logs")
    what = "the URL of the driver log of a job; <jobid> stands for its id, as in http://logs/<jobid>"
    group.add_argument("--log-url", metavar="PATTERN", help=f"{what} (default: no link)")
    what = "the URL of the log of a TaskManager; <jobid> and <tmid> stand for the ids"
    group.add_argument("--task-manager-log-url", metavar="PATTERN", help=f"{what} (default: no link)")
    parser.set_defaults(run=serve_history, parser=parser)


def serve_history(options: argparse.Namespace) -> int:
    try:
        settings = rest_settings({"rest": str(PORT), **option_values(options)}, "flykka history")
    except (ConfigurationError, MissingExtraError) as refused:
        options.parser.error(str(refused))
    assert settings is not None, "the address has no default"
    # Imported here because these modules need an optional extra.
    from flykka.rest.handlers.log_urls import LogUrls
    from flykka.rest.history_gateway import HistoryGateway
    from flykka.rest.server import RestServer

    try:
        log_urls = LogUrls(job_manager=options.log_url, task_manager=options.task_manager_log_url)
    except ValueError as refused:
        options.parser.error(str(refused))
    try:
        gateway = HistoryGateway(absolute_directory(options.directory), _now_ms)
        number = len(gateway.jobs())
        server = RestServer(settings)
    except (ClusterError, RestError) as refused:
        return fail(f"flykka history: {refused}", FAILED)
    server.start_history(gateway, log_urls)
    jobs = "1 job has" if number == 1 else f"{number or 'no'} jobs have"
    print(f"the history of {gateway.history_of} is at {server.address} ({jobs} ended); Ctrl-C ends this", flush=True)
    _wait_for_end()
    server.close()
    return OK


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _wait_for_end() -> None:
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
