"""The operators of one environment, in the order of their definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakMethod

from flykka.api.streams.auto_parallelism import AUTO, PARALLELISM_AUTO_MAX
from flykka.api.streams.cached_streams import CachedStreams
from flykka.errors import DuplicateUidError, ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.user_files.registered_files import RegisteredFiles

if TYPE_CHECKING:
    from flykka.api.streams.transformation import Input, Transformation

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class Program:
    def __init__(
        self,
        files: RegisteredFiles | None = None,
        after: str | None = None,
        *,
        cached: CachedStreams | None = None,
        number: int = 1,
    ) -> None:
        """Create a program. `files` and `cached` streams belong to the environment; `after` names its previous job.

        `number` is the number of the job that the program becomes.
        """
        self._files = RegisteredFiles() if files is None else files
        self._after = after
        self.cached = cached or CachedStreams()
        self._number = number
        self._transformations: list[Transformation] = []
        self._is_submitted = False
        self._ended: str | None = None
        self._followers: list[WeakMethod[Callable[[Program], None]]] = []

    @property
    def files(self) -> RegisteredFiles:
        return self._files

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """All operators, each after its inputs."""
        return tuple(self._transformations)

    def leading_to_sinks(self) -> tuple[Transformation, ...]:
        """Return the operators that lead to a sink: only these become a job.

        Thus one half of a stream split by `side_output`, or an experiment in a notebook, may remain unused. A cached
        stream is read if its rows are cached, else computed and cached.

        Raises:
            ProgramError: there are no operators, or no sink; or another job is still computing a cached stream.
            DuplicateUidError: an operator upstream of a cached stream has the uid of an operator of this program.
        """
        if not self._transformations:
            if self._after is None:
                raise ProgramError("the program has no operators: begin with from_source(...)")
            raise ProgramError(
                f"nothing was defined since job {self._after!r} was executed: start the next one with from_source(...)"
            )
        needed = {operator for operator in self._transformations if operator.kind is OperatorKind.SINK}
        if not needed:
            last = self._transformations[-1]
            raise ProgramError(f"the program writes nothing: end a stream with sink_to(...), perhaps that of {last}")
        for transformation in reversed(self._transformations):
            # The readers of an operator come later in the list, so they have been visited already.
            if transformation in needed:
                needed.update(edge.source for edge in transformation.inputs)
        return self.cached.resolved(
            [operator for operator in self._transformations if operator in needed], self._number
        )

    @property
    def next_position(self) -> int:
        """The position of the next operator: the first unused position, counted from 1."""
        used = {transformation.position for transformation in self._transformations}
        return next(position for position in count(1) if position not in used)

    def add(self, transformation: Transformation) -> None:
        """Add an operator.

        Raises:
            DuplicateUidError: another operator has the same uid.
            ProgramError: the program was submitted already; or the uid is invalid.
        """
        if self._ended is not None:
            raise ProgramError(
                f"{transformation.name!r} is too late: the job of its input was {self._ended}; start the next"
                " one with from_source(...)"
            )
        if transformation.explicit_uid is not None:
            _check_uid(transformation, transformation.explicit_uid)
        self._check_free(transformation, transformation.uid)
        self._transformations.append(transformation)

    def add_inputs(self, transformation: Transformation, inputs: tuple[Input, ...]) -> None:
        """Add inputs to an operator. An input may have been defined after the operator, but must not depend on it."""
        downstream = self._with_downstream([transformation])
        transformation.inputs += inputs
        others = (operator for operator in self._transformations if operator not in downstream)
        self._transformations = [*others, *(operator for operator in self._transformations if operator in downstream)]

    def remove_operators(self, transformations: Iterable[Transformation]) -> None:
        removed = self._with_downstream(transformations)
        if removed:
            self._is_submitted = False  # The user is changing the refused program, so the remaining operators stay.
        self._transformations = [operator for operator in self._transformations if operator not in removed]

    def _with_downstream(self, transformations: Iterable[Transformation]) -> set[Transformation]:
        downstream = set(transformations)
        for transformation in self._transformations:
            # Inputs come before their readers, so one pass finds all operators.
            if any(edge.source in downstream for edge in transformation.inputs):
                downstream.add(transformation)
        return downstream

    def submit(self) -> None:
        """Mark the program as submitted. If `close` is not called afterwards, the job was refused."""
        self._is_submitted = True

    def for_source(self) -> Program:
        """Return the program for a new source: this program, or a new program if this program was submitted and
        refused.

        Thus a refused program can be fixed and executed again, or defined again from its first line.
        """
        if not self._is_submitted:
            return self
        self._ended = "refused, and another one has been started"
        return self._notify_followers(Program(self._files, self._after, cached=self.cached, number=self._number))

    def close(self, job_name: str) -> Program:
        """Mark the program as executed under this name, which invalidates its streams, and return its successor."""
        self._ended = "executed already"
        return self._notify_followers(Program(self._files, job_name, cached=self.cached, number=self._number + 1))

    def on_successor(self, move: Callable[[Program], None]) -> None:
        """Call a method with each successor of this program, as long as its object is referenced."""
        self._followers.append(WeakMethod(move))

    def _notify_followers(self, program: Program) -> Program:
        for follower in self._followers:
            move = follower()
            if move is not None:
                move(program)
                program._followers.append(follower)
        return program

    def set_uid(self, transformation: Transformation, uid: str) -> None:
        _check_uid(transformation, uid)
        self._check_free(transformation, uid)
        transformation.explicit_uid = uid

    def _check_free(self, operator: Transformation, uid: str) -> None:
        for other in self._transformations:
            if other is not operator and other.uid == uid:
                raise DuplicateUidError(
                    f"the uid {uid!r} for {operator.name!r} belongs to {other.name!r} ({other.call_site}): give each"
                    " operator one of its own"
                )


def _check_uid(operator: Transformation, uid: object) -> None:
    if not isinstance(uid, str) or not uid.strip():
        raise ProgramError(f"the uid of {operator.name!r} must be a permanent name, not {uid!r}")


def try_on_prototype(operator: object, attempt: Callable[[], T]) -> T:
    """Run a user's code on a prototype and return its result.

    Raises:
        StreamTypeError: the code does not fit the stream; the message begins with the operator.
    """
    try:
        return attempt()
    except PrototypeError as misfit:
        raise StreamTypeError(f"{operator}: {misfit}") from None
    except Exception as raised:
        raised.add_note(f"flykka: while {operator} was tried on an empty DataFrame with the stream's schema")
        raise


def one_of(kind: type[E], value: E | str, what: str) -> E:
    """Return a member of an enum, given as member or name. `what` names the parameter in `ProgramError`."""
    try:
        return kind(value)
    except ValueError as unknown:
        raise ProgramError(f"the {what} must be one of {', '.join(kind)}, not {value!r}") from unknown


def at_least_one(number: int, what: str) -> int:
    return _whole_number(number, what, least=1)


def at_least_one_if_any(number: int | None, what: str) -> int | None:
    return None if number is None else at_least_one(number, what)


def parallelism_or_auto(parallelism: int | str, what: str) -> int:
    """Parse a parallelism: a number, or `"auto"` for all slots. Raises `ProgramError`, which names `what`."""
    if parallelism == AUTO:
        return PARALLELISM_AUTO_MAX
    if isinstance(parallelism, str):
        raise ProgramError(f'the {what} must be a whole number from 1, or "auto", not {parallelism!r}')
    return at_least_one(parallelism, what)


def not_negative(number: int, what: str) -> int:
    return _whole_number(number, what, least=0)


def _whole_number(number: int, what: str, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ProgramError(f"the {what} must be a whole number from {least}, not {number!r}")
    return number


def check_one_program(what: str, ours: Program, theirs: Program) -> None:
    if theirs is not ours:
        raise ProgramError(f"{what}: they belong to two environments, or to two jobs of one environment")
