"""Which objects of traces and replays have a display in IPython, and where it is.

The rooms below know no HTML. IPython is told the names of their classes, and looks for a display when it has an object
to show: nothing is loaded before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from flykka.notebook.shell import Bundle, interactive_shell

_DISPLAYS = {
    "flykka.runtime.trace.reader:Trace": "trace_html:trace_bundle",
    "flykka.runtime.trace.records:Turn": "trace_html:turn_bundle",
}
"""Class and function, each as module:name; the functions are in this folder."""


def register_displays() -> None:
    """Have IPython, where this process runs in it, show these objects."""
    shell = interactive_shell()
    if shell is None:
        return
    bundles = shell.display_formatter.mimebundle_formatter
    for shown, display in _DISPLAYS.items():
        module, _, name = shown.partition(":")
        bundles.for_type_by_name(module, name, _display(display))


def _display(address: str) -> Callable[[object], Bundle]:
    def show(item: object) -> Bundle:
        module, _, name = address.partition(":")
        bundle: Bundle = getattr(import_module(f"flykka.notebook.{module}"), name)(item)
        return bundle

    return show
