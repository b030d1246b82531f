"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import pytest

from tests.layout.sources import sources

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

USUAL_FILE = 400
LONGEST_FUNCTION = 70

LONGER_FILES = {
    "actors/checkpoint_storage/storage.py": 430,
    "actors/job_manager/actor.py": 430,
    "actors/job_manager/managed_job.py": 510,
    "actors/machines/attempt/attempt.py": 540,
    "actors/machines/attempt/inputs.py": 410,
    "actors/machines/attempt/source.py": 480,
    "actors/machines/attempt/stages.py": 490,
    "actors/machines/checkpoint/completed_store.py": 520,
    "actors/machines/checkpoint/coordinator.py": 690,
    "actors/machines/checkpoint/pending.py": 450,
    "actors/machines/checkpoint/trigger.py": 470,
    "actors/machines/coordinators/operator_coordinator_holder.py": 460,
    "actors/machines/exchange/checkpoint_barrier_handler.py": 470,
    "actors/machines/exchange/result_partition.py": 540,
    "actors/machines/graph/execution_graph.py": 430,
    "actors/machines/read_model/job_read_model.py": 430,
    "actors/machines/rescaling/adaptive_scheduler.py": 510,
    "actors/machines/slots/slot_manager.py": 520,
    "actors/machines/slots/slot_pool.py": 490,
    "actors/machines/slots/slot_table.py": 470,
    "actors/machines/sources/source_coordinator.py": 590,
    "flykka/api/configuration/options.py": 800,
    "flykka/api/environment.py": 1220,
    "flykka/api/streams/data_stream.py": 700,
    "flykka/client/client_actor.py": 500,
    "flykka/client/job_client.py": 640,
    "flykka/simulation/shrink.py": 410,
    "flykka/simulation/simulation.py": 460,
    "runtime/replay/engine.py": 470,
    "runtime/replay/fork/environment.py": 520,
    "runtime/replay/system.py": 500,
    "runtime/trace/state/description.py": 430,
    "scripts/journeys.py": 470,
    "messages/graph/job_graph.py": 500,
    "spark_bridge/attempt/engine.py": 520,
    "spark_bridge/connectors/delta/publishing.py": 500,
    "spark_bridge/connectors/delta/source.py": 540,
    "spark_bridge/connectors/file/sink.py": 470,
    "spark_bridge/connectors/file/source.py": 440,
    "spark_bridge/connectors/kafka/source.py": 530,
    "spark_bridge/connectors/postgres/cdc_source.py": 460,
    "spark_bridge/connectors/staging.py": 500,
    "spark_bridge/functions/function_runner.py": 430,
    "spark_bridge/functions/state_descriptors.py": 410,
    "spark_bridge/operators/join_code.py": 590,
    "spark_bridge/operators/process.py": 530,
    "tests/flykka/api/table/test_sql_page.py": 430,
}
"""Files that are longer than usual, because each has one subject: a class with all its methods, or a machine with its
parts.

A file is as long as its subject, so the list may grow; the commit message states why the file is not split.
"""


def test_files_are_no_longer_than_usual_or_than_recorded() -> None:
    too_long = {
        str(source): lines
        for source in sources()
        if (lines := len(source.text.splitlines())) > LONGER_FILES.get(str(source), USUAL_FILE)
    }

    assert too_long == {}


def test_every_recorded_file_is_still_longer_than_usual() -> None:
    lengths = {str(source): len(source.text.splitlines()) for source in sources()}

    assert [name for name in LONGER_FILES if lengths.get(name, 0) <= USUAL_FILE] == []


def test_no_function_is_longer_than_70_lines() -> None:
    too_long = [
        f"{source}:{line} {name}: {lines} lines"
        for source in sources()
        for line, name, lines in source.functions
        if lines > LONGEST_FUNCTION
    ]

    assert too_long == []
