"""Temporal joins: rows of a keyed stream with the version of their key that held at their event time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.joined_inputs import add_temporal_join, check_joined, joined_rows
from flykka.api.streams.output_tag import OutputTag
from flykka.api.streams.program import tried
from flykka.api.streams.side_outputs import OwnOutputs
from flykka.api.streams.stateless_verbs import listed
from flykka.api.streams.windowed_rows import KeyedRows
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.temporal_join import TemporalJoin

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column


class TemporalJoinVerb(KeyedRows):
    """The verb of keyed streams that looks up what another one said of a key at a time."""

    def temporal_join(self, versions: TemporalJoinVerb) -> TemporalJoined:
        """Join each row with the version of its key that held at its event time, of a keyed stream of versions.

        That is the row of the key with the latest event time that is not later. `.select(*columns)` says what is made
        of a row and its version; `.left_outer()` keeps rows that have none. Of `versions` that can be deleted
        (`changelog.row_kind`), a deletion says that the key has no version from its time on. Rows wait until the
        watermark of both streams has come to their time.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or others than those by which its rows take the place of earlier ones; one
                of the two has no event time; or rows of this one take the place of earlier ones.
        """
        if not isinstance(versions, TemporalJoinVerb):
            raise StreamTypeError(
                f"temporal_join after {self._origins} takes another keyed stream, as key_by(...) gives it, not a"
                f" {type(versions).__name__}"
            )
        check_joined("temporal_join", self, versions)
        what = f"temporal_join of {self._origins} with {versions._origins}"
        if self._type.changelog.keys is not None:
            raise StreamTypeError(
                f"{what}: the rows of {self._origins} are {self._type.changelog}, and results of a row that changes"
                " would stay"
            )
        keys = versions._type.changelog.keys
        if keys is not None and set(keys) != set(versions._type.prototype.select(*versions._keys).columns):
            raise StreamTypeError(
                f"{what}: the rows of {versions._origins} are {versions._type.changelog}, so that is what a version is"
                f" of: key both streams by it, not by {listed(*versions._keys)}"
            )
        return TemporalJoined(self, versions, _Settings())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A temporal join, before it is said what is made of a row and its version."""

    is_outer: bool = False
    condition: Column | str | None = None
    tag: OutputTag | None = None


class TemporalJoined(NamesElsewhere):
    """A keyed stream, whose rows meet the versions of their keys in another one."""

    _foreign_names = ("temporal_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows, settings: _Settings) -> None:
        self._left = left
        self._right = right
        self._settings = settings

    def left_outer(self) -> TemporalJoined:
        """Give results of left rows that have no version too, with nulls for the right side."""
        return self._with(is_outer=True)

    def on(self, condition: Column | str) -> TemporalJoined:
        """Let a row meet its version only where a condition is true as well, over `left.` and `right.` columns.

        It does not choose among versions: a row whose version does not fit meets none.
        """
        return self._with(condition=condition)

    def side_output_late_data(self, tag: OutputTag) -> TemporalJoined:
        """Give left rows that come behind the watermark to a side output; else they are dropped, and counted.

        `get_side_output(tag)` of the result gives them with all their columns, which must all be exchanged and kept
        then.

        Raises:
            ProgramError: `tag` is no OutputTag.
        """
        if not isinstance(tag, OutputTag):
            raise ProgramError(f"side_output_late_data takes an OutputTag, such as OutputTag('late'), not {tag!r}")
        return self._with(tag=tag)

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of these columns of a left row and its version; its event time is that of the left row.

        It has that where its column is among them, under its own name. `left.name` and `right.name` are columns of the
        two sides, in strings and in `F.col(...)`; `name` alone is one that only one side has, and `left.*` all of a
        side. Only what is read of a row is exchanged and kept.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        settings, name = self._settings, f"temporal_join({listed(*columns)})"
        what = f"{name} of {self._left._origins} with {self._right._origins}"
        if not columns:
            raise ProgramError(f"{what} needs at least one column, such as 'left.*'")
        said = TemporalJoin(
            left=joined_rows(self._left, side_outputs_late_data=settings.tag is not None),
            right=joined_rows(self._right),
            columns=columns,
            condition=settings.condition,
            is_outer=settings.is_outer,
            row_kind=self._right._type.changelog.row_kind,
        )
        prototype, code, parts = tried(what, said.code)
        made = add_temporal_join(self._left._program, name, code, (self._left._inputs, self._right._inputs), parts)
        late = {} if settings.tag is None else {settings.tag: (Side.LEFT.late_data, self._left._type)}
        return self._left._emitted(made, self._left._type.of_rows(prototype), OwnOutputs(made, late) if late else None)

    def _with(self, **settings: Any) -> TemporalJoined:
        return TemporalJoined(self._left, self._right, replace(self._settings, **settings))
