"""The registry of operators' code, for job graphs that name it.

User code never travels: running the application fills the registry, and a job graph, new or stored, is bound to it by
uid. A job that is submitted keeps the code that was bound then: another one may use its uids. Code is kept for as long
as a job may come back to it, by a restart or by another leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from flykka.actors.checkpoint_coordinator.master_hooks import MasterHooks
from flykka.actors.errors import UnboundOperatorError
from flykka.actors.failure_enrichers import FailureEnrichers
from flykka.messages.graph.job_graph import JobGraph, OperatorRef
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.errors import UserLine
from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
from flykka.spark_bridge.program.call_site import CallSite
from flykka.spark_bridge.user_files.registered_files import RegisteredFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """The code of one operator, where it was written, and the name by which the user knows it."""

    code: OperatorCode | KeyByCode
    call_site: CallSite | None
    name: str


class CodeRegistry:
    """The code of operators by uid, and what is registered for their functions.

    Filled where the program is built, read by the threads of bridges.
    """

    def __init__(self) -> None:
        self._bound: dict[str, _Bound] = {}
        self._of_jobs: dict[JobId, CodeRegistry] = {}
        self._lock = Lock()
        self.master_hooks = MasterHooks()
        self.files = RegisteredFiles()
        self.failure_enrichers = FailureEnrichers()

    def bind(
        self, uid: str, code: OperatorCode | KeyByCode, *, call_site: CallSite | None = None, name: str | None = None
    ) -> OperatorRef:
        """Register `code`, written at `call_site`, under `uid`, in place of what was there.

        Errors call it by `name`; by its uid where there is none.
        """
        with self._lock:
            self._bound[uid] = _Bound(code=code, call_site=call_site, name=name or uid)
        return OperatorRef(uid=uid, fingerprint=code.fingerprint)

    def assign(self, job_graph: JobGraph) -> None:
        """Keep for this job what its uids are bound to now, whatever is bound to them later."""
        uids = uids_of(job_graph)
        registry = CodeRegistry()
        registry.master_hooks, registry.files = self.master_hooks, self.files
        registry.failure_enrichers = self.failure_enrichers
        with self._lock:
            registry._bound = {uid: bound for uid, bound in self._bound.items() if uid in uids}
            self._of_jobs[job_graph.job_id] = registry

    def of_job(self, job_id: JobId) -> CodeRegistry:
        """The code that was assigned to a job; for one to which none was, all that is bound now."""
        with self._lock:
            return self._of_jobs.get(job_id, self)

    def call_site(self, uid: str) -> CallSite | None:
        """The line on which the operator was written; None where it is not known."""
        with self._lock:
            bound = self._bound.get(uid)
        return None if bound is None else bound.call_site

    def name(self, uid: str) -> str:
        """The name by which the user knows the operator; the uid where none was given."""
        with self._lock:
            bound = self._bound.get(uid)
        return uid if bound is None else bound.name

    def describe(self, uid: str) -> str:
        """The operator as an error names it: `'counts' (app.py:12)`, without the line where that is not known."""
        site, name = self.call_site(uid), self.name(uid)
        return repr(name) if site is None else f"{name!r} ({site})"

    def written(self, uid: str) -> UserLine | None:
        """The line that wrote the operator down, as it is told with a failure; None where nobody has said."""
        site, name = self.call_site(uid), self.name(uid)
        return None if site is None else UserLine(file=site.file, line=site.line, function=name, source=site.source)

    def resolve(self, ref: OperatorRef) -> OperatorCode | KeyByCode:
        """The code behind a name. Raises `UnboundOperatorError` where there is none, or one of another make."""
        with self._lock:
            bound = self._bound.get(ref.uid)
            known = sorted(self._bound)
        if bound is None:
            names = ", ".join(known) or "none"
            raise UnboundOperatorError(f"no operator {ref.uid!r} in this application; it has: {names}")
        code = bound.code
        if code.fingerprint != ref.fingerprint:
            raise UnboundOperatorError(
                f"operator {ref.uid!r} has changed: the job graph was made for {ref.fingerprint}, this application has"
                f" {code.fingerprint}"
            )
        return code

    def keys(self, ref: OperatorRef) -> KeyByCode:
        """The keys of an edge. Raises `UnboundOperatorError`."""
        code = self.resolve(ref)
        assert isinstance(code, KeyByCode), f"{ref.uid!r} is no key_by"
        return code

    def retain(self, job_graphs: Iterable[JobGraph]) -> None:
        """Let go of all code that none of these job graphs names."""
        kept = {job_graph.job_id: uids_of(job_graph) for job_graph in job_graphs}
        named = frozenset().union(*kept.values())
        with self._lock:
            self._of_jobs = {job_id: registry for job_id, registry in self._of_jobs.items() if job_id in kept}
            self._bound = {uid: bound for uid, bound in self._bound.items() if uid in named}

    def check(self, job_graph: JobGraph) -> None:
        """Raise one `UnboundOperatorError` that names every operator of the graph which cannot be bound."""
        problems = [problem for ref in _refs(job_graph) if (problem := self._problem(ref)) is not None]
        problems += [
            f"operator {operator.ref.uid!r} had a coordinator, and its function brings none any more"
            for vertex in job_graph.vertices
            for operator in vertex.operators
            if operator.has_coordinator and not self._has_coordinator(operator.ref.uid)
        ]
        if problems:
            raise UnboundOperatorError(f"job {job_graph.name!r} does not fit this application: {'; '.join(problems)}")

    def _has_coordinator(self, uid: str) -> bool:
        with self._lock:
            bound = self._bound.get(uid)
        return bound is None or (isinstance(bound.code, OperatorCode) and bound.code.has_coordinator)

    def _problem(self, ref: OperatorRef) -> str | None:
        try:
            self.resolve(ref)
        except UnboundOperatorError as unbound:
            return str(unbound)
        return None


def uids_of(job_graph: JobGraph) -> frozenset[str]:
    """The uids under which the code of a job is bound, those of its keys included."""
    return frozenset(ref.uid for ref in _refs(job_graph))


def _refs(job_graph: JobGraph) -> Iterable[OperatorRef]:
    for vertex in job_graph.vertices:
        yield from (operator.ref for operator in vertex.operators)
        yield from (edge.key_by for edge in vertex.inputs if edge.key_by is not None)
