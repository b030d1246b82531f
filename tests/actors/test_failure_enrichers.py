"""Failure enrichers: which enricher may set which label, the effect of a failing enricher, and when a job gets its
labels.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.errors import FailureEnricherError
from flykka.actors.failure_enrichers import FailureContext, FailureEnricher, FailureEnrichers, FailureType
from flykka.messages.control.job import JobResultFailure, JobStatus
from flykka.messages.graph.job_graph import FixedDelayRestartStrategyConfiguration
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    FailureLabel,
    RootExceptionHistoryEntry,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB, failure

TASK = FailureContext(job_id=JOB, job_name="job", failure_type=FailureType.TASK, task_name="source (1/1)")


class Owner(FailureEnricher):
    """Labels a failure with the owner that the failure message names."""

    keys: Set[str] = frozenset({"owner"})

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        self.asked: list[FailureContext] = []
        self._given = {"owner": "team-a"} if given is None else given

    def get_output_keys(self) -> Set[str]:
        return self.keys

    def process_failure(self, cause: SerializedThrowable, context: FailureContext) -> Mapping[str, str]:
        self.asked.append(context)
        if cause.message == "worse":
            raise RuntimeError("the registry of owners is down")
        return self._given  # type: ignore[return-value]  # users err


class Severity(Owner):
    keys = frozenset({"severity", "owner"})


class Nothing(Owner):
    keys = frozenset()


class Kind(Owner):
    keys = frozenset({"kind"})


def enrichers(*each: FailureEnricher) -> FailureEnrichers:
    made = FailureEnrichers()
    for enricher in each:
        made.add(enricher)
    return made


def test_a_failure_gets_the_labels_of_every_enricher() -> None:
    labels = enrichers(Owner(), Kind({"kind": "user"})).labels(failure(), TASK)

    assert labels == (FailureLabel(key="kind", value="user"), FailureLabel(key="owner", value="team-a"))


def test_a_key_of_two_enrichers_is_refused_with_both_names() -> None:
    with pytest.raises(FailureEnricherError, match="Severity declares the keys owner, as Owner does already"):
        enrichers(Owner(), Severity())


def test_an_enricher_that_declares_no_keys_is_refused() -> None:
    with pytest.raises(FailureEnricherError, match="the failure enricher Nothing declares the keys"):
        enrichers(Nothing())


def test_an_invalid_enricher_is_refused() -> None:
    with pytest.raises(FailureEnricherError, match="has to be a FailureEnricher, not 7"):
        FailureEnrichers().add(7)  # type: ignore[arg-type]


def test_an_unknown_package_is_refused_with_the_known_ones() -> None:
    with pytest.raises(FailureEnricherError, match="no installed package has a failure enricher 'owners'"):
        FailureEnrichers().add("owners")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"owner": "a", "pager": "b"},
            "the failure enricher Owner returned the label 'pager', which it has not declared; declared: owner",
        ),
        (
            {"owner": "a", 7: "b"},
            "the failure enricher Owner returned the label 7, which it has not declared; declared: owner",
        ),
    ],
)
def test_an_undeclared_label_is_omitted_and_its_enricher_named(
    given: Mapping[str, object], complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert enrichers(Owner(given)).labels(failure(), TASK) == (FailureLabel(key="owner", value="a"),)
    assert complaint in caplog.text


def test_a_label_value_that_is_not_text_is_omitted(caplog: pytest.LogCaptureFixture) -> None:
    assert enrichers(Owner({"owner": 7})).labels(failure(), TASK) == ()
    assert "the failure enricher Owner returned 7 for the label 'owner': the value must be a string" in caplog.text


def test_an_enricher_that_raises_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    labels = enrichers(Owner(), FailureKind()).labels(failure("worse"), TASK)

    assert labels == (FailureLabel(key="type", value="TestError"),)
    assert "the failure enricher Owner raised" in caplog.text
    assert "the registry of owners is down" in caplog.text


class FailureKind(FailureEnricher):
    def get_output_keys(self) -> Set[str]:
        return {"type"}

    def process_failure(self, cause: SerializedThrowable, context: FailureContext) -> Mapping[str, str]:
        return {"type": cause.type_name}


# Failures of a job


class LabellingCluster(JobCluster):
    def label_with(self, *each: FailureEnricher) -> None:
        self.data_plane.enrichers = enrichers(*each)

    def entries(self) -> dict[int, RootExceptionHistoryEntry]:
        return {message.entry.number: message.entry for message in self.received(self.client, ExceptionHistoryChanged)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LabellingCluster]:
    with SeededSystem() as system:
        yield LabellingCluster(system, tmp_path)


def fail_for_good(cluster: LabellingCluster, message: str = "boom") -> None:
    never = FixedDelayRestartStrategyConfiguration(attempts=0)
    task_manager = cluster.run(replace(cluster.graph(), restart_strategy=never), slots=1)
    for descriptor in cluster.deployed(task_manager):
        cluster.report(descriptor.attempt, ExecutionState.FAILED, failure(message))


def test_the_failures_of_a_job_are_labelled_before_its_result_is_sent(cluster: LabellingCluster) -> None:
    owner = Owner()
    cluster.label_with(owner)

    fail_for_good(cluster)

    (entry,) = cluster.entries().values()
    assert entry.root.failure_labels == (FailureLabel(key="owner", value="team-a"),)
    classes = [type(message) for message in cluster.all_received(cluster.client)]
    assert classes.index(JobResultFailure) > len(classes) - 1 - classes[::-1].index(ExceptionHistoryChanged)
    assert owner.asked[0].failure_type is FailureType.TASK
    assert owner.asked[0].job_id == JobId(JOB)


def test_an_enricher_that_raises_does_not_affect_the_job(
    cluster: LabellingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.label_with(Owner())

    fail_for_good(cluster, "worse")

    result = cluster.last(cluster.client, JobResultFailure)
    assert (result.status, result.cause.message) == (JobStatus.FAILED, "worse")
    assert [entry.root.failure_labels for entry in cluster.entries().values()] == [()]
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_a_failure_is_not_labelled_if_there_are_no_enrichers(cluster: LabellingCluster) -> None:
    fail_for_good(cluster)

    assert cluster.data_plane.labelled == 0
    assert cluster.received(cluster.client, JobResultFailure)
