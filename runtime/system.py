"""The actor system: the tree of cells, and the services that they share."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import EncodeError
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime import path as paths
from flykka.runtime.actor import Actor
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.tree import Tree
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import (
    InvalidActorNameError,
    SpawnRefusedError,
    TerminationTimeoutError,
    WaitInTurnError,
)
from flykka.runtime.event_stream import EventStream
from flykka.runtime.futures.future import Future, Termination
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.inspection.snapshot import ActorTree, Inspection
from flykka.runtime.inspection.watchdog import Watchdog
from flykka.runtime.mailbox.dead_letters import DeadLetters, EmptyLocalActorRef
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.patterns.coordinated_shutdown import CoordinatedShutdown, ShutdownReason
from flykka.runtime.props import Props
from flykka.runtime.pykka_seam import sweep as sweep_registry
from flykka.runtime.ref import ActorRef
from flykka.runtime.selection import ActorSelection
from flykka.runtime.signals import Failed, Stop
from flykka.runtime.supervision import GUARDIAN_STRATEGY
from flykka.runtime.time.clock import Clock, SystemClock
from flykka.runtime.turn import RUNNING, outside_turn, record_effect

if TYPE_CHECKING:
    from typing import Self

    from flykka.runtime.dispatch.dispatcher import Dispatcher
    from flykka.runtime.durations import Duration
    from flykka.runtime.inspection.snapshot import SystemSnapshot
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Recorder

DeliveryHook = Callable[[ActorRef, Message, Ref | None], None]

logger = logging.getLogger("flykka.runtime")


class Guardian(Actor):
    """The parent of the top-level actors: it restarts actors that fail and stops those that cannot start."""

    supervisor_strategy = GUARDIAN_STRATEGY


class SystemTermination(Termination):
    __slots__ = ("_system",)

    def __init__(self, system: ActorSystem) -> None:
        super().__init__(system.driver)
        self._system = system

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of all actors, with one deadline.

        Raises:
            TerminationTimeoutError: actors are still running after `timeout` seconds. The error names them.
            WaitInTurnError: called in a turn of one of these actors.
        """
        if not self.ended_within(timeout):
            system = self._system
            raise TerminationTimeoutError(
                system.name, system.coordinated_shutdown.pending() or system.cells.living_paths()
            )
        return True

    def ended_within(self, timeout: float | None) -> bool:
        """Wait like `wait`, but return False instead of raising `TerminationTimeoutError`."""
        return super().wait(timeout)

    def _wait(self, timeout: float | None) -> bool:
        cell = RUNNING.cell
        if cell is not None and cell.system is self._system:
            raise WaitInTurnError(f"{cell} would wait for the end of its own system {self._system.name} forever")
        return super()._wait(timeout)


