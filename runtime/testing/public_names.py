"""The names of the test kit, loaded when first used (`flykka.runtime.lazy_names`)."""

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
