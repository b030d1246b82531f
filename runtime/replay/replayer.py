"""Replays traces: completely, or only one actor, up to their end or the first divergence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from flykka.runtime.errors import TraceError
from flykka.runtime.path import USER
from flykka.runtime.replay.divergence import Divergence, DivergenceError
from flykka.runtime.replay.engine import ReplayEngine
from flykka.runtime.replay.session.session import ReplaySession
from flykka.runtime.trace.file.reader import Damage, TraceReader

if TYPE_CHECKING:
    from flykka.runtime.props import Props

_SHOWN = 3
"""The maximum number of nondeterministic calls that are reported, namely the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of a replay.

    `compared` of the `turns` were replayed. The others are turns of the actors in `boundary`, which contains the
    reasons why these actors are not replayed. `truncated` is the position at which an incomplete file ends; the replay
    ends there too.
    """

    turns: int
    compared: int
    divergence: Divergence | None
    boundary: tuple[str, ...]
    truncated: Damage | None
    is_empty: bool = False
    """True if there are actors, but none of them was replayed, so that the result proves nothing."""

    @property
    def ok(self) -> bool:
        return self.divergence is None and not self.is_empty


class TraceReplayer:
    """Replays traces of any actor system. `flykka.Replayer` adds stand-ins for the live objects of jobs.

    A trace may come from anywhere: it causes no import by itself, and only actors, values and the parts of their state
    are created.

    Args:
        actors: Props by path, for actors that a trace does not describe sufficiently.
        stand_ins: live objects by class name in the trace, for objects that could not be recorded.
        modules: the names of modules, besides flykka's own, that declare actors and messages of the traces. They are
            imported, and arguments of actors may contain their classes and functions.

    Raises:
        ImportError: one of `modules` cannot be imported.
    """

    outside: Mapping[str, str] = MappingProxyType({})
    """The reasons by class name in a trace, for actors that are never replayed."""

    def __init__(
        self,
        *,
        actors: Mapping[str, Props] | None = None,
        stand_ins: Mapping[str, object] | None = None,
        modules: Iterable[str] = (),
    ) -> None:
        self._actors = dict(actors or {})
        self._stand_ins = dict(stand_ins or {})
        self._modules = tuple(modules)
        for name in self._modules:
            import_module(name)

    def engine(self, trace: TraceReader | str | os.PathLike[str], *, actor: str | None = None) -> ReplayEngine:
        """Return an engine to replay turn by turn. Raises as `replay` does, and the engine raises `DivergenceError`."""
        reader = trace if isinstance(trace, TraceReader) else TraceReader.open(trace)
        return self._engine(reader, self.stand_ins(reader), only=self._only(reader, actor))

    def _engine(
        self, trace: TraceReader, stand_ins: Mapping[str, object], only: frozenset[str] | None = None
    ) -> ReplayEngine:
        all_stand_ins = {**stand_ins, **self._stand_ins}
        return ReplayEngine(trace, self._actors, all_stand_ins, only=only, outside=self.outside, modules=self._modules)

    def stand_ins(self, trace: TraceReader) -> Mapping[str, object]:
        """Return the default stand-ins, by the names of the classes that they replace."""
        return {}

    def session(self, trace: TraceReader | str | os.PathLike[str]) -> ReplaySession:
        """Return an interactive replay at the start of the trace. Raises `TraceError` like `replay`."""
        reader = trace if isinstance(trace, TraceReader) else TraceReader.open(trace)
        return ReplaySession(lambda: self.engine(reader))

    def replay(
        self,
        trace: TraceReader | str | os.PathLike[str],
        *,
        actor: str | None = None,
        until: int | None = None,
        raise_on_divergence: bool = False,
    ) -> ReplayResult:
        """Replay a trace.

        Args:
            trace: a trace, or the path of a trace.
            actor: replay only this actor and those above it, which are needed to create it. All others are boundaries.
                The path may omit `/user/`, and may contain the wildcards `*` and `?`.
            until: the number of the last turn to replay.
            raise_on_divergence: raise an error for a divergence, for tests.

        Raises:
            TraceError: the file is not a trace, or has a later version; or no `actor` in it has had a turn.
            ForeignModuleError: the trace names a module that is neither flykka's nor one of `modules`.
            DivergenceError: with `raise_on_divergence`, if there is a divergence.
        """
        engine = self.engine(trace, actor=actor)
        divergence = None
        try:
            engine.run(until)
        except DivergenceError as error:
            divergence = replace(
                error.divergence, notes=(*self._explanation(engine, actor, error), *error.divergence.notes)
            )
        if divergence is not None and raise_on_divergence:
            raise DivergenceError(divergence)
        return ReplayResult(
            turns=engine.turns,
            compared=engine.compared,
            divergence=divergence,
            boundary=tuple(f"{path}: {reason}" for path, reason in engine.boundary.items()),
            truncated=engine.trace.truncated,
            is_empty=bool(engine.boundary) and not engine.has_replayed,
        )

    def _only(self, trace: TraceReader, actor: str | None) -> frozenset[str] | None:
        if actor is None:
            return None
        pattern = actor if actor.startswith(("/", "*")) else f"{USER}/{actor}"
        paths = {turn.recipient.path for turn in trace}
        matches = frozenset(path for path in paths if fnmatchcase(path, pattern))
        if not matches:
            raise TraceError(f"{trace.path} has no turn of an actor {pattern}; `flykka trace stats` lists its actors")
        return matches

    def _explanation(self, engine: ReplayEngine, actor: str | None, error: DivergenceError) -> Iterator[str]:
        """Yield the nondeterministic calls of the diverging actor, found in a second, slow replay."""
        turn = error.divergence.turn
        second = self.engine(engine.trace, actor=actor)
        findings = second.observe(turn.recipient.path)
        with suppress(DivergenceError):
            second.run(turn.sequence)
        texts = dict.fromkeys(finding.text() for finding in reversed(findings))
        yield from islice(texts, _SHOWN)
