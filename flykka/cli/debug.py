"""`flykka debug`: a prompt for stepping through a recorded run. Neither needs nor loads Spark."""

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
Step through a recorded run: the actors' own code replays every turn, and between
two turns you can inspect the state of every actor. External effects of the run are
not repeated: no Spark, no files, no clients.

Type `help` for the commands. They can come from a pipe as well:

  echo 'state' | flykka debug run.trace --break 'CheckpointCoordinator <- DeclineCheckpoint'
"""

_EPILOG = """\
examples:
  flykka debug run.trace --until 142
  flykka debug run.trace --break 'JobMaster <- *Failed' --break 'DeclineCheckpoint(checkpoint_id=7)'

exit codes:
  0  all replayed turns are as recorded
  1  a turn differs from the recording
  2  there is no such file, it is not a trace, or there is no such turn
  3  an internal error of this command
"""
_AROUND = 5
_SHOWN = 6
_HELP = """\
  step [N]           s     replay the next turn, or N turns
  next               n     go to the next turn of this actor, or to an earlier breakpoint
  back [N]           b     go back one turn, or N turns
  continue           c     go to the next breakpoint, divergence, or the end
  break [WHERE]            stop at turns such as CheckpointCoordinator <- DeclineCheckpoint; alone: list breakpoints
  clear                    delete all breakpoints
  at N                     go to the state after turn N, forward or back
  list [N]           l     show the neighbouring turns
  where              w     show the whole turn
  effects            e     show the effects of the turn
  changes                  show the changes to the state of its actor
  state [PATH] [PART]      show the state of an actor, or a part such as _machine.pending[7]; alone: the turn's actor
  why                      show the turns that caused this one
  actors                   show which actors are replayed and which are not
  quit               q     quit, as Ctrl-D does
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    stop = "stop after turns of this actor with this message; either may be omitted; may be repeated"
    parser.add_argument(
        "--break", dest="breakpoints", metavar="ACTOR <- MESSAGE", action="append", default=[], help=stop
    )
    parser.add_argument("--until", metavar="N", type=int, help="start after turn N")
    add_import(parser)
    parser.set_defaults(run=debug)


def debug(arguments: argparse.Namespace) -> int:
    return run_on_trace("flykka debug", arguments.file, lambda trace: _debug(trace, arguments))


