"""Parses programs that are written in words.

A program is written as `src > map(uid x) > keyed reduce > sink and > map > sink2`. `and >` continues from the source.
`and same with y` repeats the operators after the last operator with a uid, and gives the last repeated operator the uid
y. Brackets are chains: `src>[map>filter]`. A name is written `map(name A)` or `map named A`. Clauses about the whole
program follow a semicolon or a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from tests.conformance.case_files import UnknownWordError

# Cases refer to another case's program by its distinctive feature.
_UNION_PROGRAM = "src > map > filter > keyed reduce > map and src > filter and src > filter, union, sink"
_NAMED = {"the union program of chain-union-not-chained": _UNION_PROGRAM, "the union program": _UNION_PROGRAM}
_AGAIN = re.compile(r"(the )?same( program)?( built)?( again| twice)?(?= *(,|;|$|with |but ))")
_KINDS = {"src", "source", "map", "filter", "reduce", "flatmap", "process", "sink"}
_OPERATOR = re.compile(
    r"(?P<open>\[?)\s*(?P<keyed>keyed )?(?P<name>\w+)(?: named \"?(?P<called>\w+)\"?)?"
    r"\s*(\((?P<ids>[^)]*)\))?\s*(?P<close>\]?)"
)
_KEY_BY = re.compile(r"key_?by\s*>\s*", re.IGNORECASE)
_NAMES_CHANGED = (
    r"(all )?(operators? )?(are )?(renamed|names changed|named differently)"
    r"|(with )?(other|different|changed) (operator )?names"
)
_UIDS = r"(all )?(with )?(manual )?uids( everywhere)?"
_NUMBERS = {"two": 2, "three": 3, "four": 4}


@dataclass(frozen=True, kw_only=True)
class WrittenOperator:
    """An operator that refers to its inputs by index."""

    name: str
    inputs: tuple[int, ...]
    is_keyed: bool = False
    uid: str | None = None
    uid_hash: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS


@dataclass(kw_only=True)
class WrittenProgram:
    operators: list[WrittenOperator] = field(default_factory=list)
    chaining_enabled: bool = True
    auto_generated_uids: bool = True
    parallelism: int = 1

    def add(self, operator: WrittenOperator) -> int:
        self.operators.append(operator)
        return len(self.operators) - 1


def read_program(text: str, before: WrittenProgram | None) -> WrittenProgram:
    """Parse a text, which may describe a program that equals `before` except for the clauses after it."""
    text = re.sub(r"\s*(?:->|→)\s*", " > ", _NAMED.get(text.strip(), text.strip()))
    same = _AGAIN.match(text)
    if same is not None and before is not None:
        written = replace(before, operators=list(before.operators))
        said = text[same.end() :]
    else:
        written, said = _flow(text)
    said = re.sub(r"(\w+) and (\w+) start (?:a )?new chains?", r"\1 starts a new chain, \2 starts a new chain", said)
    for clause in re.split(r"[;,]|\band\b", said):
        _apply(clause.strip(), written)
    return written


def _flow(text: str) -> tuple[WrittenProgram, str]:
    written = WrittenProgram()
    text = re.sub(r"one source feeding two identical ([^;,]+?) branches", r"src > \1 and > \1", text)
    many = re.match(r"(\w+) (?:identical )?sources, union, sink", text)
    if many is not None:
        sources = [written.add(WrittenOperator(name="src", inputs=())) for _ in range(_NUMBERS[many[1]])]
        written.add(WrittenOperator(name="sink", inputs=tuple(sources)))
        return written, text[many.end() :]
    flow, _, said = _KEY_BY.sub("keyed ", text).partition(";")
    # A comma within brackets belongs to an operator.
    flow, _, clauses = re.sub(r",(?![^(]*\))", "\0", flow, count=1).partition("\0")
    suffix = re.search(r"\s+(?:without\s.*|with (?:parallelism|other|all|\w* ?uids).*|(?:all |fully )?chained)$", flow)
    if suffix is not None:
        flow, said = flow[: suffix.start()], f"{said};{suffix[0].strip().removeprefix('with ')}"
    ends: list[int] = []
    for number, branch in enumerate(re.split(r"\s+and\s+", flow)):
        if branch.startswith("same with "):
            _repeat(written, branch.removeprefix("same with "))
        else:
            ends.append(_branch(written, branch, is_first=number == 0))
    if clauses.startswith(" union, "):
        target, _, clauses = clauses.removeprefix(" union, ").partition(",")
        written.add(WrittenOperator(name=target.strip(), inputs=tuple(ends)))
    return written, ";".join([clauses, said])


def _branch(written: WrittenProgram, text: str, *, is_first: bool) -> int:
    steps = text.split(">")
    last: int | None = None
    if not is_first and not steps[0].strip():
        last, steps = 0, steps[1:]
    behind_chain = False
    for step in steps:
        found = _OPERATOR.fullmatch(step.strip())
        if found is None or re.sub(r"\d+$", "", found["name"]) not in _KINDS:
            raise UnknownWordError(f"operator {step.strip()!r}")
        begins = last is not None and (bool(found["open"]) or behind_chain)
        ids = _ids(found["ids"] or "")
        last = written.add(
            WrittenOperator(
                name=ids.get("name") or found["called"] or found["name"],
                inputs=() if last is None else (last,),
                is_keyed=bool(found["keyed"]),
                chaining=ChainingStrategy.HEAD if begins else ChainingStrategy.ALWAYS,
                # `(uid)` means that the operator has some uid.
                uid=ids.get("uid") or (found["name"] if "uid" in ids else None),
                uid_hash=ids.get("hash"),
            )
        )
        behind_chain = bool(found["close"])
    assert last is not None
    return last


def _ids(text: str) -> dict[str, str]:
    ids: dict[str, str] = {}
    for said in filter(None, (each.strip() for each in text.split(","))):
        word, _, name = re.sub(r"^(?:user|uid) hash", "hash", said).partition(" ")
        if word not in ("uid", "hash", "name") or (not name and word != "uid"):
            raise UnknownWordError(f"({text})")
        ids[word] = name.strip()
    return ids


def _repeat(written: WrittenProgram, uid: str) -> None:
    """Repeat the last branch after its last operator with a uid; the last operator gets the uid `uid`."""
    end = len(written.operators) - 1
    begin = max(place for place in range(end) if written.operators[place].uid is not None)
    last = begin
    for operator in written.operators[begin + 1 :]:
        last = written.add(replace(operator, inputs=(last,)))
    written.operators[last] = replace(written.operators[last], uid=uid)


def _apply(clause: str, written: WrittenProgram) -> None:
    named = re.fullmatch(
        r"(\w+) (starts a new chain|is not chained|disables chaining|(?:is )?renamed|has another name)", clause
    )
    called = re.fullmatch(r"(?:with |but )?(\w+) (?:is )?(?:named|called|renamed to) \"?(\w+)\"?", clause)
    match clause:
        case "" | "without uids":
            return
        case _ if called is not None:
            place = _place(called[1], clause, written)
            written.operators[place] = replace(written.operators[place], name=called[2])
        case _ if re.fullmatch(_UIDS, clause):
            written.operators = [
                replace(each, uid=each.uid or f"{each.name}-{place}") for place, each in enumerate(written.operators)
            ]
        case _ if re.fullmatch(r"(all |fully )?chained|chaining (is )?(on|enabled)", clause):
            return
        case _ if re.fullmatch(r"chaining (is )?(switched |turned )?(off|disabled)|not chained|no chaining", clause):
            written.chaining_enabled = False
        case _ if re.fullmatch(r"auto(matic|-generated)? uids (are )?(switched |turned )?(off|disabled)", clause):
            written.auto_generated_uids = False
        case _ if re.fullmatch(_NAMES_CHANGED, clause):
            written.operators = [replace(each, name=f"{each.name}-renamed") for each in written.operators]
        case _ if found := re.fullmatch(r"parallelism (\d+)", clause):
            written.parallelism = int(found[1])
        case _ if named is not None:
            place = _place(named[1], clause, written)
            written.operators[place] = _changed(written.operators[place], named[2])
        case _:
            raise UnknownWordError(clause)


def _place(name: str, clause: str, written: WrittenProgram) -> int:
    names = [operator.name for operator in written.operators]
    # A source is recognised under any name.
    if name in ("src", "source") and name not in names:
        return 0
    if name not in names:
        raise UnknownWordError(f"{clause!r} of a program without it")
    return names.index(name)


def _changed(operator: WrittenOperator, how: str) -> WrittenOperator:
    match how:
        case "starts a new chain":
            return replace(operator, chaining=ChainingStrategy.HEAD)
        case "is not chained" | "disables chaining":
            return replace(operator, chaining=ChainingStrategy.NEVER)
        case _:
            return replace(operator, name=f"{operator.name}-renamed")
