"""`flykka debug`: a prompt in a recorded run. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse
import cmd
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.cli.arguments import TRACE_FILE, add_import, describe
from flykka.cli.exit_codes import DIFFERENT, OK, UNREADABLE, fail
from flykka.cli.trace.trace_file import import_modules, run_on_trace
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.session.breakpoint import Breakpoint
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.state.description import Absent, lines_of, part_of
from flykka.traces.origin import begin_of, origin, shortcomings
from flykka.views.text.turns import cause_lines, change_lines, effect_lines, turn_line

if TYPE_CHECKING:
    from flykka.runtime.replay.session.session import ReplaySession, Step

_DESCRIPTION = """\
Walk through a recorded run: every turn is taken again by the actors' own code,
and between two turns one can look at what every actor knows. Nothing of what the
run did outside happens again: no Spark, no files, no clients.

Type `help` for the commands. They can come from a pipe as well:

  echo 'state' | flykka debug run.trace --break 'CheckpointCoordinator <- DeclineCheckpoint'
"""

_EPILOG = """\
examples:
  flykka debug run.trace --until 142
  flykka debug run.trace --break 'JobMaster <- *Failed' --break 'DeclineCheckpoint(checkpoint_id=7)'

exit codes:
  0  everything that was replayed is as it was recorded
  1  a turn was not as it was recorded
  2  there is no such file, it is no trace, or there is no such turn
  3  an error of this command itself
"""
_AROUND = 5
_SHOWN = 6
_HELP = """\
  step [N]           s     take the next turn, or N of them
  next               n     go to the next turn of this actor, or to a breakpoint before it
  back [N]           b     go back a turn, or N of them
  continue           c     go to the next breakpoint, divergence, or the end
  break [WHERE]            stop at turns such as CheckpointCoordinator <- DeclineCheckpoint; alone: which there are
  clear                    have no breakpoints any more
  at N                     go behind turn N, forward or back
  list [N]           l     the turns around
  where              w     the turn, whole
  effects            e     what it did
  changes                  what it changed of its actor
  state [PATH] [PART]      what an actor knows, or a part such as _machine.pending[7]; alone: the actor of the turn
  why                      the turns that led here
  actors                   who is replayed, and who is not
  quit               q     end, as Ctrl-D does
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    stop = "stop behind turns of this actor with this message; either may be left out, may be given several times"
    parser.add_argument(
        "--break", dest="breakpoints", metavar="ACTOR <- MESSAGE", action="append", default=[], help=stop
    )
    parser.add_argument("--until", metavar="N", type=int, help="begin behind turn N")
    add_import(parser)
    parser.set_defaults(run=debug)


def debug(arguments: argparse.Namespace) -> int:
    return run_on_trace("flykka debug", arguments.file, lambda trace: _debug(trace, arguments))


def _debug(trace: TraceReader, arguments: argparse.Namespace) -> int:
    # The actors take a second to load, which `--help` should not have to wait for.
    from flykka.replay.replayer import Replayer

    import_modules(arguments.modules)
    session = Replayer(modules=arguments.modules).session(trace)
    try:
        breakpoints = [Breakpoint.parse(text) for text in arguments.breakpoints]
        if arguments.until is not None:
            session.at(arguments.until)
    except ReplaySessionError as refusal:
        return fail(f"flykka debug: {refusal}", UNREADABLE)
    debugger = Debugger(session, breakpoints)
    debugger.go_to_first_breakpoint()
    debugger.run()
    return DIFFERENT if debugger.has_diverged else OK