class ActorSystem:
    """Actors under `/user`, with one clock, one dispatcher and one event stream. A process may have several systems.

    A `with` block terminates the system at its end, and waits at most the default ask timeout for the termination.

    Args:
        name: shown in logs, refs and traces.
        seed: the seed of every actor's `random` and `new_id`.
        clock: the real time by default; a seeded dispatcher has its own clock.
        dispatcher: a shared pool of threads by default.
        serialize_messages: encode and decode every message when it is sent; on in tests.
        recorder: records every turn.
        default_ask_timeout: seconds, for asks without a timeout.
        slow_turn_threshold: a turn that takes longer is reported with its stack; None for no watchdog. A system with a
            seeded dispatcher has none.
    """

    is_in_registry = True

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        clock: Clock | None = None,
        dispatcher: Dispatcher | None = None,
        serialize_messages: bool = False,
        recorder: Recorder | None = None,
        default_ask_timeout: float = 10.0,
        slow_turn_threshold: Duration | None = "1s",
    ) -> None:
        # Arguments are checked first, so that an error leaves no threads running.
        if not isinstance(default_ask_timeout, int | float) or not 0 < default_ask_timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"default_ask_timeout is a number of seconds above 0, not {default_ask_timeout!r}")
        threshold_ms = None
        if slow_turn_threshold is not None:
            threshold_ms = positive_duration_ms(slow_turn_threshold, "slow_turn_threshold")
        if recorder is not None:
            recorder.open(system=name, seed=seed)
        self.name = name
        self.seed = seed
        self.dispatcher = dispatcher or SharedPool()
        self.driver = self.dispatcher.driver
        self.clock: Clock = clock or self.dispatcher.clock or SystemClock()
        self.serialize_messages = serialize_messages
        self.recorder = recorder
        self.before_turn: Callable[[Cell], None] | None = getattr(recorder, "before_turn", None)
        self.default_ask_timeout = default_ask_timeout
        self.event_stream = EventStream()
        self.dead_letters = DeadLetters(self)
        self.hooks: tuple[DeliveryHook, ...] = ()
        self.observed = recorder is not None
        """True if turns are recorded or delivery hooks are set."""
        self.terminated = SystemTermination(self)
        self.cells = Tree(self)
        self.coordinated_shutdown = CoordinatedShutdown(self)
        self._inspection = Inspection(self)
        self._watchdog: Watchdog | None = None
        self._promises: dict[int, PromiseRef] = {}
        self._promise_numbers = itertools.count(1)
        self._sequences = itertools.count(1)
        self.user = self._start_guardians()
        if self.driver is None:
            # A system with a seeded dispatcher has no threads to end.
            self.coordinated_shutdown.run_at_exit()
            if threshold_ms is not None:
                self._watchdog = Watchdog(self, threshold_ms)

    def spawn(self, props: Props, name: str) -> ActorRef:
        """Spawn a new actor under `/user`.

        Raises:
            InvalidActorNameError: the name is malformed, or a living actor has it.
            SpawnRefusedError: the system is terminating or has ended.
        """
        spawner = RUNNING.cell
        if spawner is not None and spawner.system is self:
            return self.spawn_in_turn(spawner, self.user, props, name)
        cell = self.cells.attach(self.user, props, name)
        if self.recorder is not None:
            self.recorder.spawned(self.next_sequence(), self.clock.now_ms(), cell.ref, self.user.ref, props)
        cell.start()
        return cell.ref

    def find(self, path: str) -> ActorRef | None:
        """Return the ref of the actor that lives at `path`, or None."""
        cell = self.cells.find(path)
        refs = self.look_up(path, () if cell is None else (cell.ref,))
        return refs[0] if refs else None

    def actor_selection(self, path: str) -> ActorSelection:
        """Select the actors at `path` when a message is sent. The path may contain the wildcards `*` and `?`."""
        return ActorSelection(self, paths.absolute_path(paths.ROOT, path))

    def resolve(self, path: str, incarnation: int) -> Ref:
        """Return the ref of this actor or pending ask. If it has ended, messages to the ref become dead letters."""
        if path.startswith(paths.TEMP):
            promise = self._promises.get(incarnation)
            if promise is not None:
                return promise
        cell = self.cells.find(path)
        if cell is not None and cell.ref.incarnation == incarnation:
            return cell.ref
        return self.dead_ref(path, incarnation)

    def kill(self, ref: Ref) -> None:
        """End an actor and everything below it at once, as if its process had died. For fault injection.

        No hook runs, no further turn runs, and no message is sent. A turn on another thread may run to its end there,
        without effects. Resources of the actors are closed, their waiting messages become dead letters, and watchers
        outside the subtree get `Terminated`. May be called from any thread, also in hooks and turns.
        """
        record_effect("kill", ref)
        killed = self.cells.mark_killed(ref)
        if self.recorder is not None:
            now_ms = self.clock.now_ms()
            for cell in killed:
                self.recorder.killed(self.next_sequence(), now_ms, cell.ref)
        # Children come first. No watcher is notified before every mailbox is closed.
        killed.reverse()
        with outside_turn():
            for cell in killed:
                cell.release_all()
            for cell in killed:
                cell.announce_end()

    def inspect(self) -> SystemSnapshot:
        """Take a snapshot of every actor: state, mailbox, turns, restarts, last failure. No actor is asked."""
        return self._inspection.take_snapshot()

    def tree(self, max_children: int = 50) -> ActorTree:
        """Return the same snapshot as a printable tree, with at most `max_children` children of each actor."""
        return ActorTree(self.inspect(), max_children)

    def terminate(self) -> SystemTermination:
        """Run the tasks of the coordinated shutdown, then stop all actors, children before parents.

        Returns `terminated`, which completes after the last actor. A second call joins the first.
        """
        record_effect("terminate")
        return self.coordinated_shutdown.run(ShutdownReason.ACTOR_SYSTEM_TERMINATE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate().wait(timeout=self.default_ask_timeout)

    # For test kits

    def add_delivery_hook(self, hook: DeliveryHook) -> Callable[[], None]:
        """Call `hook(recipient, message, sender)` right before each message is handled, on the thread that handles it.

        A hook may kill actors, even the recipient, whose message is then not handled. Returns a function that removes
        the hook.
        """
        self.hooks = (*self.hooks, hook)
        self.observed = True

        def remove() -> None:
            self.hooks = tuple(each for each in self.hooks if each is not hook)
            self.observed = bool(self.hooks) or self.recorder is not None

        return remove

    # For cells and refs

    def spawn_in_turn(self, spawner: Cell, parent: Cell, props: Props, name: str) -> ActorRef:
        """Spawn an actor under `parent` in a turn of `spawner`. Raises the errors of `spawn`.

        The tree's lock is held throughout, so a kill of the spawner comes either before or after the spawning. So an
        actor spawned by a killed actor never lives, and every living actor is recorded.
        """
        with self.cells.lock:
            if spawner.end_reason is not None:
                return self.dead_ref(paths.child_path(parent.ref.path, name))
            try:
                cell = self.admit(parent, props, name)
            except (InvalidActorNameError, SpawnRefusedError) as error:
                # The result depends on the lives of other actors at the time, so it is an input of the turn, which a
                # replay repeats.
                record_effect("refused", f"{parent.ref.path}/{name}", type(error).__name__, str(error))
                raise
            record_effect("spawn", cell.ref, props.factory_name)
        cell.start()
        return cell.ref

    def admit(self, parent: Cell, props: Props, name: str) -> Cell:
        """Add a new cell to the tree, for a turn. Raises the errors of `Tree.attach`."""
        return self.cells.attach(parent, props, name)

    def living(self, ref: Ref) -> ActorRef:
        """Return the kernel's form of any ref."""
        if isinstance(ref, ActorRef):
            return ref
        resolved = self.resolve(ref.path, ref.incarnation)
        return resolved if isinstance(resolved, ActorRef) else self.dead_ref(ref.path, ref.incarnation)

    def look_up(self, path: str, refs: tuple[ActorRef, ...]) -> tuple[ActorRef, ...]:
        """Return `refs`, the actors at a path, and record them as an input of the turn, which a replay repeats."""
        record_effect("lookup", path, refs)
        return refs

    def undecided(self, child: Cell, failed: Failed, error: BaseException | None) -> BaseException | None:
        """Return the error for which `child` awaits a directive, or None if it was restarted meanwhile."""
        return None if child.faults.error is None else error or child.faults.error

    def read_clock(self) -> int:
        """Return the time for a step of a coroutine, which is an input of its turn, repeated by a replay."""
        now_ms = self.clock.now_ms()
        record_effect("read_clock", now_ms)
        return now_ms

    def dead_ref(self, path: str, incarnation: int = 0) -> ActorRef:
        """Return a ref without an actor. Messages to it become dead letters."""
        return EmptyLocalActorRef(self, path, incarnation).ref

    def promise(self, recipient: ActorRef) -> PromiseRef:
        """Return a ref for one reply of `recipient`."""
        number = next(self._promise_numbers)
        promise = self._promises[number] = PromiseRef(self, number, recipient, self._promises)
        return promise

    def wire(self, message: object) -> Message:
        """Encode and decode a message. Raises `EncodeError` if it cannot be encoded."""
        if not isinstance(message, Message):
            raise EncodeError(
                f"a {type(message).__name__} is not a message: declare its class with @message, derived from Message"
            )
        received = decode(encode(message), self.resolve)
        assert isinstance(received, Message)
        return received

    def mailbox(self, cell: Cell, props: Props, path: str) -> Mailbox:
        """Create the mailbox of a new cell at `path`."""
        return Mailbox(cell, None if props.mailbox is None else props.mailbox.create(cell))

    def incarnation(self, path: str, following: int) -> int:
        """Return the incarnation of the next actor at `path`: `following`, unless a replay knows another."""
        return following

    @property
    def is_live(self) -> bool:
        """False while recorded turns are replayed: their waits have the recorded outcomes."""
        return True

    def waits(self, cell: Cell, future: Future[Any]) -> None:
        """Called when a coroutine of `cell` waits for `future`. A replay provides the recorded outcome."""

    def next_sequence(self) -> int:
        """Return the next sequence number of turns, kills and dead letters."""
        return next(self._sequences)

    def passes_hooks(self, cell: Cell, message: Message, envelope: Envelope) -> bool:
        """Call the delivery hooks, logging those that fail. Returns False if one has killed the recipient."""
        with outside_turn():
            for hook in self.hooks:
                try:
                    hook(cell.ref, message, envelope.sender)
                except BaseException:
                    logger.exception("delivery hook %r failed on %r", hook, message)
        if cell.end_reason is not None:
            cell.reject(envelope)
        return cell.end_reason is None

    # Start and end

    def _start_guardians(self) -> Cell:
        root = self.cells.create_root(Props(Guardian))
        user = self.cells.attach(root, Props(Guardian), "user")
        # Any end of /user, also by a kill, ends the system.
        user.termination.add_done_callback(lambda: root.ref.signal(Stop()))
        root.termination.add_done_callback(self._finish)
        with outside_turn():
            root.start()
            user.start()
        return user

    def _finish(self) -> None:
        for promise in list(self._promises.values()):
            # The clock ends too, so no deadline would fail these asks.
            promise.refuse("the system has terminated without a reply")
        self.coordinated_shutdown.forget_exit()
        sweep_registry()
        closing = [self.dispatcher.shutdown, self.clock.close]
        if self._watchdog is not None:
            closing.insert(0, self._watchdog.close)
        if self.recorder is not None:
            closing.append(self.recorder.close)
        for close in closing:
            try:
                close()
            except Exception:
                # If a user's recorder cannot be closed, waiting threads must still continue.
                logger.exception("actor system %s: %s failed", self.name, close.__qualname__)
        self.terminated.set()
        logger.debug("actor system %s has terminated", self.name)
