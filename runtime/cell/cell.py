"""The cell: an actor apart from its instance, which a restart replaces (Akka's ActorCell). It is the Pykka actor.

Rules:
- The state of a cell is used in its own turns only. Other cells and threads send it signals.
- The exception is a kill, which may come from any thread at any time: it sets `end_reason` under the tree's lock, and
  from then on the cell has no effects. So each effect checks `end_reason` first, and whatever is registered at the same
  moment (a resource, a watcher, an alarm) checks `end_reason` once more afterwards.
- Only the thread that sets `end_reason` releases the cell.
"""

from __future__ import annotations

import logging
from contextvars import Context
from typing import TYPE_CHECKING, Any

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.runtime.actor import Actor
from flykka.runtime.cell.children import Children
from flykka.runtime.cell.death_watch import DeathWatch
from flykka.runtime.cell.fault_handling import FaultHandling
from flykka.runtime.cell.lifecycle import CellState, on_signal
from flykka.runtime.cell.parts import LazyPart, Resources, SeededRandom
from flykka.runtime.context import ActorContext
from flykka.runtime.events import ActorTerminated, EndReason
from flykka.runtime.futures.future import Termination
from flykka.runtime.leader_session import LeaderSessions
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, TellEntry
from flykka.runtime.pykka_seam import PykkaActor
from flykka.runtime.recording import begin_record, end_record
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import Watch
from flykka.runtime.time.timers import Timers
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from asyncio import Task

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.parts import Behaviour, Behaviours, Stash
    from flykka.runtime.cell.receive_timeout import ReceiveTimeoutTask
    from flykka.runtime.dispatch.dispatcher import Dispatcher
    from flykka.runtime.futures.promise import Reply
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")

# A constant, because the member is read in every turn and looking up an Enum member is slow.
_RUNNING = CellState.RUNNING
_ENDING = CellState.ENDING