class Debugger(cmd.Cmd):
    """The prompt of `flykka debug`: commands, and what they print. Everything they know comes from a `ReplaySession`.

    It reads from a terminal with editing and history, from a pipe line by line with an echo.
    """

    def __init__(self, session: ReplaySession, breakpoints: Iterable[Breakpoint] = ()) -> None:
        super().__init__()
        self._session = session
        self._breakpoints = list(breakpoints)
        self._began_ms = begin_of(session.trace)
        self._interactive = sys.stdin.isatty()
        self.use_rawinput = self._interactive
        self.has_diverged = False

    def go_to_first_breakpoint(self) -> None:
        """Say where one is, and go to the first breakpoint."""
        self.say(f"{origin(self._session.trace)}; `help` lists the commands")
        for missing in shortcomings(self._session.trace):
            self.say(f"# {missing}")
        if self._session.position:
            self._tell(self._session.here)
        elif self._breakpoints:
            self._go_to(self._breakpoints)

    def run(self) -> None:
        """Obey until the end. Ctrl-C gives a new prompt."""
        while True:
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                self.say("")
            else:
                return

    def say(self, text: str) -> None:
        print(text, file=self.stdout)

    # The loop

    @property
    def prompt(self) -> str:  # type: ignore[override]
        turn = self._session.turn
        return f"({'beginning' if turn is None else f'turn {turn.sequence}'}) "

    def precmd(self, line: str) -> str:
        """Show what has come from a pipe, so that what is printed reads as on a terminal."""
        if not self._interactive and line != "EOF":
            self.say(line)
        return line

    def onecmd(self, line: str) -> bool:
        """Obey a command, and tell why one is refused."""
        try:
            return super().onecmd(line)
        except ReplaySessionError as refusal:
            self.say(str(refusal))
            return False

    def emptyline(self) -> bool:
        """On a terminal the last command again, as in every debugger."""
        return bool(self._interactive and self.lastcmd and self.onecmd(self.lastcmd))

    def default(self, line: str) -> None:
        self.say(f"no command: {line.split()[0]!r}; `help` lists them")

    def do_help(self, _words: str) -> None:
        self.say(_HELP.rstrip())

    def do_quit(self, _words: str) -> bool:
        return True

    def do_EOF(self, _words: str) -> bool:
        self.say("")
        return True

    # Moving

    def do_step(self, words: str) -> None:
        self._tell(self._session.step(_number(words, 1)))

    def do_next(self, _words: str) -> None:
        turn = self._session.turn
        if turn is None:
            self._tell(self._session.step())
            return
        self._go_to([Breakpoint(actor=turn.recipient.path), *self._breakpoints])

    def do_back(self, words: str) -> None:
        step = self._session.back(_number(words, 1))
        if step is None:
            self.say("this is the beginning")
        else:
            self._tell(step)

    def do_at(self, words: str) -> None:
        self._tell(self._session.at(_number(words)))

    def do_continue(self, _words: str) -> None:
        self._go_to(self._breakpoints)

    def do_break(self, words: str) -> None:
        if words:
            self._breakpoints.append(Breakpoint.parse(words))
        for number, each in enumerate(self._breakpoints, start=1):
            self.say(f"{number:>3}  {each}")
        if not self._breakpoints:
            self.say("no breakpoints; `break CheckpointCoordinator <- DeclineCheckpoint` makes one")

    def do_clear(self, _words: str) -> None:
        self._breakpoints.clear()

    # Looking

    def do_list(self, words: str) -> None:
        count = _number(words, _AROUND)
        for turn in self._session.recent(count):
            mark = "->" if turn is self._session.turn else "  "
            self.say(f"{mark} {turn_line(turn, self._began_ms)}")
        for turn in self._session.upcoming(count):
            self.say(f"   {turn_line(turn, self._began_ms)}")

    def do_where(self, _words: str) -> None:
        self._tell(self._session.here, shown=None)

    def do_effects(self, _words: str) -> None:
        turn = self._session.turn
        self._say_all([] if turn is None else effect_lines(turn), "it did nothing to others")

    def do_changes(self, _words: str) -> None:
        self._say_all(change_lines(self._session.changes), "it changed nothing of its actor")

    def do_state(self, words: str) -> None:
        path, _, part = words.partition(" ")
        if path and not path.startswith("/") and not part and self._is_part(path):
            path, part = "", path
        state = part_of(self._session.state(path or None), part.strip())
        if isinstance(state, Absent):
            raise ReplaySessionError(f"there is no {part.strip()} in it")
        self._say_all(lines_of(state), "nothing")

    def do_why(self, _words: str) -> None:
        self._say_all(cause_lines(self._session.why(), self._began_ms), "it was sent from outside the recorded run")

    def do_actors(self, _words: str) -> None:
        for path in self._session.actors():
            self.say(f"  {path}")
        for path, why in self._session.boundary.items():
            self.say(f"  {path}  is not replayed: {why}")

    do_s, do_n, do_b, do_c, do_l, do_w, do_e, do_q = (
        do_step, do_next, do_back, do_continue, do_list, do_where, do_effects, do_quit
    )  # fmt: skip

    def _go_to(self, breakpoints: list[Breakpoint]) -> None:
        step = self._session.run_to(breakpoints)
        if step is None:
            last = self._session.turn
            self.say(f"no {'further turn there' if breakpoints else 'breakpoint'}: this is the end")
            if last is None:
                return
        self._tell(step or self._session.here)

    def _is_part(self, path: str) -> bool:
        """True if someone means a part of the actor of the turn, and not an actor."""
        known = {*self._session.actors(), *self._session.boundary}
        if self._session.turn is None or f"/user/{path}" in known:
            return False
        return not isinstance(part_of(self._session.state(), path), Absent)

    def _tell(self, step: Step | None, shown: int | None = _SHOWN) -> None:
        if step is None:
            self.say("this is the end" if self._session.position else "this is the beginning")
            return
        self.say(turn_line(step.turn, self._began_ms))
        self._say_some("did", effect_lines(step.turn), "effects", shown)
        self._say_some("changed", change_lines(step.changes), "changes", shown)
        if self._session.divergence is not None:
            self.has_diverged = True
            self.say(self._session.divergence.text())

    def _say_some(self, title: str, lines: list[str], command: str, shown: int | None) -> None:
        for number, line in enumerate(lines[:shown]):
            self.say(f"  {title if number == 0 else '':<9}{line}")
        if shown is not None and len(lines) > shown:
            self.say(f"  {'':<9}... and {len(lines) - shown} more: {command}")

    def _say_all(self, lines: list[str], otherwise: str) -> None:
        for line in lines or [otherwise if self._session.position else "this is the beginning"]:
            self.say(f"  {line}")


def _number(words: str, default: int | None = None) -> int:
    if not words and default is not None:
        return default
    if not words.isdecimal() or not int(words):
        raise ReplaySessionError(f"a number above 0 is wanted, not {words!r}")
    return int(words)
