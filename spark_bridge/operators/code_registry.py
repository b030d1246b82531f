"""The registry of operators' code, to which job graphs refer.

User code is never sent. The registry is filled when the application runs, and a job graph, new or stored, is bound to
its code by uid. A submitted job keeps the code that was bound at that time, because another job may use the same uids.
Code is kept as long as a job may need it, after a restart or with another leader.
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
    code: OperatorCode | KeyByCode
    call_site: CallSite | None
    name: str


class CodeRegistry:
    """The code of operators by uid, and the job files registered for their functions.

    Filled when the program is built, read by the threads of bridges.
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
        """Register `code`, created at `call_site`, under `uid`, and replace earlier code.

        Errors name the operator by `name`, or by its uid if it has no name.
        """
        with self._lock:
            self._bound[uid] = _Bound(code=code, call_site=call_site, name=name or uid)
        return OperatorRef(uid=uid, fingerprint=code.fingerprint)

    def assign(self, job_graph: JobGraph) -> None:
        uids = uids_of(job_graph)
        registry = CodeRegistry()
        registry.master_hooks, registry.files = self.master_hooks, self.files
        registry.failure_enrichers = self.failure_enrichers
        with self._lock:
            registry._bound = {uid: bound for uid, bound in self._bound.items() if uid in uids}
            self._of_jobs[job_graph.job_id] = registry

    def of_job(self, job_id: JobId) -> CodeRegistry:
        """Return the code assigned to a job, or all code that is bound now if none was assigned."""
        with self._lock:
            return self._of_jobs.get(job_id, self)

    def call_site(self, uid: str) -> CallSite | None:
        with self._lock:
            bound = self._bound.get(uid)
        return None if bound is None else bound.call_site

    def name(self, uid: str) -> str:
        with self._lock:
            bound = self._bound.get(uid)
        return uid if bound is None else bound.name

    def describe(self, uid: str) -> str:
        """The operator's name in errors: `'counts' (app.py:12)`, without the line if that is unknown."""
        site, name = self.call_site(uid), self.name(uid)
        return repr(name) if site is None else f"{name!r} ({site})"

    def user_line(self, uid: str) -> UserLine | None:
        site, name = self.call_site(uid), self.name(uid)
        return None if site is None else UserLine(file=site.file, line=site.line, function=name, source=site.source)

    def resolve(self, ref: OperatorRef) -> OperatorCode | KeyByCode:
        """Return the code of a reference. Raises `UnboundOperatorError` if it is missing or its fingerprint differs."""
        with self._lock:
            bound = self._bound.get(ref.uid)
            uids = sorted(self._bound)
        if bound is None:
            names = ", ".join(uids) or "none"
            raise UnboundOperatorError(f"no operator {ref.uid!r} in this application; it has: {names}")
        code = bound.code
        if code.fingerprint != ref.fingerprint:
            raise UnboundOperatorError(
                f"operator {ref.uid!r} has changed: the job graph was created for {ref.fingerprint}, but this"
                f" application has {code.fingerprint}"
            )
        return code

    def keys(self, ref: OperatorRef) -> KeyByCode:
        code = self.resolve(ref)
        assert isinstance(code, KeyByCode), f"{ref.uid!r} is not a key_by"
        return code

    def retain(self, job_graphs: Iterable[JobGraph]) -> None:
        uids_by_job = {job_graph.job_id: uids_of(job_graph) for job_graph in job_graphs}
        retained_uids = frozenset().union(*uids_by_job.values())
        with self._lock:
            self._of_jobs = {job_id: registry for job_id, registry in self._of_jobs.items() if job_id in uids_by_job}
            self._bound = {uid: bound for uid, bound in self._bound.items() if uid in retained_uids}

    def check(self, job_graph: JobGraph) -> None:
        """Raise one `UnboundOperatorError` that names all operators of the graph that cannot be bound."""
        problems = [problem for ref in _refs(job_graph) if (problem := self._problem(ref)) is not None]
        problems += [
            f"operator {operator.ref.uid!r} had a coordinator, but its function no longer has one"
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
    return frozenset(ref.uid for ref in _refs(job_graph))


def _refs(job_graph: JobGraph) -> Iterable[OperatorRef]:
    for vertex in job_graph.vertices:
        yield from (operator.ref for operator in vertex.operators)
        yield from (edge.key_by for edge in vertex.inputs if edge.key_by is not None)
