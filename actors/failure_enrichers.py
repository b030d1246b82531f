"""User code that labels the failures of jobs (Flink's FailureEnricher).

A label is a key with a value: whose fault a failure is, which team has to look at it, which input it was. Enrichers are
called in the driver, off the actors, once for each failure of the exception history. What they raise is logged, and
never hurts the job.
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
"""Entry points of this group name the enrichers of installed packages: a class, or an object."""


class FailureType(StrEnum):
    """The part that has failed: the job as a whole, one task, or the TaskManager that ran it."""

    GLOBAL = "GLOBAL"
    TASK = "TASK"
    TASK_MANAGER = "TASK_MANAGER"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureContext:
    """The job and the task of a failure; `task_name` and `task_manager` are None for a failure of the whole job."""

    job_id: JobId
    job_name: str
    failure_type: FailureType
    task_name: str | None = None
    task_manager: str | None = None


class FailureEnricher(ABC):
    """Labels failures. One object is asked about the failures of all jobs of its environment, by any thread."""

    @abstractmethod
    def get_output_keys(self) -> Set[str]:
        """The keys of all labels that it may give: always the same, and no other enricher's."""

    @abstractmethod
    def process_failure(self, cause: SerializedThrowable, context: FailureContext) -> Mapping[str, str]:
        """The labels of a failure: none, or values for some of the keys. It may block, but not for long.

        `cause` is the failure as it travelled: `type_name`, `message` and `stack_trace` are texts.
        """


class FailureEnrichers:
    """The enrichers of one environment, in the order in which they were added."""

    def __init__(self) -> None:
        self._keys: dict[FailureEnricher, frozenset[str]] = {}

    def __iter__(self) -> Iterator[FailureEnricher]:
        return iter(tuple(self._keys))

    def add(self, enricher: FailureEnricher | str) -> None:
        """Add an enricher, or the one of this name among the entry points.

        Raises:
            FailureEnricherError: it is none, or declares no keys, or such as another one has; the text names it.
        """
        made = _installed(enricher) if isinstance(enricher, str) else enricher
        if not isinstance(made, FailureEnricher):
            raise FailureEnricherError(f"a failure enricher has to be a FailureEnricher, not {made!r}")
        keys = frozenset(made.get_output_keys())
        if not keys or not all(isinstance(key, str) and key.strip() for key in keys):
            raise FailureEnricherError(
                f"the failure enricher {_name(made)} declares the keys {sorted(map(repr, keys))}: get_output_keys() has"
                " to name the keys of its labels, each a text"
            )
        for other, taken in self._keys.items():
            if doubled := keys & taken:
                raise FailureEnricherError(
                    f"the failure enricher {_name(made)} gives the labels {', '.join(sorted(doubled))}, as"
                    f" {_name(other)} does already: each key belongs to one enricher"
                )
        self._keys[made] = keys

    def labels(self, cause: SerializedThrowable, context: FailureContext) -> tuple[FailureLabel, ...]:
        """Ask each of them; the labels by their keys. What is raised, or was not declared, is logged and left out."""
        found: dict[str, str] = {}
        for enricher, keys in tuple(self._keys.items()):
            try:
                given: dict[str, object] = dict(enricher.process_failure(cause, context))
            except Exception:  # noqa: BLE001 - whatever user code raises, the job goes on as it would have.
                _log.exception("the failure enricher %s has failed, and gives no labels", _name(enricher))
                continue
            found.update(_allowed(enricher, keys, given))
        return tuple(FailureLabel(key=key, value=found[key]) for key in sorted(found))


def _allowed(enricher: FailureEnricher, keys: frozenset[str], given: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for key, value in given.items():
        if key not in keys:
            declared = ", ".join(sorted(keys))
            _log.error("the failure enricher %s has not declared the label %r, only %s", _name(enricher), key, declared)
        elif not isinstance(value, str):
            _log.error("the failure enricher %s gives %r for the label %r: no text", _name(enricher), value, key)
        else:
            yield key, value


def _installed(name: str) -> object:
    """The enricher that an installed package names."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        names = ", ".join(sorted(found)) or "none"
        raise FailureEnricherError(f"no installed package has a failure enricher {name!r}; there are: {names}")
    try:
        loaded = found[name].load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as broken:
        text = f"the failure enricher {name!r} ({found[name].value}) cannot be loaded: {broken}"
        raise FailureEnricherError(text) from broken


def _name(enricher: FailureEnricher) -> str:
    return type(enricher).__name__
