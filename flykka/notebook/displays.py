"""Registers IPython displays for objects of traces and replays, and the SQL magic.

The packages of these objects contain no HTML. IPython gets the names of their classes, and looks up a display when it
shows such an object, so that nothing is loaded earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flykka.ipython import Bundle, interactive_shell

DISPLAYS = {
    "flykka.runtime.trace.file.reader:TraceReader": "flykka.notebook.turns:trace_bundle",
    "flykka.replay.job_fork:JobFork": "flykka.notebook.runs:fork_bundle",
    "flykka.runtime.replay.fork.fork:ForkRun": "flykka.notebook.runs:fork_run_bundle",
    "flykka.runtime.trace.records:Turn": "flykka.notebook.turns:turn_bundle",
    "flykka.runtime.replay.divergence:Divergence": "flykka.notebook.runs:divergence_bundle",
    "flykka.runtime.replay.replayer:ReplayResult": "flykka.notebook.runs:result_bundle",
    "flykka.runtime.replay.session.session:ReplaySession": "flykka.notebook.turns:session_bundle",
    "flykka.runtime.replay.session.session:Step": "flykka.notebook.turns:step_bundle",
    "flykka.runtime.trace.state.description:Fields": "flykka.notebook.turns:state_bundle",
    "flykka.simulation.outcome:SimulationOutcome": "flykka.notebook.runs:simulation_bundle",
}
"""The function that creates the display of each class. Both are given as module:name."""

LINES = {
    "flykka.monitors.monitor:Violation": "builtins:str",
    "flykka.runtime.replay.session.causes:Cause": "flykka.notebook.turns:cause_text",
    "flykka.runtime.trace.state.description:Change": "builtins:str",
    # The class is a dict, which IPython would format itself.
    "flykka.runtime.trace.state.description:Fields": "flykka.notebook.turns:state_text",
}
"""For some classes, the function that formats an object within a list as text."""


def register_displays() -> None:
    shell = interactive_shell()
    if shell is None:
        return
    bundles, texts = shell.display_formatter.mimebundle_formatter, shell.display_formatter.formatters["text/plain"]
    for kind, display in DISPLAYS.items():
        bundles.for_type_by_name(*_split(kind), _display_function(display))
    for kind, line in LINES.items():
        texts.for_type_by_name(*_split(kind), _text_function(line))
    shell.register_magic_function(_run_sql, "cell", "flykka_sql")


def _run_sql(line: str, cell: str) -> None:
    """Run the statements of a cell in Spark SQL. `%%flykka_sql env` selects one of several environments."""
    load("flykka.notebook.sql_magic:run_cell")(line, cell)


def load(address: str) -> Any:
    """Return the object at an address of the form `module:name`."""
    module, name = _split(address)
    return getattr(import_module(module), name)


def _split(address: str) -> tuple[str, str]:
    module, _, name = address.partition(":")
    return module, name


def _display_function(display: str) -> Callable[[object], Bundle]:
    def show(item: object) -> Bundle:
        bundle: Bundle = load(display)(item)
        return bundle

    return show


def _text_function(line: str) -> Callable[[object, Any, bool], None]:
    return lambda item, printer, _: printer.text(load(line)(item))
