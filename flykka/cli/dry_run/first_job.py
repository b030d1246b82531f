"""The first job of an app: as it was seen before, where nothing has changed since, else by a dry run.

Plans are kept in the user's cache folder. One is found again where the app, its arguments, the options, the working
folder, the installed packages and all that the app has read (`app_inputs`) are the same. That is less than all that a
program may depend on: an environment variable whose name is put together, the clock, a database. So the user is told
that a plan was kept, and nothing that runs rests on one: `flykka run` looks for itself.
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
_KEPT = 200
"""Plans: the oldest one goes when there are more."""
_OF_SPARK = ("SPARK_", "PYSPARK_", "HADOOP_", "JAVA_")


@value("plan.cached")
class CachedPlan(Value):
    """The plan and the graph of an app's first job as they were at `made_ms` (Unix time), and what the app had read."""

    made_ms: int
    inputs: tuple[AppInput, ...]
    environment: str
    plan: ProgramPlan
    job_graph: JobGraph


class PlanCache:
    """The cached plan of one app with these options."""

    def __init__(self, app: App, options: LaunchOptions) -> None:
        self._file = cache_folder() / "plans" / f"{_key(app, options)}{_SUFFIX}"

    def find(self) -> CachedPlan | None:
        """The plan, where nothing that it was made of has changed."""
        try:
            cached = decode(self._file.read_bytes())
        except (OSError, DecodeError):
            return None
        if not isinstance(cached, CachedPlan) or any(digest_of(each.path) != each.digest for each in cached.inputs):
            return None
        return cached if environment_digest(cached.inputs) == cached.environment else None

    def keep(self, plan: ProgramPlan, job_graph: JobGraph, inputs: tuple[AppInput, ...]) -> None:
        """Keep a plan that was made now; where that cannot be written, there is none to find."""
        cached = CachedPlan(
            made_ms=time.time_ns() // 1_000_000,
            inputs=inputs,
            environment=environment_digest(inputs),
            plan=plan,
            job_graph=job_graph,
        )
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._file.parent, delete=False) as written:
                written.write(encode(cached))
            os.replace(written.name, self._file)
            by_age = sorted(self._file.parent.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
            for file in by_age[:-_KEPT]:
                file.unlink()


def _key(app: App, options: LaunchOptions) -> str:
    """All that decides about a plan and is known before the app has run; how state may be restored does not."""
    known = (
        (os.path.abspath(app.path), *app.arguments),
        sorted((name, repr(value)) for name, value in options.all_values().items()),
        os.getcwd(),
        (sys.executable, sys.version),
        _installed(),
        _flykka(),
        sorted((name, text) for name, text in os.environ.items() if name.startswith(_OF_SPARK)),
    )
    return hashlib.sha256(repr(known).encode("utf-8", "surrogateescape")).hexdigest()


def _installed() -> list[str]:
    """The packages that can be imported, with their versions, as their folders are called."""
    there = [entry for folder in sys.path if os.path.isdir(folder) for entry in os.listdir(folder)]
    return sorted(entry for entry in there if entry.endswith((".dist-info", ".egg-info")))


def _flykka() -> list[tuple[str, int, int]]:
    """The files of flykka: one that is run from its sources has the same version before and after an edit."""
    root = Path(flykka.__file__).parent
    files = (Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names)
    stats = ((str(file), file.stat()) for file in files if file.suffix == ".py")
    return sorted((file, found.st_mtime_ns, found.st_size) for file, found in stats)


def first_job(
    app: App, options: LaunchOptions, *, verbose: bool = False, cached: bool = True
) -> tuple[ProgramPlan, JobGraph] | int:
    """The plan and the graph of the app's first job; where it makes none that is told, and the exit code is given.

    One that is not to come from the cache goes there all the same, unless Spark has read data for it: a schema that
    was taken from files may be another one tomorrow.
    """
    cache = PlanCache(app, options)
    if cached and (found := cache.find()) is not None:
        print(f"flykka: {app.path} as seen {_when(found.made_ms)}; --no-cache looks again", file=sys.stderr)
        return found.plan, found.job_graph
    # Spark's packages take a second to load, and a plan that is known needs none of them.
    from flykka.cli.dry_run.dry_run import DryRun, dry_run

    launch = DryRun(options)
    with AppInputs(app.path, time.time_ns()) as inputs:
        made = dry_run(app, launch, verbose=verbose)
    if not isinstance(made, int) and not launch.read_data and (read := inputs.read()) is not None:
        cache.keep(*made, read)
    return made


def _when(made_ms: int) -> str:
    made = datetime.fromtimestamp(made_ms / 1000).astimezone()
    return f"at {made:%H:%M}" if made.date() == datetime.now().astimezone().date() else f"on {made:%Y-%m-%d at %H:%M}"