def _debug(trace: TraceReader, arguments: argparse.Namespace) -> int:
    # Imported here because the import takes a second, which `--help` should not wait for.
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
    """The prompt of `flykka debug`: its commands and their output. All data comes from a `ReplaySession`.

    A terminal has editing and history. Input from a pipe is echoed line by line.
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
        self.write_line(f"{origin(self._session.trace)}; `help` lists the commands")
        for missing in shortcomings(self._session.trace):
            self.write_line(f"# {missing}")
        if self._session.position:
            self._show_step(self._session.here)
        elif self._breakpoints:
            self._go_to(self._breakpoints)

    def run(self) -> None:
        """Read and run commands until the end. Ctrl-C starts a new prompt."""
        while True:
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                self.write_line("")
            else:
                return

    def write_line(self, text: str) -> None:
        print(text, file=self.stdout)

    @property
    def prompt(self) -> str:  # type: ignore[override]
        turn = self._session.turn
        return f"({'beginning' if turn is None else f'turn {turn.sequence}'}) "

    def precmd(self, line: str) -> str:
        """Echo input from a pipe, so that the output looks as in a terminal."""
        if not self._interactive and line != "EOF":
            self.write_line(line)
        return line

    def onecmd(self, line: str) -> bool:
        try:
            return super().onecmd(line)
        except ReplaySessionError as refusal:
            self.write_line(str(refusal))
            return False

    def emptyline(self) -> bool:
        """Repeat the last command in a terminal, as other debuggers do."""
        return bool(self._interactive and self.lastcmd and self.onecmd(self.lastcmd))

    def default(self, line: str) -> None:
        self.write_line(f"no command: {line.split()[0]!r}; `help` lists them")

    def do_help(self, _words: str) -> None:
        self.write_line(_HELP.rstrip())

    def do_quit(self, _words: str) -> bool:
        return True

    def do_EOF(self, _words: str) -> bool:
        self.write_line("")
        return True

    def do_step(self, words: str) -> None:
        self._show_step(self._session.step(_number(words, 1)))

    def do_next(self, _words: str) -> None:
        turn = self._session.turn
        if turn is None:
            self._show_step(self._session.step())
            return
        self._go_to([Breakpoint(actor=turn.recipient.path), *self._breakpoints])

    def do_back(self, words: str) -> None:
        step = self._session.back(_number(words, 1))
        if step is None:
            self.write_line("this is the start of the trace")
        else:
            self._show_step(step)

    def do_at(self, words: str) -> None:
        self._show_step(self._session.at(_number(words)))

    def do_continue(self, _words: str) -> None:
        self._go_to(self._breakpoints)

    def do_break(self, words: str) -> None:
        if words:
            self._breakpoints.append(Breakpoint.parse(words))
        for number, each in enumerate(self._breakpoints, start=1):
            self.write_line(f"{number:>3}  {each}")
        if not self._breakpoints:
            self.write_line("no breakpoints; `break CheckpointCoordinator <- DeclineCheckpoint` makes one")

    def do_clear(self, _words: str) -> None:
        self._breakpoints.clear()

    def do_list(self, words: str) -> None:
        count = _number(words, _AROUND)
        for turn in self._session.recent(count):
            mark = "->" if turn is self._session.turn else "  "
            self.write_line(f"{mark} {turn_line(turn, self._began_ms)}")
        for turn in self._session.upcoming(count):
            self.write_line(f"   {turn_line(turn, self._began_ms)}")

    def do_where(self, _words: str) -> None:
        self._show_step(self._session.here, limit=None)

    def do_effects(self, _words: str) -> None:
        turn = self._session.turn
        self._print_all([] if turn is None else effect_lines(turn), "the turn had no effects")

    def do_changes(self, _words: str) -> None:
        self._print_all(change_lines(self._session.changes), "the turn did not change the state of its actor")

    def do_state(self, words: str) -> None:
        path, _, part = words.partition(" ")
        if path and not path.startswith("/") and not part and self._is_part(path):
            path, part = "", path
        state = part_of(self._session.state(path or None), part.strip())
        if isinstance(state, Absent):
            raise ReplaySessionError(f"there is no {part.strip()} in it")
        self._print_all(lines_of(state), "nothing")

    def do_why(self, _words: str) -> None:
        self._print_all(cause_lines(self._session.why(), self._began_ms), "it was sent from outside the recorded run")

    def do_actors(self, _words: str) -> None:
        for path in self._session.actors():
            self.write_line(f"  {path}")
        for path, why in self._session.boundary.items():
            self.write_line(f"  {path}  is not replayed: {why}")

    do_s, do_n, do_b, do_c, do_l, do_w, do_e, do_q = (
        do_step, do_next, do_back, do_continue, do_list, do_where, do_effects, do_quit
    )  # fmt: skip

    def _go_to(self, breakpoints: list[Breakpoint]) -> None:
        step = self._session.run_to(breakpoints)
        if step is None:
            last = self._session.turn
            self.write_line(f"no {'other match' if breakpoints else 'breakpoint'}: this is the end")
            if last is None:
                return
        self._show_step(step or self._session.here)

    def _is_part(self, path: str) -> bool:
        paths = {*self._session.actors(), *self._session.boundary}
        if self._session.turn is None or f"/user/{path}" in paths:
            return False
        return not isinstance(part_of(self._session.state(), path), Absent)

    def _show_step(self, step: Step | None, limit: int | None = _SHOWN) -> None:
        if step is None:
            self.write_line("this is the end" if self._session.position else "this is the beginning")
            return
        self.write_line(turn_line(step.turn, self._began_ms))
        self._print_some("did", effect_lines(step.turn), "effects", limit)
        self._print_some("changed", change_lines(step.changes), "changes", limit)
        if self._session.divergence is not None:
            self.has_diverged = True
            self.write_line(self._session.divergence.text())

    def _print_some(self, title: str, lines: list[str], command: str, limit: int | None) -> None:
        for number, line in enumerate(lines[:limit]):
            self.write_line(f"  {title if number == 0 else '':<9}{line}")
        if limit is not None and len(lines) > limit:
            self.write_line(f"  {'':<9}... and {len(lines) - limit} more: {command}")

    def _print_all(self, lines: list[str], otherwise: str) -> None:
        for line in lines or [otherwise if self._session.position else "this is the beginning"]:
            self.write_line(f"  {line}")


def _number(words: str, default: int | None = None) -> int:
    if not words and default is not None:
        return default
    if not words.isdecimal() or not int(words):
        raise ReplaySessionError(f"{words!r} is not a number above 0")
    return int(words)
