"""The public test kit: probes, virtual time, seeded orders, faults at certain messages.

Not here: what only flykka's own tests need (`tests`). Names are loaded when first used, since the plugin is in every
run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.runtime.testing.public_names import *  # noqa: F403

    __all__: list[str]


def __getattr__(name: str) -> Any:
    from flykka.runtime.lazy_names import load

    return load(__name__, name)


def __dir__() -> list[str]:
    from flykka.runtime.lazy_names import modules_of

    return sorted({*globals(), *modules_of(__name__)})
