"""Checkpoints to continue from, and the jobs that may use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage, initialize_savepoint
from flykka.actors.machines.job_graph.operator_ids import operator_id
from flykka.client.checkpoints import UnreadableCheckpoint, check_restorable, find_checkpoint, list_checkpoints
from flykka.errors import CheckpointError, CheckpointNotFoundError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, TaskStateEntry
from flykka.messages.graph.job_graph import JobGraph, JobVertex
from flykka.messages.state.handles import (
    KeyGroupRange,
    OperatorListState,
    OperatorSubtaskState,
    SharedStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex, with_uids


def graph_with_uids(*vertices: JobVertex) -> JobGraph:
    return with_uids(graph_of(*vertices))


GRAPH = graph_with_uids(vertex("source", outputs=1), vertex("sums", reads=("source",)))


def splits_state(operator: str, parallelism: int = 1) -> TaskStateEntry:
    splits = OperatorListState(name="splits", elements=(b"one",))
    own = OperatorSubtaskState(operator_id=operator_id(operator), operator_state=(splits,))
    return TaskStateEntry(
        vertex_id=JobVertexId(operator),
        subtask=0,
        parallelism=parallelism,
        max_parallelism=128,
        state=TaskStateSnapshot(operators=(own,)),
    )


def job_checkpoint(job: str, checkpoint_id: int, timestamp_ms: int, *states: TaskStateEntry) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId(job), checkpoint_id=checkpoint_id, timestamp_ms=timestamp_ms, duration_ms=1, task_states=states
    )


def write_checkpoints(folder: Path, *checkpoints: CompletedCheckpoint) -> list[str]:
    storage = CheckpointStorage(str(folder))
    return [storage.write_metadata(each) for each in checkpoints]


def test_checkpoints_of_all_jobs_are_listed_newest_first(tmp_path: Path) -> None:
    write_checkpoints(tmp_path, job_checkpoint("a", 7, 300), job_checkpoint("b", 1, 500), job_checkpoint("b", 2, 100))

    listing = list_checkpoints(str(tmp_path))

    assert [(each.job_id, each.checkpoint_id) for each in listing.completed] == [("b", 1), ("a", 7), ("b", 2)]
    assert listing.unreadable == ()


def test_incomplete_or_unreadable_checkpoints_are_reported_and_not_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [broken] = write_checkpoints(tmp_path, job_checkpoint("b", 9, 900))
    Path(broken, "_metadata").write_bytes(b"something else")
    (tmp_path / "a" / "chk-10").mkdir(parents=True)
    [whole] = write_checkpoints(tmp_path, job_checkpoint("a", 8, 800))

    listing = list_checkpoints(str(tmp_path))

    assert [each.path for each in listing.completed] == [whole]
    assert listing.unreadable == (
        UnreadableCheckpoint(path=broken, reason=f"{broken}/_metadata: not a file of flykka"),
    )
    assert find_checkpoint("latest", str(tmp_path)).path == whole
    assert [record.getMessage() for record in caplog.records] == [
        f"ignored in the search for the latest checkpoint: {broken}/_metadata: not a file of flykka"
    ]


def test_an_unreadable_last_checkpoint_is_not_silently_replaced_by_the_previous(tmp_path: Path) -> None:
    older, newer = write_checkpoints(tmp_path, job_checkpoint("a", 9, 900), job_checkpoint("a", 10, 990))
    Path(newer, "_metadata").write_bytes(b"something else")

    with pytest.raises(CheckpointError, match=f"the latest checkpoint, '{newer}', cannot be read: .*'{older}'"):
        find_checkpoint("latest", str(tmp_path))
    assert find_checkpoint(older, str(tmp_path)).path == older


def test_glob_characters_in_a_directory_name_are_literal(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*"
    write_checkpoints(folder, job_checkpoint("a", 1, 100))

    assert len(list_checkpoints(str(folder)).completed) == 1


def test_a_checkpoint_already_continued_to_the_end_is_not_the_latest(
    tmp_path: Path,
) -> None:
    _, path = write_checkpoints(tmp_path, job_checkpoint("a", 7, 300), job_checkpoint("a", 8, 800))

    CheckpointStorage(str(tmp_path)).delete_job(JobId("b"), path)

    with pytest.raises(
        CheckpointNotFoundError, match=f"job b has continued from the newest one, '{path}', and has ended"
    ):
        find_checkpoint("latest", str(tmp_path))
    assert find_checkpoint(path, str(tmp_path)).path == path


@pytest.mark.parametrize("name_of", [lambda path: path, lambda path: f"{path}/_metadata", lambda path: f"{path}/"])
def test_a_checkpoint_is_specified_by_its_folder_or_metadata_file(
    tmp_path: Path, name_of: Callable[[str], str]
) -> None:
    [path] = write_checkpoints(tmp_path, job_checkpoint("a", 7, 300))

    assert find_checkpoint(name_of(path), "").path == path


def test_a_checkpoint_path_may_be_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = write_checkpoints(tmp_path, job_checkpoint("a", 7, 300))
    monkeypatch.chdir(tmp_path)

    assert find_checkpoint("a/chk-7", "").path == path


def test_the_error_about_a_missing_checkpoint_lists_the_existing_ones(tmp_path: Path) -> None:
    [path] = write_checkpoints(tmp_path, job_checkpoint("a", 7, 300))

    with pytest.raises(
        CheckpointNotFoundError, match=r"gone' is not a checkpoint or savepoint: there is no such file or folder"
    ):
        find_checkpoint(str(tmp_path / "gone"), "")
    with pytest.raises(CheckpointNotFoundError, match=f"the newest checkpoint below it is '{path}'"):
        find_checkpoint(str(tmp_path), "")
    with pytest.raises(CheckpointNotFoundError, match="the newest checkpoint below it is"):
        find_checkpoint(str(tmp_path / "a"), "")


def test_the_error_about_a_savepoint_directory_lists_its_savepoints(tmp_path: Path) -> None:
    for number in range(7):
        folder = initialize_savepoint(str(tmp_path), f"savepoint-a-{number}")
        CheckpointStorage(folder).write_metadata(job_checkpoint("a", number, 300), folder)

    with pytest.raises(CheckpointNotFoundError) as refused:
        find_checkpoint(str(tmp_path), "")

    assert f"savepoints are below it: '{tmp_path}/savepoint-a-0', " in str(refused.value)
    assert str(refused.value).endswith("/savepoint-a-4' and 2 more")


def test_a_folder_without_metadata_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "chk-1").mkdir()

    with pytest.raises(CheckpointNotFoundError, match=r"of a checkpoint \(chk-<n>\) or a savepoint .* nor its"):
        find_checkpoint(str(tmp_path / "chk-1"), "")


def test_a_file_that_is_not_a_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "chk-1").mkdir()
    (tmp_path / "chk-1" / "_metadata").write_bytes(b"something else")

    with pytest.raises(CheckpointError, match=r"cannot be continued from: .*chk-1/_metadata: not a file of flykka"):
        find_checkpoint(str(tmp_path / "chk-1"), "")


def test_a_missing_latest_checkpoint_is_an_error_with_directory_and_damage(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint directory.*set one with set_checkpoint_dir"):
        find_checkpoint("latest", "")
    with pytest.raises(CheckpointNotFoundError, match=r"below '.*/gone': there is no such folder$"):
        find_checkpoint("latest", str(tmp_path / "gone"))

    [broken] = write_checkpoints(tmp_path, job_checkpoint("a", 9, 900))
    Path(broken, "_metadata").write_bytes(b"something else")
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint has completed\n  cannot be read: .*chk-9"):
        find_checkpoint("latest", str(tmp_path))


def checkpoint_of_former_graph(folder: Path, former: JobGraph, *states: TaskStateEntry) -> CompletedCheckpoint:
    storage = CheckpointStorage(str(folder))
    storage.write_job_graph(former)
    return storage.read_metadata(storage.write_metadata(job_checkpoint(former.job_id, 3, 0, *states)))


def test_a_job_with_the_operators_of_the_checkpoint_may_continue(tmp_path: Path) -> None:
    check_restorable(checkpoint_of_former_graph(tmp_path, GRAPH, splits_state("source"), splits_state("sums")), GRAPH)


def test_state_of_a_missing_operator_is_refused_with_both_uids(tmp_path: Path) -> None:
    renamed = graph_with_uids(vertex("source", outputs=1), vertex("totals", reads=("source",)))

    with pytest.raises(CheckpointError, match=r"job 'job' cannot continue from '.*chk-3'") as refused:
        check_restorable(
            checkpoint_of_former_graph(tmp_path, GRAPH, splits_state("source"), splits_state("sums")), renamed
        )

    assert (
        "operators that the job does not have: 'sums' (sums), which is probably 'totals' of the job: set uid('sums')."
        " The job has 'source', 'totals'; give its operators their former uids"
    ) in str(refused.value)


def test_an_operator_without_a_name_is_reported_by_id() -> None:
    moved = replace(job_checkpoint("job", 3, 0, splits_state("averages")), path="/elsewhere/chk-3")

    with pytest.raises(CheckpointError, match=f"an operator with the id {operator_id('averages')}"):
        check_restorable(moved, GRAPH)


def test_a_parallelism_above_the_key_groups_of_the_state_is_refused(tmp_path: Path) -> None:
    wide = graph_with_uids(
        replace(vertex("source", 129, outputs=1), max_parallelism=256), vertex("sums", reads=("source",))
    )

    with pytest.raises(CheckpointError, match=r"the parallelism of source \(source\) is 129, but its maximum"):
        check_restorable(checkpoint_of_former_graph(tmp_path, GRAPH, splits_state("source")), wide)


def test_keyed_state_can_be_redistributed(tmp_path: Path) -> None:
    keyed = OperatorSubtaskState(
        operator_id=operator_id("sums"),
        key_groups=KeyGroupRange(start=0, end=127),
        shared=(SharedStateHandle(state_id="s", path="s", rows=1, size_bytes=1),),
    )
    entry = replace(splits_state("sums"), state=TaskStateSnapshot(operators=(keyed,)))
    wider = graph_with_uids(vertex("source", outputs=1), vertex("sums", 4, reads=("source",)))

    check_restorable(checkpoint_of_former_graph(tmp_path, GRAPH, entry), wider)


def test_an_operator_of_another_type_is_refused(tmp_path: Path) -> None:
    turned = graph_with_uids(vertex("sums", outputs=1), vertex("source", reads=("sums",)))

    with pytest.raises(CheckpointError, match=r"uid 'sums' was a STATELESS \(sums\) and is now a SOURCE \(sums\)"):
        check_restorable(checkpoint_of_former_graph(tmp_path, GRAPH, splits_state("sums")), turned)
