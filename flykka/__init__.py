"""The public API: Flink-style jobs as Pykka actors, with their data on Spark.

Not here: definitions. The names in `public_names` are loaded when first used, and actors and pyspark with them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import flykka.state as state  # noqa: F401 - a namespace of its own, not one of the names
    from flykka.public_names import *  # noqa: F403

    __all__: list[str]

_NAMESPACES = ("state",)
"""Modules whose functions are called by qualified names, such as `flykka.state.read`."""


# Hidden from type checkers, which would otherwise accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _NAMESPACES:
            return import_module(f"{__name__}.{name}")
        from flykka.runtime.lazy_names import load, modules_of

        if name != "__all__" and name not in modules_of(__name__):
            raise _no_such_name(name)
        return load(__name__, name)


def _no_such_name(name: str) -> AttributeError | ImportError:
    from flykka.api.migration_hints import import_hint

    if (hint := import_hint(name)) is None:
        return AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # `from flykka import ...` tests whether the name exists, and would discard the message of an AttributeError.
    if sys._getframe(2).f_code.co_name == "_handle_fromlist":
        return ImportError(f"cannot import name {name!r} from {__name__!r}: {hint}", name=__name__)
    return AttributeError(f"module {__name__!r} has no attribute {name!r}: {hint}", name=name)


def __dir__() -> list[str]:
    from flykka.runtime.lazy_names import modules_of

    return sorted({*globals(), *modules_of(__name__)})


# All packages have objects with displays, and this module is imported before any of these packages.
if "IPython" in sys.modules:
    import_module(f"{__name__}.notebook.displays").register_displays()
