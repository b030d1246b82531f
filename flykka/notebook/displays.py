"""The registry of displays in IPython for objects of traces and replays, and the magic of SQL.

The rooms below know no HTML. IPython is told the names of their classes, and looks for a display when it has an object
to show: nothing is loaded before.
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
"""Of each class the function that makes its display, both as module:name."""

LINES = {
    "flykka.monitors.monitor:Violation": "builtins:str",
    "flykka.runtime.replay.session.causes:Cause": "flykka.notebook.turns:cause_text",
    "flykka.runtime.trace.state.description:Change": "builtins:str",
    # A dict, of which IPython has a text of its own.
    "flykka.runtime.trace.state.description:Fields": "flykka.notebook.turns:state_text",
}
"""Of classes that come in lists the function that says one in text."""


def register_displays() -> None:
    """Have IPython, where this process runs in it, show these objects."""
    shell = interactive_shell()
    if shell is None:
        return
    bundles, texts = shell.display_formatter.mimebundle_formatter, shell.display_formatter.formatters["text/plain"]
    for shown, display in DISPLAYS.items():
        bundles.for_type_by_name(*_parted(shown), _shows(display))
    for shown, line in LINES.items():
        texts.for_type_by_name(*_parted(shown), _prints(line))
    shell.register_magic_function(_run_sql, "cell", "flykka_sql")


def _run_sql(line: str, cell: str) -> None:
    """Run the statements of a cell in Spark's SQL; `%%flykka_sql env` names one of several environments."""
    load("flykka.notebook.sql_magic:run_cell")(line, cell)


def load(address: str) -> Any:
    """Return the object of a name, as module:name."""
    module, name = _parted(address)
    return getattr(import_module(module), name)


def _parted(address: str) -> tuple[str, str]:
    module, _, name = address.partition(":")
    return module, name


def _shows(display: str) -> Callable[[object], Bundle]:
    def show(item: object) -> Bundle:
        bundle: Bundle = load(display)(item)
        return bundle

    return show


def _prints(line: str) -> Callable[[object, Any, bool], None]:
    return lambda item, printer, _: printer.text(load(line)(item))
