"""Area 04: runs each case on its machine, and checks its expectations."""

from __future__ import annotations

from collections.abc import Callable

from flykka.actors.machines.graph.result_partitions import RegionPartitionReleaseStrategy
from flykka.actors.machines.restart.failure_handler import (
    PartitionAvailability,
    RestartPipelinedRegionFailoverStrategy,
)
from flykka.actors.machines.scheduling.topology import Exchange, Partition, SchedulingTopology
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.failover_regions.job_failover import JobFailover
from tests.conformance.failover_regions.scheduling import SchedulingCase
from tests.conformance.failover_regions.topologies import in_need_of_restart, regions_of, topology_of


def run_case(case: Case) -> None:
    runs: dict[str, Callable[[Case], None]] = {
        "region-building": _run_regions,
        "failover": _run_failover,
        "job-failover": _run_job_failover,
        "scheduling": _run_scheduling,
        "partition-release": _run_release,
    }
    topic = case["topic"]
    if topic not in runs:
        raise UnknownWordError(f"topic {topic!r}")
    runs[topic](case)


def _run_regions(case: Case) -> None:
    if case["steps"]:
        raise UnknownWordError(f"steps of a region: {case['steps']}")
    regions = [set(region) for region in regions_of(case["given"])]
    region_of = {task: number for number, region in enumerate(regions) for task in region}
    for word, wanted in case["expect"].items():
        match word:
            case "regions":
                assert sorted(map(sorted, regions)) == sorted(map(sorted, wanted))
            case "region_sizes":
                assert sorted(map(len, regions)) == sorted(wanted)
            case "number_of_regions":
                assert len(regions) == wanted
            case "same_region":
                assert all(len({region_of[task] for task in group}) == 1 for group in wanted)
            case "different_regions":
                assert all(len({region_of[task] for task in group}) == len(group) for group in wanted)
            case "region_size_of":
                assert {task: len(regions[region_of[task]]) for task in wanted} == wanted
            case unknown:
                raise UnknownWordError(unknown)


def _run_failover(case: Case) -> None:
    given = case["given"]
    topology = topology_of({word: value for word, value in given.items() if word != "states"})
    (step,) = case["steps"]
    only_known_words("step", step, {"fail", "cause", "unavailable_partitions"})
    lost = [tuple(each) for each in step["unavailable_partitions"]]
    match step["cause"]:
        case "task error":
            pass
        case {"cannot_read_partition": [str(producer), str(consumer)]}:
            lost.append((producer, consumer))
        case unknown:
            raise UnknownWordError(f"cause {unknown}")
    availability: PartitionAvailability[str] = PartitionAvailability()
    availability.lose(_partition(topology, producer, consumer) for producer, consumer in lost)

    restarted = RestartPipelinedRegionFailoverStrategy(topology, availability).tasks_to_restart([step["fail"]])

    only_known_words("expect", case["expect"], {"restarted"})
    if "states" in given:
        restarted = frozenset(in_need_of_restart(given, restarted))
    assert sorted(restarted) == sorted(case["expect"]["restarted"])


def _partition(topology: SchedulingTopology[str], producer: str, consumer: str) -> Partition[str]:
    read = (exchange for exchange in topology.consumed(consumer) if producer in exchange.producers)
    return Partition(producer=producer, result=next(read).result)


def _run_job_failover(case: Case) -> None:
    job = JobFailover(case["given"])
    for step in case["steps"]:
        job.do(step)
        for word, wanted in step.get("want", {}).items():
            assert job.holds(word, wanted), f"after {step}: {word} is not {wanted}"
    for word, wanted in case["expect"].items():
        assert job.holds(word, wanted), f"at the end {word} is not {wanted}"


def _run_scheduling(case: Case) -> None:
    scheduling = SchedulingCase(case["given"])
    for step in case["steps"]:
        scheduling.do(step)
        for word, wanted in step.get("want", {}).items():
            assert scheduling.holds(word, wanted), f"after {step}: {word} is not {wanted}"
    for word, wanted in case["expect"].items():
        assert scheduling.holds(word, wanted), f"at the end {word} is not {wanted}"


def _run_release(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, {"regions", "partitions"})
    tasks = [task for region in given["regions"] for task in region]
    together = [
        Exchange(result=f"together {number}", producers=(region[0],), consumers=tuple(region[1:]), is_blocking=False)
        for number, region in enumerate(given["regions"])
    ]
    blocking = [
        Exchange(result=name, producers=(producer,), consumers=tuple(consumers), is_blocking=True)
        for name, (producer, *consumers) in given["partitions"].items()
    ]
    release = RegionPartitionReleaseStrategy(SchedulingTopology(tasks, [*together, *blocking]))
    steps: list[list[object]] = []
    for step in case["steps"]:
        match step:
            case ["finished", str(task)]:
                steps.append([partition.result for partition in release.finished(task)])
            case ["unfinished", str(task)]:
                release.unfinished(task)
                steps.append([])
            case unknown:
                raise UnknownWordError(f"step {unknown}")
    for word, wanted in case["expect"].items():
        match word:
            case "released_by_last_step":
                assert sorted(map(str, steps[-1])) == sorted(wanted)
            case "released":
                assert sorted({str(each) for step in steps for each in step}) == sorted(wanted)
            case unknown:
                raise UnknownWordError(unknown)
