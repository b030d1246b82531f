"""Methods with two streams: the rows of a program are combined with those of a table."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.differential.expressions import Column, typed
from benchmarks.differential.rows import Rows, Verbs, listed


class TwoStreamVerbs(Verbs):
    def _other(self, rows: Rows) -> tuple[Rows, Column, Column] | None:
        """Draw another table, and a column of each side as the key."""
        other = self._table(self._choices.of(("u", "t")))
        type_ = self._choices.of(("int", "string", "boolean", "double"))
        ours, theirs = (typed(side.columns, type_) for side in (rows, other))
        return (other, self._choices.of(ours), self._choices.of(theirs)) if ours and theirs else None

    def _connect(self, rows: Rows) -> Rows:
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        connected = f".connect({other.stream})"
        first, second = (repr((column.name,)) for column in (ours, theirs))
        type_ = f"{ours} {ours.type}"
        times = f".select({str(ours)!r})"
        theirs_text = f"{other.truth}.select({str(theirs)!r})"
        kept: tuple[Column, ...] = (Column(ours.name, ours.type),)
        match self._choices.below(4):
            case 0:
                stream, truth = f".process(Both({first}, {second}), {type_!r})", f"{times}.union({theirs_text})"
            case 1:
                stream, truth = f".map(MapBoth({first}, {second}), {type_!r})", f"{times}.union({theirs_text})"
            case 2:
                stream = f".flat_map(FlatMapBoth({first}, {second}), {type_!r})"
                truth = (
                    f".select({str(ours)!r}, F.explode(F.array(F.lit(0), F.lit(1)))).drop('col').union({theirs_text})"
                )
            case _:
                stream = (
                    f".key_by({str(ours)!r}, {str(theirs)!r}).process(NumberBoth(), {f'key {ours.type}, n bigint'!r})"
                )
                over = "CAST(row_number() OVER (PARTITION BY key ORDER BY 1) AS BIGINT) AS n"
                renamed = f".select(F.expr({str(ours)!r}).alias('key'))"
                truth = f"{renamed}.union({theirs_text}).select('key', F.expr({over!r}))"
                kept = (Column("key", ours.type), Column("n", "bigint"))
        return replace(rows.then(connected + stream, truth), time=None, own=None, columns=kept)

    def _joined(self, rows: Rows, verb: str, on: str, how: str = "inner", where: str = "") -> Rows:
        """Join with another table; `on` is the condition for DataFrames, with both sides' columns and times."""
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        names = {"ours": f"left.{ours}", "theirs": f"right.{theirs}", "at": f"left.{rows.time}"}
        names |= {"of": f"right.{other.time}", "key": str(theirs), "time": str(other.time), "id": str(other.own)}
        columns = [("left", column) for column in self._some(rows)] + [("right", self._choices.of(other.columns))]
        kept = tuple(Column(f"j{place}", column.type) for place, (_, column) in enumerate(columns))
        items = ", ".join(
            f"F.expr({f'{side}.{column}'!r}).alias({new.name!r})"
            for (side, column), new in zip(columns, kept, strict=True)
        )
        verb = verb.format(
            other=other.stream,
            **{name: repr(text) for name, text in names.items()},
            our=repr(str(ours)),
            their=repr(str(theirs)),
        )
        versions = where.format(**names)
        met_by = f"F.expr({on.format(**names)!r}), {how!r}"
        truth = f"{rows.truth}.alias('left').join({other.truth}{versions}.alias('right'), {met_by})"
        return Rows(f"{rows.stream}{verb}.select({items})", f"{truth}.select({items})", kept)

    def _regular_join(self, rows: Rows) -> Rows:
        return self._joined(rows, ".key_by({our}).regular_join({other}.key_by({their}))", "{ours} = {theirs}")

    def _interval_join(self, rows: Rows) -> Rows:
        verb = ".key_by({our}).interval_join({other}.key_by({their})).between('-10min', '5min')"
        bounds = "{of} BETWEEN {at} - INTERVAL 10 MINUTES AND {at} + INTERVAL 5 MINUTES"
        how = self._choices.of(("inner", "left", "right", "full"))
        outer = "" if how == "inner" else f".{how}_outer()"
        # Rows without an event time are dropped.
        timed = rows.then("", f".where({f'{rows.time} IS NOT NULL'!r})")
        versions = '.where(r"""{time} IS NOT NULL""")'
        joined = self._joined(timed, verb + outer, f"{{ours}} = {{theirs}} AND {bounds}", how, versions)
        return rows if joined is timed else joined

    def _temporal_join(self, rows: Rows) -> Rows:
        how = self._choices.of(("inner", "left"))
        verb = ".key_by({our}).temporal_join({other}.key_by({their}))" + (".left_outer()" if how == "left" else "")
        until = "lead({time}) OVER (PARTITION BY {key} ORDER BY {time}, {id})"
        versions = f'.where(r"""{{time}} IS NOT NULL""").withColumn("until", F.expr(r"""{until}"""))'
        on = "{ours} = {theirs} AND {of} <= {at} AND (right.until IS NULL OR right.until > {at})"
        timed = rows.then("", f".where({f'{rows.time} IS NOT NULL'!r})")
        joined = self._joined(timed, verb, on, how, versions)
        return rows if joined is timed else joined

    def _window_join(self, rows: Rows) -> Rows:
        verb = ".join({other}).where({our}).equal_to({their}).window(TumblingEventTimeWindows.of('15min'))"
        # Spark does not allow window(...) in a join condition. DIV would round times before 1970 towards zero.
        begin = "unix_micros({time}) - pmod(unix_micros({time}), 900000000)"
        same = f"{begin.replace('time', 'at')} = {begin.replace('time', 'of')}"
        joined = self._joined(rows, verb, f"{{ours}} = {{theirs}} AND {same}")
        return joined if joined is rows else joined.then(".drop('window_start', 'window_end')", "")

    def _co_group(self, rows: Rows) -> Rows:
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        ours_only, theirs_only = (listed(self._of_pandas(side)) for side in (rows, other))
        stream = (
            f".select({ours_only}).co_group({other.stream}.select({theirs_only})).where({str(ours)!r}).equal_to({str(theirs)!r})"
            ".window(TumblingEventTimeWindows.of('15min')).apply(counted_group, 'm bigint, n bigint')"
        )
        sides = [
            f"{side.truth}.select(F.expr({str(key)!r}).alias('key'), F.window(F.col({str(side.time)!r}), '15 minutes'),"
            f" F.lit({m}).alias('m'), F.lit({1 - m}).alias('n'))"
            for m, side, key in ((1, rows, ours), (0, other, theirs))
        ]
        truth = (
            f"{sides[0]}.union({sides[1]}).groupBy('key', 'window').agg(F.sum('m').alias('m'), F.sum('n').alias('n'))"
        )
        columns = (Column("m", "bigint"), Column("n", "bigint"))
        return Rows(rows.stream + stream, f"{truth}.select('m', 'n')", columns)
