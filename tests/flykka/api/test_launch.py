"""Launch options override an app's settings, but only those that they set."""

from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console as RichConsole

from flykka.api.configuration.rest_settings import rest_settings
from flykka.api.job_settings import JobSettings
from flykka.api.launch import Launch, LaunchOptions, current_launch, launched
from flykka.client.start_settings import StartSettings
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.console.event_lines import Console
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.flykka.api.without_spark import without_spark
from tests.flykka.client.one_job import status
from tests.runtime.scripted_actors import scripted_actor

APP = {"task_managers": 3, "slots_per_task_manager": 2, "record": "app.trace"}


def cluster_settings(launch: Launch) -> ClusterSettings:
    """Return the cluster settings of another environment, whose app sets `APP`."""
    options = launch.environment_options()
    options.set_options(APP)
    return options.cluster_settings()


def app_settings() -> JobSettings:
    env = without_spark().set_parallelism(2).enable_checkpointing("1s", timeout="1min")
    return env.set_checkpoint_dir("/of/the/app").job_settings


def overridden(launch: Launch, number: int = 1) -> list[JobSettings]:
    options = launch.environment_options()
    return [launch.overridden(app_settings(), options.overrides) for _ in range(number)]


def test_app_settings_apply_without_launch_options() -> None:
    launch = Launch()

    assert overridden(launch) == [app_settings()]
    assert cluster_settings(launch) == ClusterSettings(task_managers=3, slots_per_task_manager=2, record="app.trace")


def test_launch_options_of_the_cluster_override_the_app() -> None:
    said = {"master": "local[7]", "task_managers": 5, "slots_per_task_manager": 4, "record": "run.trace"}

    launch = Launch(LaunchOptions(values=said))

    assert launch.environment_options().master() == "local[7]"
    assert cluster_settings(Launch(LaunchOptions(values=said))) == ClusterSettings(
        task_managers=5, slots_per_task_manager=4, record="run.trace"
    )


def test_every_environment_is_recorded_in_its_own_file() -> None:
    launch = Launch(LaunchOptions(values={"record": "/traces/run.trace"}))

    files = [cluster_settings(launch).record for _ in range(3)]

    assert files == ["/traces/run.trace", "/traces/run-2.trace", "/traces/run-3.trace"]


def test_the_first_environment_uses_the_port_and_others_free_ports() -> None:
    launch = Launch(LaunchOptions(values={"rest": "127.0.0.1:8081"}))

    settings = [rest_settings(launch.environment_options().values) for _ in range(2)]

    assert [each.port for each in settings if each is not None] == [8081, 0]


def test_a_launcher_with_rest_uses_a_free_port_by_default() -> None:
    launch = Launch(LaunchOptions(offers_rest=True))

    options = launch.environment_options()
    assert options.values["rest"] == "0"
    options.set_options({"rest": 8082})
    assert options.values["rest"] == "8082"


def test_a_recording_respects_its_size_limit(tmp_path: Path) -> None:
    launch = Launch(LaunchOptions(values={"record": str(tmp_path / "run.trace"), "max_bytes": 2_000}))
    recorder = cluster_settings(launch).record

    assert isinstance(recorder, TraceRecorder)
    with SeededSystem(1, recorder=recorder) as system:
        for number in range(300):
            system.spawn(scripted_actor([]), f"scripted_actor-{number}")

    assert TraceReader.open(recorder.path).header.capped is not None


def test_each_environment_has_its_own_ring_recording() -> None:
    launch = Launch(LaunchOptions(values={"record": "/traces/run.trace", "ring": 500}))

    recorders = [cluster_settings(launch).record for _ in range(2)]

    paths = [str(each.path) for each in recorders if isinstance(each, TraceRecorder)]
    assert paths == ["/traces/run.trace", "/traces/run-2.trace"]
    assert all(isinstance(each, TraceRecorder) and each.before_turn is not None for each in recorders)


def test_job_options_of_a_launch_override_only_what_they_set() -> None:
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    said = {"parallelism": 8, "checkpoint_dir": "/of/the/run", "checkpoint_interval": 250, "retention": retention}

    (settings,) = overridden(Launch(LaunchOptions(values=said)))

    checkpointing = settings.checkpointing
    assert settings.defaults.parallelism == 8
    assert (checkpointing.directory, checkpointing.interval_ms) == ("/of/the/run", 250)
    assert (checkpointing.retention, checkpointing.timeout_ms) == (retention, 60_000)


def test_only_the_first_job_continues_from_the_checkpoint() -> None:
    first, second = overridden(Launch(LaunchOptions(values={"from_checkpoint": "latest"})), 2)

    assert (first.start.restore_from, second.start.restore_from) == ("latest", "auto")


def test_only_the_first_job_starts_from_the_savepoint() -> None:
    said = {
        "from_savepoint": "/s",
        "allow_non_restored_state": True,
        "savepoint_dir": "/savepoints",
        "archive_dir": "/archives",
    }

    first, second = overridden(Launch(LaunchOptions(values=said)), 2)

    assert first.start == StartSettings(restore_from="/s", allow_non_restored_state=True)
    assert second.start == StartSettings()
    assert second.checkpointing.savepoint_directory == "/savepoints"
    assert second.checkpointing.archive_directory == "/archives"


def test_a_launch_applies_to_every_thread_until_its_end() -> None:
    before, launch = current_launch(), Launch()
    found: list[Launch] = []

    with launched(launch):
        thread = threading.Thread(target=lambda: found.append(current_launch()))
        thread.start()
        thread.join()

    assert found == [launch]
    assert current_launch() is before


class LaunchThatShowsJobs(Launch):
    shows_jobs = True


@pytest.mark.parametrize(("launch", "printed"), [(Launch(), "   0.00 s  job RUNNING\n"), (LaunchThatShowsJobs(), "")])
def test_a_console_is_silent_if_the_launcher_displays_the_jobs(
    launch: Launch, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with launched(launch):
        Console()(status(JobStatus.RUNNING))

    assert capsys.readouterr().out == printed


def test_a_console_with_its_own_output_is_never_silent() -> None:
    out = StringIO()

    with launched(LaunchThatShowsJobs()):
        Console(RichConsole(file=out))(status(JobStatus.RUNNING))

    assert out.getvalue() == "   0.00 s  job RUNNING\n"
