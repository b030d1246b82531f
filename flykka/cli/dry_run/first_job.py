"""The first job of an app: as it was seen before, where nothing has changed since, else by a dry run."""

from __future__ import annotations

import sys
import time
from datetime import datetime

from flykka.api.launch import LaunchOptions
from flykka.cli.dry_run.app_inputs import AppInputs
from flykka.cli.dry_run.plan_cache import PlanCache
from flykka.cli.run.app import App
from flykka.messages.graph.job_graph import JobGraph
from flykka.views.plan.program_plan import ProgramPlan


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
