"""The first job of an app: from the cache if nothing has changed since, otherwise by a dry run.

Plans are cached in the user's cache folder. A cached plan is used if the app, its arguments, the options, the working
folder, the installed packages and all files that the app has read (`app_inputs`) are the same. A program may depend on
more: an environment variable whose name is computed, the clock, a database. Therefore the user is informed that a plan
is cached, and only plans are taken from the cache: `flykka run` never uses it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

import flykka
from flykka.api.launch import LaunchOptions
from flykka.cli.dry_run.app_inputs import AppInput, AppInputs, digest_of, environment_digest
from flykka.cli.run.app import App
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.message import Value, value
from flykka.spark_bridge.session.cache_folder import cache_folder
from flykka.views.plan.program_plan import ProgramPlan

_SUFFIX = ".plan"
_LIMIT = 200
"""The maximum number of cached plans. The oldest ones are deleted."""
_OF_SPARK = ("SPARK_", "PYSPARK_", "HADOOP_", "JAVA_")


@value("plan.cached")
class CachedPlan(Value):
    """The plan and graph of an app's first job, created at `made_ms` since the epoch, and the files that it read."""

    made_ms: int
    inputs: tuple[AppInput, ...]
    environment: str
    plan: ProgramPlan
    job_graph: JobGraph


class PlanCache:
    def __init__(self, app: App, options: LaunchOptions) -> None:
        self._file = cache_folder() / "plans" / f"{_key(app, options)}{_SUFFIX}"

    def find(self) -> CachedPlan | None:
        try:
            cached = decode(self._file.read_bytes())
        except (OSError, DecodeError):
            return None
        if not isinstance(cached, CachedPlan) or any(digest_of(each.path) != each.digest for each in cached.inputs):
            return None
        return cached if environment_digest(cached.inputs) == cached.environment else None

    def store(self, plan: ProgramPlan, job_graph: JobGraph, inputs: tuple[AppInput, ...]) -> None:
        """Write errors are ignored."""
        cached = CachedPlan(
            made_ms=time.time_ns() // 1_000_000,
            inputs=inputs,
            environment=environment_digest(inputs),
            plan=plan,
            job_graph=job_graph,
        )
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._file.parent, delete=False) as temporary:
                temporary.write(encode(cached))
            os.replace(temporary.name, self._file)
            by_age = sorted(self._file.parent.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
            for file in by_age[:-_LIMIT]:
                file.unlink()


def _key(app: App, options: LaunchOptions) -> str:
    """Return a digest of the inputs that are known before the app runs, except options for restoring state."""
    inputs = (
        (os.path.abspath(app.path), *app.arguments),
        sorted((name, repr(value)) for name, value in options.all_values().items()),
        os.getcwd(),
        (sys.executable, sys.version),
        _installed(),
        _flykka(),
        sorted((name, text) for name, text in os.environ.items() if name.startswith(_OF_SPARK)),
    )
    return hashlib.sha256(repr(inputs).encode("utf-8", "surrogateescape")).hexdigest()


def _installed() -> list[str]:
    there = [entry for folder in sys.path if os.path.isdir(folder) for entry in os.listdir(folder)]
    return sorted(entry for entry in there if entry.endswith((".dist-info", ".egg-info")))


def _flykka() -> list[tuple[str, int, int]]:
    """Return the files of flykka, because a change of its sources does not change its version."""
    root = Path(flykka.__file__).parent
    files = (Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names)
    stats = ((str(file), file.stat()) for file in files if file.suffix == ".py")
    return sorted((file, status.st_mtime_ns, status.st_size) for file, status in stats)


def first_job(
    app: App, options: LaunchOptions, *, verbose: bool = False, cached: bool = True
) -> tuple[ProgramPlan, JobGraph] | int:
    """Return the plan and the graph of the app's first job. If there is no job, print the reason and return the exit
    code.

    A new plan is cached even if `cached` is False, unless Spark has read data for it: a schema inferred from files may
    change.
    """
    cache = PlanCache(app, options)
    if cached and (plan := cache.find()) is not None:
        print(
            f"flykka: {app.path} was cached {_time_text(plan.made_ms)}; --no-cache runs the app again", file=sys.stderr
        )
        return plan.plan, plan.job_graph
    # Imported here because loading PySpark takes a second, and a cached plan does not need it.
    from flykka.cli.dry_run.dry_run import DryRun, dry_run

    launch = DryRun(options)
    with AppInputs(app.path, time.time_ns()) as inputs:
        job = dry_run(app, launch, verbose=verbose)
    if not isinstance(job, int) and not launch.read_data and (read := inputs.read()) is not None:
        cache.store(*job, read)
    return job


def _time_text(made_ms: int) -> str:
    time_made = datetime.fromtimestamp(made_ms / 1000).astimezone()
    return (
        f"at {time_made:%H:%M}"
        if time_made.date() == datetime.now().astimezone().date()
        else f"on {time_made:%Y-%m-%d at %H:%M}"
    )
