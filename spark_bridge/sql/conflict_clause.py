"""ON CONFLICT DO ERROR, DO DEDUPLICATE or DO NOTHING, which Spark's grammar lacks, at the end of an INSERT.

The syntax is Flink's. The clause is cut out and blanked before Spark parses the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flykka.spark_bridge.sql.plan_node import Position, SqlTextError
from flykka.spark_bridge.sql.tokens import Token, blanked, position_at, tokens
from flykka.spark_bridge.worker.upsert_rules import ConflictRule

FORM = f"INSERT INTO table SELECT ... ON CONFLICT {' | '.join(f'DO {each}' for each in ConflictRule)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictClause:
    rule: ConflictRule
    position: Position


def without_conflict_clause(text: str) -> tuple[str, ConflictClause | None]:
    """Return the text without the clause, and the clause or None.

    Raises:
        SqlTextError: the clause has another form, is not at the end, or the statement is no INSERT.
    """
    sequence = tokens(text)
    start = next((place for place in range(len(sequence)) if _is_clause(sequence[place:])), None)
    if start is None:
        return text, None
    position = position_at(text, sequence[start].start)
    if not sequence[1 if sequence[0].matches("EXPLAIN") else 0].matches("INSERT"):
        raise SqlTextError(f"ON CONFLICT belongs to an INSERT: {FORM}", position, "")
    match [token.raw.upper() for token in sequence[start + 2 :]]:
        case ["DO", word] if word in list(ConflictRule):
            clause = ConflictClause(rule=ConflictRule(word), position=position)
            return blanked(text, sequence[start].start, sequence[-1].end), clause
    raise SqlTextError(f"the clause is the last one of a statement, and names no column: {FORM}", position, "")


def _is_clause(sequence: Sequence[Token]) -> bool:
    """Return True at ON CONFLICT with DO, possibly after columns in parentheses: it is no condition of a join."""
    if len(sequence) < 3 or not (sequence[0].matches("ON") and sequence[1].matches("CONFLICT")):
        return False
    end = next((place for place, token in enumerate(sequence) if token.matches(")")), None)
    after = 2 if end is None or not sequence[2].matches("(") else end + 1
    return any(token.matches("DO") for token in sequence[after : after + 1])
