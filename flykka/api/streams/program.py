"""The operators of one environment, in the order in which they were written down."""

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
    """Takes operators in, each under a uid of its own."""

    def __init__(
        self,
        files: RegisteredFiles | None = None,
        after: str | None = None,
        *,
        cached: CachedStreams | None = None,
        number: int = 1,
    ) -> None:
        """`files` and `cached` streams are those of the environment, `after` is the job before in it.

        `number` is that of the job that it becomes.
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
        """The files that were registered, for functions that are tried."""
        return self._files

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """Every operator, after all of its inputs."""
        return tuple(self._transformations)

    def leading_to_sinks(self) -> tuple[Transformation, ...]:
        """Return the transformations of a job. As with a DataFrame, those without a reader are not computed.

        So the other half of a stream that was parted may be left alone, and so may what a notebook has tried. A cached
        stream is read from what is kept of it, or computed and kept.

        Raises:
            ProgramError: there are no operators, or no sink; or another job still computes what is to be kept.
            DuplicateUidError: an operator that leads to a cached stream has the uid of one that is here.
        """
        if not self._transformations:
            if self._after is None:
                raise ProgramError("the program has no operators: begin with from_source(...)")
            raise ProgramError(
                f"nothing was written down since job {self._after!r} was executed: begin the next one with"
                " from_source(...)"
            )
        read = {made for made in self._transformations if made.kind is OperatorKind.SINK}
        if not read:
            last = self._transformations[-1]
            raise ProgramError(f"the program writes nothing: end a stream with sink_to(...), perhaps that of {last}")
        for transformation in reversed(self._transformations):
            # What it feeds stands behind it, and was looked at.
            if transformation in read:
                read.update(edge.source for edge in transformation.inputs)
        return self.cached.resolved([made for made in self._transformations if made in read], self._number)

    @property
    def next_position(self) -> int:
        """The position of the operator that is added next: the first, from 1, that no other has."""
        taken = {transformation.position for transformation in self._transformations}
        return next(position for position in count(1) if position not in taken)

    def add(self, transformation: Transformation) -> None:
        """Take an operator in.

        Raises:
            DuplicateUidError: another was given the uid that this one has.
            ProgramError: the program has ended, and would go on without it; or the uid is none.
        """
        if self._ended is not None:
            raise ProgramError(
                f"{transformation.name!r} comes too late: the job of its input was {self._ended}; begin the next"
                " one with from_source(...)"
            )
        if transformation.explicit_uid is not None:
            _check_uid(transformation, transformation.explicit_uid)
        self._check_free(transformation, transformation.uid)
        self._transformations.append(transformation)

    def add_inputs(self, transformation: Transformation, inputs: tuple[Input, ...]) -> None:
        """Let an operator read more, which may have been written down behind it, and is not made of what it makes."""
        behind = self._and_behind([transformation])
        transformation.inputs += inputs
        others = (made for made in self._transformations if made not in behind)
        self._transformations = [*others, *(made for made in self._transformations if made in behind)]

    def take_back(self, transformations: Iterable[Transformation]) -> None:
        """Forget operators, and all that they feed."""
        gone = self._and_behind(transformations)
        if gone:
            self._is_submitted = False  # It is being mended, and what is left is still wanted.
        self._transformations = [kept for kept in self._transformations if kept not in gone]

    def _and_behind(self, transformations: Iterable[Transformation]) -> set[Transformation]:
        found = set(transformations)
        for transformation in self._transformations:
            # Inputs come before what they feed: one pass finds everything.
            if any(edge.source in found for edge in transformation.inputs):
                found.add(transformation)
        return found

    def submit(self) -> None:
        """It is submitted as a job. Where it is not closed behind that, the job was refused."""
        self._is_submitted = True

    def for_source(self) -> Program:
        """The program that a source which is written down now belongs to: another one where this one was refused.

        So it can be mended and executed again, and can be written down again from its first line on.
        """
        if not self._is_submitted:
            return self
        self._ended = "refused, and another one was begun"
        return self._followed_by(Program(self._files, self._after, cached=self.cached, number=self._number))

    def close(self, job_name: str) -> Program:
        """It was executed under this name: its streams are at their end. Returns the program that follows it."""
        self._ended = "executed already"
        return self._followed_by(Program(self._files, job_name, cached=self.cached, number=self._number + 1))

    def when_followed(self, move: Callable[[Program], None]) -> None:
        """Call a method with each program that follows this one, as long as its object is referenced."""
        self._followers.append(WeakMethod(move))

    def _followed_by(self, program: Program) -> Program:
        for follower in self._followers:
            move = follower()
            if move is not None:
                move(program)
                program._followers.append(follower)
        return program

    def set_uid(self, transformation: Transformation, uid: str) -> None:
        """Name an operator for good. Raises `DuplicateUidError` where the uid is taken, `ProgramError` if empty."""
        _check_uid(transformation, uid)
        self._check_free(transformation, uid)
        transformation.explicit_uid = uid

    def _check_free(self, wanted_by: Transformation, uid: str) -> None:
        for other in self._transformations:
            if other is not wanted_by and other.uid == uid:
                raise DuplicateUidError(
                    f"the uid {uid!r} for {wanted_by.name!r} belongs to {other.name!r} ({other.call_site}): give each"
                    " operator one of its own"
                )


def _check_uid(wanted_by: Transformation, uid: object) -> None:
    if not isinstance(uid, str) or not uid.strip():
        wanted = f"not {uid!r}" if uid else "not empty"
        raise ProgramError(f"the uid of {wanted_by.name!r} must be a text that names it for good, {wanted}")


def tried(operator: object, attempt: Callable[[], T]) -> T:
    """The outcome of trying a user's code on a prototype.

    Raises:
        StreamTypeError: the code does not fit the stream; the text begins with the operator.
    """
    try:
        return attempt()
    except PrototypeError as misfit:
        raise StreamTypeError(f"{operator}: {misfit}") from None
    except Exception as raised:
        raised.add_note(f"flykka: while {operator} was tried on an empty DataFrame with the stream's schema")
        raise


def one_of(kind: type[E], said: E | str, what: str) -> E:
    """The member of an enum that was said, itself or its name. Raises `ProgramError` where there is no such `what`."""
    try:
        return kind(said)
    except ValueError as unknown:
        raise ProgramError(f"the {what} must be one of {', '.join(kind)}, not {said!r}") from unknown


def at_least_one(number: int, what: str) -> int:
    """`number`. Raises `ProgramError`, which names `what`, below 1."""
    return _whole_number(number, what, least=1)


def at_least_one_if_any(number: int | None, what: str) -> int | None:
    """`number`, which may be None. Raises `ProgramError`, which names `what`, below 1."""
    return None if number is None else at_least_one(number, what)


def parallelism_or_auto(parallelism: int | str, what: str) -> int:
    """The parallelism: a number, or `"auto"` for what the slots give. Raises `ProgramError`, which names `what`."""
    if parallelism == AUTO:
        return PARALLELISM_AUTO_MAX
    if isinstance(parallelism, str):
        raise ProgramError(f'the {what} must be a whole number from 1, or "auto", not {parallelism!r}')
    return at_least_one(parallelism, what)


def not_negative(number: int, what: str) -> int:
    """`number`. Raises `ProgramError`, which names `what`, below 0."""
    return _whole_number(number, what, least=0)


def _whole_number(number: int, what: str, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ProgramError(f"the {what} must be a whole number from {least}, not {number!r}")
    return number


def check_one_program(what: str, ours: Program, theirs: Program) -> None:
    """Raise `ProgramError` where two streams that are put together, as `what` says, are of two programs."""
    if theirs is not ours:
        raise ProgramError(f"{what}: they are of two environments, or of two jobs of one environment")
