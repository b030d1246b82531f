"""The public test kit: probes, virtual time, seeded orders, faults at certain messages.

Not here: helpers of flykka's own tests (`tests`). Names are loaded on first use: the plugin is part of every run.
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
