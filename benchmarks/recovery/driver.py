"""The job as an app of its own, whose process is killed and which is then run again.

    python -m benchmarks.recovery.driver INPUT FOLDER SECONDS [MESSAGE COUNT]

runs it to its end, or until its process kills itself at that moment. A job that has not ended after SECONDS is reported
as a hang: standard error has what each actor is waiting for, and the stacks of all threads.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.recovery import sales
from benchmarks.recovery.moments import Moment, inject_at
from flykka import StreamExecutionEnvironment

_END_OF_LOG = 2_000
_SECONDS_TO_REPORT = 20.0
_HANGS = 3
"""The exit code of a job that has not ended in time."""


def run_killed(source: Path, folder: Path, moment: Moment, seconds_at_most: float) -> tuple[bool, str]:
    """Run the app until it is killed, then again to its end: whether it was killed, and how it ended if not well."""
    first, text = _run(source, folder, seconds_at_most, moment)
    if first == 0:
        return False, ""
    if first != -signal.SIGKILL:
        return True, f"exit code {first}, which is no kill: {text}"
    second, text = _run(source, folder, seconds_at_most)
    return True, "" if second == 0 else f"run again, exit code {second}: {text}"


def _run(source: Path, folder: Path, seconds_at_most: float, moment: Moment | None = None) -> tuple[int, str]:
    job_seconds = str(seconds_at_most - _SECONDS_TO_REPORT)
    command = [sys.executable, "-m", "benchmarks.recovery.driver", str(source), str(folder), job_seconds]
    if moment is not None:
        command += [moment.message, str(moment.count)]
    with (folder / "log").open("a+") as log:
        try:
            code = subprocess.run(command, stdout=log, stderr=log, timeout=seconds_at_most, check=False).returncode
        except subprocess.TimeoutExpired:
            return _HANGS, f"it hangs, and does not report: see {folder / 'log'}"
        if code == _HANGS:
            return code, f"it hangs: see {folder / 'log'}"
        log.seek(0)
        return code, log.read()[-_END_OF_LOG:]


def main(source: str, folder: str, seconds: str, message: str | None = None, count: str = "1") -> None:
    """Run the job in this process."""
    # A start that hangs has no job to ask yet.
    faulthandler.dump_traceback_later(float(seconds) + _SECONDS_TO_REPORT / 2)
    # The driver's kill ends its Java too: what it has started lives no longer than the pipe between them.
    with StreamExecutionEnvironment.get_execution_environment(
        task_managers=2, slots_per_task_manager=2, high_availability=str(Path(folder) / "high-availability")
    ) as env:
        if message is not None:
            inject_at(env.cluster.system, Moment(message=message, count=int(count)), _end_this_process)
        client = sales.start(env, Path(source), Path(folder))
        try:
            client.wait(float(seconds))
        except TimeoutError:
            print(client.why(), file=sys.stderr)
            faulthandler.dump_traceback()
            sys.stderr.flush()
            os._exit(_HANGS)


def _end_this_process() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
