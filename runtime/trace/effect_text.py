"""Effects in words: what came of a turn, in short."""

from __future__ import annotations

from typing import assert_never

from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.runtime.trace.effects import (
    AcceptSession,
    Awaited,
    Become,
    CancelTimer,
    CutShort,
    Effect,
    Kill,
    Lookup,
    Own,
    Pipe,
    Publish,
    ReadClock,
    Refused,
    Reject,
    Reply,
    RevokeSession,
    Send,
    SetReceiveTimeout,
    Spawn,
    StartTimer,
    Stash,
    Stop,
    Subscribe,
    Supervise,
    Terminate,
    Unbecome,
    UnstashAll,
    Unsubscribe,
    Unwatch,
    Watch,
)
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_text, message_name


def effects_text(record: Record) -> str:
    """What came of it, in short: the fields of a message are told where it was handled."""
    match record:
        case Turn(effects=effects):
            return "; ".join(map(effect_text, effects))
        case Killed():
            return ""
        case Spawned(actor=actor):
            return f"made by {actor}"
        case DeadLetterRecord(reason=reason):
            return reason
        case _:
            assert_never(record)


def effect_text(effect: Effect) -> str:
    """One effect, in short."""
    match effect:
        case Send(target=target, message=message):
            verb = "forwards" if effect.forwarded else "sends" if effect.promise is None else "asks"
            return f"{verb} {message_name(message)} to {target.path}"
        case Reply(message=message):
            return f"replies {message_name(message)}"
        case Publish(message=message):
            return f"publishes {message_name(message)}"
        case Reject(reason=reason):
            return f"rejects the message: {reason}"
        case Awaited():
            return _outcome_text(effect)
        case ReadClock():
            return "reads the clock"
        case CutShort():
            return "is killed"
        case Refused(path=path, reason=reason):
            return f"is refused {path}: {reason}"
        case Lookup(path=path, refs=refs):
            found = ", ".join(f"{ref.path}#{ref.incarnation}" for ref in refs)
            return f"looks up {path}: {found or 'nobody'}"
        case StartTimer() | CancelTimer() | SetReceiveTimeout():
            return _timer_text(effect)
        case Spawn() | Stop() | Kill() | Watch() | Unwatch() | Supervise() | Terminate():
            return _life_text(effect)
        case _:
            return _own_text(effect)


def _outcome_text(effect: Awaited) -> str:
    if effect.failure is not None:
        return f"goes on with {failure_text(effect.failure)}"
    return "goes on" if effect.message is None else f"goes on with {message_name(effect.message)}"


def _timer_text(effect: StartTimer | CancelTimer | SetReceiveTimeout) -> str:
    match effect:
        case StartTimer(key=key, first_ms=first_ms, delay_ms=delay_ms):
            again = "" if delay_ms is None else f", then every {delay_ms} ms"
            return f"starts timer {key} in {first_ms} ms{again}"
        case CancelTimer(key=key):
            return f"cancels timer {key}"
        case SetReceiveTimeout(timeout_ms=None):
            return "sets no receive timeout"
        case SetReceiveTimeout(timeout_ms=timeout_ms):
            return f"sets a receive timeout of {timeout_ms} ms"
        case _:
            assert_never(effect)


def _life_text(effect: Spawn | Stop | Kill | Watch | Unwatch | Supervise | Terminate) -> str:
    match effect:
        case Spawn(ref=ref):
            return f"spawns {ref.path}"
        case Stop(ref=ref):
            return f"stops {ref.path}"
        case Kill(ref=ref):
            return f"kills {ref.path}"
        case Watch(ref=ref):
            return f"watches {ref.path}"
        case Unwatch(ref=ref):
            return f"unwatches {ref.path}"
        case Supervise(child=child, directive=directive, delay_ms=delay_ms):
            later = f" in {delay_ms} ms" if delay_ms else ""
            return f"decides {directive} for {child.path}{later}"
        case Terminate():
            return "terminates the system"
        case _:
            assert_never(effect)


def _own_text(
    effect: Pipe
    | Stash
    | UnstashAll
    | Subscribe
    | Unsubscribe
    | Own
    | Become
    | Unbecome
    | AcceptSession
    | RevokeSession,
) -> str:
    """What an actor does to its own mailbox, behaviour and belongings."""
    match effect:
        case Pipe(work=BlockingWork(function=function)):
            return f"begins blocking work: {function}"
        case Pipe():
            return "begins blocking work"
        case Stash():
            return "stashes the message"
        case UnstashAll(count=count):
            return f"unstashes {count} messages"
        case Subscribe(subscriber=subscriber, types=types):
            return f"subscribes {subscriber} to {', '.join(types)}"
        case Unsubscribe(subscriber=subscriber, types=types):
            return f"unsubscribes {subscriber} from {', '.join(types) or 'everything'}"
        case Own(resource=resource):
            return f"takes over a {resource}"
        case Become(behaviour=behaviour):
            return f"becomes {behaviour}"
        case Unbecome():
            return "unbecomes"
        case AcceptSession(leader_session_id=session):
            return f"accepts session {session}"
        case RevokeSession(leader_session_id=session):
            return f"revokes session {session}"
        case _:
            assert_never(effect)
