"""Which objects of traces and replays have a display in IPython, and where it is.

The rooms below know no HTML. IPython is told the names of their classes, and looks for a display when it has an object
to show: nothing is loaded before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flykka.notebook.shell import Bundle, interactive_shell

DISPLAYS = {
    "flykka.runtime.trace.reader:Trace": "flykka.notebook.trace_html:trace_bundle",
    "flykka.runtime.trace.records:Turn": "flykka.notebook.trace_html:turn_bundle",
    "flykka.runtime.trace.replay.divergence:Divergence": "flykka.notebook.replay_html:divergence_bundle",
    "flykka.runtime.trace.replay.replayer:ReplayResult": "flykka.notebook.replay_html:result_bundle",
    "flykka.runtime.trace.replay.session:ReplaySession": "flykka.notebook.replay_session_html:session_bundle",
    "flykka.runtime.trace.replay.session:Step": "flykka.notebook.replay_session_html:step_bundle",
    "flykka.simulation.outcome:SimulationOutcome": "flykka.notebook.simulation_html:simulation_bundle",
}
"""Of each class the function that makes its display, both as module:name."""


def register_displays() -> None:
    """Have IPython, where this process runs in it, show these objects."""
    shell = interactive_shell()
    if shell is None:
        return
    bundles = shell.display_formatter.mimebundle_formatter
    for shown in DISPLAYS:
        module, _, name = shown.partition(":")
        bundles.for_type_by_name(module, name, _when_shown(shown))


def display_of(shown: str) -> Callable[[object], Bundle]:
    """The function that makes the display of a class, given as module:name."""
    display: Callable[[object], Bundle] = load(DISPLAYS[shown])
    return display


def load(address: str) -> Any:
    """What is called so, as module:name."""
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)


def _when_shown(shown: str) -> Callable[[object], Bundle]:
    return lambda item: display_of(shown)(item)
