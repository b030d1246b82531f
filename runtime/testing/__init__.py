"""The public test kit: probes, virtual time, orders drawn from a seed, faults placed by message, failures expected.

Its names are loaded when they are first used, so that the pytest plugin costs a run nothing that uses none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.runtime.dispatch.seeded import SeededDispatcher as SeededDispatcher
    from flykka.runtime.testing.faults import PlannedKill as PlannedKill
    from flykka.runtime.testing.faults import kill_when as kill_when
    from flykka.runtime.testing.probe import TestProbe as TestProbe
    from flykka.runtime.testing.replays import assert_replays as assert_replays
    from flykka.runtime.testing.replays import replay_cases as replay_cases
    from flykka.runtime.testing.seeded import SeededSystem as SeededSystem
    from flykka.runtime.testing.systems import ExpectedFailure as ExpectedFailure
    from flykka.runtime.testing.systems import TestActorSystem as TestActorSystem
    from flykka.runtime.testing.systems import TestSeededSystem as TestSeededSystem
    from flykka.runtime.time.manual_clock import ManualClock as ManualClock

_MODULES = {
    "ExpectedFailure": "testing.systems",
    "ManualClock": "time.manual_clock",
    "PlannedKill": "testing.faults",
    "SeededDispatcher": "dispatch.seeded",
    "SeededSystem": "testing.seeded",
    "TestActorSystem": "testing.systems",
    "TestProbe": "testing.probe",
    "TestSeededSystem": "testing.systems",
    "assert_replays": "testing.replays",
    "kill_when": "testing.faults",
    "replay_cases": "testing.replays",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"flykka.runtime.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