class Cell(PykkaActor):
    """An actor from start to end, including restarts. `ref.incarnation` distinguishes actors at the same path."""

    __slots__ = (
        "_death_watch",
        "_now",
        "_resources",
        "_seeded_random",
        "_sessions",
        "_timers",
        "asking",
        "behaviour",
        "behaviours",
        "children",
        "current",
        "dispatcher",
        "effects",
        "end_reason",
        "faults",
        "instance",
        "mailbox",
        "name",
        "parent",
        "props",
        "receive_timeout",
        "ref",
        "sequence",
        "stash",
        "state",
        "system",
        "termination",
        "turns",
        "variables",
    )

    on_loop = False
    """True if the cell's thread is an event loop, which it shares with other cells and must not block."""

    death_watch = LazyPart(DeathWatch)
    timers = LazyPart(Timers)
    resources = LazyPart(Resources)
    sessions = LazyPart(lambda _: LeaderSessions())
    seeded_random = LazyPart(SeededRandom.for_cell)

    def __init__(
        self, system: ActorSystem, parent: Cell | None, props: Props, name: str, path: str, incarnation: int
    ) -> None:
        self.system = system
        self.termination = Termination(system.driver)
        self.mailbox = system.mailbox(self, props, path)
        self.ref = ActorRef(system, path, incarnation, self.mailbox)
        self.become_pykka_actor(self.ref, self.mailbox, self.termination)

        self.parent = parent
        self.props = props
        self.name = name
        self.dispatcher: Dispatcher = system.dispatcher.for_cell(props.dispatcher)
        self.state = CellState.STARTING
        self.end_reason: EndReason | None = None
        self.instance: Actor | None = None
        self.behaviour: Behaviour | None = None
        self.children = Children()
        self.faults = FaultHandling(self)
        self.current: TellEntry | Envelope | None = None
        # Parts that few actors need are created on first use.
        self.behaviours: Behaviours | None = None
        self.stash: Stash | None = None
        self.receive_timeout: ReceiveTimeoutTask | None = None
        self.turns = 0
        """The number of turns, for inspection. Counted per run, so that it costs nothing per turn."""
        self.asking: Reply | None = None
        self.sequence: int | None = None
        self.effects: list[Effect] | None = None
        self._now: int | None = None
        self._seeded_random: SeededRandom | None = None
        self._death_watch: DeathWatch | None = None
        self._timers: Timers | None = None
        self._resources: Resources | None = None
        self._sessions: LeaderSessions | None = None
        # An actor has its own context variables, whichever threads its turns run on.
        self.variables = Context()

    def __str__(self) -> str:
        return str(self.ref)

    # Read by the instance, through its context

    @property
    def sender(self) -> Ref | None:
        current = self.current
        if type(current) is tuple:
            return current[1]
        return current.sender if isinstance(current, Envelope) else None

    @property
    def handles(self) -> str | None:
        """The class of the message or signal that is being handled. May be read from any thread."""
        current = self.current
        return None if current is None else type(Envelope.wrap(current).message).__name__

    def now(self) -> int:
        if self._now is None:
            self._now = self.system.clock.now_ms()
        return self._now

    # This time is for the actor itself. The readings of a coroutine between its waits are recorded instead.
    read_time = now

    def may_act(self, *effect: object) -> bool:
        """Record an effect of this turn. Returns False if the cell has ended and must not have the effect."""
        if self.end_reason is not None:
            return False
        if self.effects is not None:
            self.effects.append(effect)
        return True

    def start(self) -> None:  # type: ignore[override]  # Pykka's `start` is a constructor; ours works on the made cell.
        """Create the instance in a first turn. If no thread can be started, the cell is killed."""
        try:
            self.launch()
        except BaseException:
            self.system.kill(self.ref)
            raise

    def make_instance(self) -> Actor:
        instance = self.props.make()
        if not isinstance(instance, Actor):
            raise TypeError(
                f"{self.props} returned a {type(instance).__name__}, which is not a flykka.runtime.actor.Actor"
            )
        instance.context = ActorContext(self)
        self.instance = instance
        self.behaviours = None
        self.set_behaviour(instance.handle_message)
        return instance

    def set_behaviour(self, behaviour: Behaviour) -> None:
        timeout = self.receive_timeout
        self.behaviour = behaviour if timeout is None else timeout.wrap(behaviour)

    def begin_task(self, task: Task[Any]) -> None:
        """Cancel a task of an event loop together with the instance. Does nothing in other cells."""

    def is_main_task(self) -> bool:
        return False

    def release_all(self) -> None:
        self._release_parts()
        self.mailbox.close()

    def _release_parts(self) -> None:
        """Release the parts that a turn may have acquired, even if the turn continued after a kill."""
        if self.stash is not None:
            self.stash.reject_all()
        if self._timers is not None:
            self._timers.cancel_all()
        if self.receive_timeout is not None:
            self.receive_timeout.cancel()
        self.faults.cancel_backoff()
        if self._resources is not None:
            self._resources.close_all()
        self.instance = self.behaviour = self.behaviours = None

    def announce_end(self) -> None:
        assert self.end_reason is not None
        self.death_watch.announce()
        self.system.event_stream.publish(ActorTerminated(ref=self.ref, reason=self.end_reason))
        self.conclude()

    # Called by the mailbox

    @property
    def receptive(self) -> bool:
        return self.state is _RUNNING

    def schedule(self) -> None:
        self.dispatcher.execute(self)

    def reject(self, envelope: Envelope) -> None:
        reason = "the recipient was killed" if self.end_reason is EndReason.KILLED else "the recipient has stopped"
        self.system.dead_letters.reject(envelope, self.ref, reason)

    def reject_signal(self, envelope: Envelope) -> None:
        if isinstance(envelope.message, Watch):
            self.death_watch.on_watch(envelope.message.watcher)

    def run(self) -> None:
        """Run as many turns as the dispatcher allows at a time. The caller holds the mailbox's claim for this cell."""
        outer, RUNNING.cell, RUNNING.run = (RUNNING.cell, RUNNING.run), self, (self,)
        try:
            self.variables.run(self._take_turns)
            if self.state is _ENDING:
                self.state = CellState.ENDED
                self.release_all()
                self.announce_end()
            elif self.end_reason is not None:
                self._release_parts()  # The cell was killed on another thread during the run.
        finally:
            RUNNING.cell, RUNNING.run = outer
            self.current = None
            self.mailbox.release()

    def _take_turns(self) -> None:
        control, messages = self.mailbox.control, self.mailbox.messages
        entry: TellEntry | Envelope
        turns = 0
        for turns in range(1, self.dispatcher.throughput + 1):
            try:
                if control:
                    entry = control.popleft()
                elif messages and self.state is _RUNNING:
                    entry = messages.popleft()
                else:
                    turns -= 1
                    break
            except IndexError:
                turns -= 1
                break  # A kill on another thread has drained the mailbox.
            if not isinstance(entry, Envelope):
                self._tell_turn(entry)
            elif isinstance(entry, SignalEnvelope):
                self._signal_turn(entry)
            else:
                self._message_turn(entry)
        self.turns += turns

    def _tell_turn(self, entry: TellEntry) -> None:
        """Handle a plain tell that no recorder or hook observes: the fast path of `_message_turn`."""
        message = entry[0] if isinstance(entry, tuple) else entry
        if self.system.observed or type(message) is LeaderSessionMessage:
            self._message_turn(Envelope.wrap(entry))
            return
        behaviour = self.behaviour
        # Checked after reading the behaviour, which a release sets to None.
        if self.end_reason is not None or behaviour is None:
            self.reject(Envelope.wrap(entry))
            return
        self._now = None
        self.current = entry
        try:
            behaviour(message)
        except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
            self._on_raised(error, Envelope.wrap(entry))

    def _message_turn(self, envelope: Envelope) -> None:
        recorder = self.system.recorder
        behaviour = self.behaviour
        self._now = None
        if recorder is not None:
            begin_record(self)
        # Checked after drawing the sequence number, so that no turn of a killed actor has a higher number than the
        # kill.
        if self.end_reason is not None or behaviour is None:
            self.reject(envelope)
            return
        self.current = envelope
        failure = None
        try:
            message = envelope.message if type(envelope) is Envelope else envelope.open(self)
            if type(message) is LeaderSessionMessage:
                message = self.sessions.unwrap(self, message, envelope)
            if message is None or (self.system.hooks and not self.system.passes_hooks(self, message, envelope)):
                self.effects = None
                return
            outcome = behaviour(message)
            if outcome is not None and self._suspend(outcome, envelope):
                return
        except BaseException as error:  # noqa: BLE001 - any failure is the parent's to judge.
            failure = self._on_raised(error, envelope)
        if recorder is not None:
            end_record(self, recorder, envelope, failure)
        if envelope.reply_to is not None and self._was_killed():
            envelope.reply_to.refuse("it was killed while it handled the message")

    def _signal_turn(self, envelope: SignalEnvelope) -> None:
        recorder = self.system.recorder
        self._now = None
        self.current = envelope
        if recorder is not None:
            begin_record(self)
        if self.end_reason is not None:
            self.reject_signal(envelope)
            return
        failure = on_signal(self, envelope)
        if recorder is not None:
            end_record(self, recorder, envelope, failure)

    def _on_raised(self, error: BaseException, envelope: Envelope) -> SerializedThrowable | None:
        if self.end_reason is not None:
            # The actor was killed during its turn. The kill may be the cause of the failure, so no parent decides
            # about it.
            logger.debug("%s raised after its end", self.ref, exc_info=error)
            return None
        failure = self.faults.fail(error)
        if envelope.reply_to is not None:
            envelope.reply_to.fail(failure)
        return failure

    def _suspend(self, outcome: object, envelope: Envelope) -> bool:
        """Continue the turn in the handler's coroutine. Returns False if that is impossible without an event loop."""
        if envelope.reply_to is not None:
            envelope.reply_to.refuse_returned(outcome)
        return False

    def _was_killed(self) -> bool:
        return self.end_reason is EndReason.KILLED
