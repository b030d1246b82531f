"""User code that labels the failures of jobs (Flink's FailureEnricher).

A label is a key with a value, such as the team that has to examine a failure or the input that caused it. Enrichers are
called in the driver outside of the actors, once for each failure of the exception history. Their exceptions are logged
and never affect the job.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points

from flykka.actors.errors import FailureEnricherError
from flykka.messages.monitoring.exception_history import FailureLabel
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId

_log = logging.getLogger(__name__)

GROUP = "flykka.failure_enrichers"
"""The group of entry points that register the enrichers of installed packages, each a class or an object."""


class FailureType(StrEnum):
    """The scope of a failure: the whole job, one task, or the TaskManager that ran it."""

    GLOBAL = "GLOBAL"
    TASK = "TASK"
    TASK_MANAGER = "TASK_MANAGER"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureContext:
    """The job and the task of a failure. `task_name` and `task_manager` are None for a failure of the whole job."""

    job_id: JobId
    job_name: str
    failure_type: FailureType
    task_name: str | None = None
    task_manager: str | None = None


class FailureEnricher(ABC):
    """Labels failures. One object serves all jobs of its environment, and may be called on any thread."""

    @abstractmethod
    def get_output_keys(self) -> Set[str]:
        """Return the keys of all labels that this enricher may assign. The keys are constant and unique among
        enrichers.
        """

    @abstractmethod
    def process_failure(self, cause: SerializedThrowable, context: FailureContext) -> Mapping[str, str]:
        """Return the labels of a failure: values for some of the keys. May block, but not for long.

        `cause` is the serialized failure: `type_name`, `message` and `stack_trace` are texts.
        """


class FailureEnrichers:
    def __init__(self) -> None:
        self._keys: dict[FailureEnricher, frozenset[str]] = {}

    def __iter__(self) -> Iterator[FailureEnricher]:
        return iter(tuple(self._keys))

    def add(self, enricher: FailureEnricher | str) -> None:
        """Add an enricher, given as an object or as the name of an entry point.

        Raises:
            FailureEnricherError: the object is no enricher, has no keys, or uses a key of another enricher.
        """
        instance = _installed(enricher) if isinstance(enricher, str) else enricher
        if not isinstance(instance, FailureEnricher):
            raise FailureEnricherError(f"a failure enricher has to be a FailureEnricher, not {instance!r}")
        keys = frozenset(instance.get_output_keys())
        if not keys or not all(isinstance(key, str) and key.strip() for key in keys):
            raise FailureEnricherError(
                f"the failure enricher {_name(instance)} declares the keys {sorted(map(repr, keys))}:"
                " get_output_keys() must return the keys of its labels, each a text"
            )
        for other, other_keys in self._keys.items():
            if duplicates := keys & other_keys:
                raise FailureEnricherError(
                    f"the failure enricher {_name(instance)} declares the keys {', '.join(sorted(duplicates))}, as"
                    f" {_name(other)} does already: each key belongs to one enricher"
                )
        self._keys[instance] = keys

    def labels(self, cause: SerializedThrowable, context: FailureContext) -> tuple[FailureLabel, ...]:
        """Return the labels of all enrichers, by key. Exceptions and undeclared labels are logged and ignored."""
        values: dict[str, str] = {}
        for enricher, keys in tuple(self._keys.items()):
            try:
                labels: dict[str, object] = dict(enricher.process_failure(cause, context))
            except Exception:  # noqa: BLE001 - whatever user code raises, the job continues as it would have.
                _log.exception("the failure enricher %s raised, so its labels are missing", _name(enricher))
                continue
            values.update(_allowed(enricher, keys, labels))
        return tuple(FailureLabel(key=key, value=values[key]) for key in sorted(values))


def _allowed(
    enricher: FailureEnricher, keys: frozenset[str], labels: Mapping[str, object]
) -> Iterable[tuple[str, str]]:
    for key, value in labels.items():
        if key not in keys:
            names = ", ".join(sorted(keys))
            _log.error(
                "the failure enricher %s returned the label %r, which it has not declared; declared: %s",
                _name(enricher),
                key,
                names,
            )
        elif not isinstance(value, str):
            _log.error(
                "the failure enricher %s returned %r for the label %r: the value must be a string",
                _name(enricher),
                value,
                key,
            )
        else:
            yield key, value


def _installed(name: str) -> object:
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        names = ", ".join(sorted(entries)) or "none"
        raise FailureEnricherError(f"no installed package has a failure enricher {name!r}; there are: {names}")
    try:
        target = entries[name].load()
        return target() if isinstance(target, type) else target
    except Exception as error:
        text = f"the failure enricher {name!r} ({entries[name].value}) cannot be loaded: {error}"
        raise FailureEnricherError(text) from error


def _name(enricher: FailureEnricher) -> str:
    return type(enricher).__name__
