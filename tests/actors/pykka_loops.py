"""Records which turns of actors run in Pykka's own loop, and on which threads."""

from __future__ import annotations

import threading
import traceback
from collections import defaultdict

from pykka import _actor

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

LOOP = [(_actor.__file__, "_actor_loop"), (_actor.__file__, "_actor_loop_running")]


class PykkaLoops:
    def __init__(self, system: ActorSystem) -> None:
        self.in_loop: defaultdict[str, set[bool]] = defaultdict(set)
        """For each path, whether Pykka's loop was in the stacks of the actor's turns."""
        self.threads: defaultdict[str, set[int]] = defaultdict(set)
        system.add_delivery_hook(self._look)

    def _look(self, recipient: ActorRef, _message: Message, _sender: Ref | None) -> None:
        calls = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_stack(None)]
        self.in_loop[recipient.path].add([call for call in reversed(calls) if call in LOOP] == LOOP)
        self.threads[recipient.path].add(threading.get_ident())

    def assert_pinned(self, *ends: str) -> None:
        """Assert that all turns of actors with these name prefixes ran in Pykka's loop, on one thread per actor."""
        for end in ends:
            found = [path for path in list(self.in_loop) if path.rpartition("/")[2].startswith(end)]
            assert found, f"no turn of {end}"
            for path in found:
                assert self.in_loop[path] == {True}, path
                assert len(self.threads[path]) == 1, path
