"""Runs the job as a separate app, whose process is killed and then started again.

    python -m benchmarks.recovery.driver INPUT FOLDER SECONDS [MESSAGE COUNT [power]]

runs the app to its end, or until its process kills itself right before the COUNT-th MESSAGE. With `power` the disk
mounted at FOLDER is restored to its state at that moment. A job that completes no checkpoint for SECONDS hangs; then
standard error contains what each actor is waiting for, and the stacks of all threads.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.recovery import sales
from benchmarks.recovery.disk import Disk, fail_power
from benchmarks.recovery.moments import Moment, inject_at
from flykka import StreamExecutionEnvironment
from flykka.cluster.high_availability.file_system import FileSystemHaServices

_END_OF_LOG = 2_000
_POWER = "power"
_HANGS = 3
_RUN_S_AT_MOST = 1_800.0


def run_killed(
    source: Path, folder: Path, moment: Moment, quiet_seconds: float, disk: Disk | None = None
) -> tuple[bool, str]:
    """Run the app until it is killed, then again to its end. Return whether it was killed, and its error if it failed.

    With a disk, mounted at `folder`, the power fails at the moment.
    """
    first, text = _run(source, folder, quiet_seconds, moment, "" if disk is None else _POWER)
    if first == 0:
        return False, ""
    if first != -signal.SIGKILL:
        return True, f"exit code {first}, which is no kill: {text}"
    if disk is not None:
        disk.restore_power()
    if _has_concluded(folder):
        # A second run would be refused, because it would publish its rows again.
        return True, ""
    second, text = _run(source, folder, quiet_seconds)
    return True, "" if second == 0 else f"run again, exit code {second}: {text}"


def _has_concluded(folder: Path) -> bool:
    """Return True if the job had finished, and the app had ended normally, before the app was killed."""
    services = FileSystemHaServices(_store(folder))
    run = services.last_run()
    services.close()
    return run is not None and run.is_concluded


def _store(folder: Path) -> str:
    return str(folder / "high-availability")


def _run(
    source: Path, folder: Path, quiet_seconds: float, moment: Moment | None = None, target: str = ""
) -> tuple[int, str]:
    command = [sys.executable, "-m", "benchmarks.recovery.driver", str(source), str(folder), str(quiet_seconds)]
    if moment is not None:
        command += [moment.message, str(moment.count), target]
    # The log is outside the folder, which may be a disk whose power fails.
    log_file = folder.with_name(f"{folder.name}.log")
    with log_file.open("a+") as log:
        try:
            code = subprocess.run(command, stdout=log, stderr=log, timeout=_RUN_S_AT_MOST, check=False).returncode
        except subprocess.TimeoutExpired:
            return _HANGS, f"it hangs, and does not report: see {log_file}"
        if code == _HANGS:
            return code, f"it hangs: see {log_file}"
        log.seek(0)
        return code, log.read()[-_END_OF_LOG:]


def main(
    source: str, folder: str, seconds: str, message: str | None = None, count: str = "1", target: str = ""
) -> None:
    # If the start hangs, there is no job to query yet.
    faulthandler.dump_traceback_later(float(seconds))
    # The JVM ends with the driver, because it ends with the pipe between them.
    with StreamExecutionEnvironment.get_execution_environment(
        task_managers=2, slots_per_task_manager=2, high_availability=_store(Path(folder))
    ) as env:
        if message is not None:
            disk = Path(folder) if target == _POWER else None
            inject_at(env.cluster.system, Moment(message=message, count=int(count)), lambda: _end_this_process(disk))
        client = sales.start(env, Path(source), Path(folder))
        faulthandler.cancel_dump_traceback_later()
        try:
            sales.wait_for_end(client, float(seconds))
        except TimeoutError:
            print(client.why(), file=sys.stderr)
            faulthandler.dump_traceback()
            sys.stderr.flush()
            os._exit(_HANGS)


def _end_this_process(disk: Path | None) -> bool:
    if disk is not None:
        fail_power(disk)
    os.kill(os.getpid(), signal.SIGKILL)
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
