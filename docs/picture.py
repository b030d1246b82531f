"""The picture of a run: `python docs/picture.py FILE.svg`.

Runs the flights example as `flykka run` does, and saves what its terminal shows when the first checkpoint after the
kill has completed.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from rich.console import Console as RichConsole

from flykka.api.launch import Launch, Look, launched
from flykka.cli.run.app import App
from flykka.client.job_client import JobClient
from flykka.console.event_lines import Console
from flykka.console.job_picture import JobPicture
from flykka.messages.control.job import CheckpointCompleted, JobRestored
from flykka.messages.wire.message import Message

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "flights.py"
WIDTH = 118


class Terminal(RichConsole):
    """An invisible terminal. It breaks long lines, as every terminal does, because a picture would truncate them."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor")

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as any console does, always breaking lines."""
        super().print(*objects, **{**settings, "soft_wrap": False})


class Photographer(Launch):
    """Takes one picture, of the first job."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file
        self._restored = False
        self.taken = False

    def job_submitted(self, client: JobClient, *, keeps_checkpoints: bool, look: Look = tuple) -> None:
        """Listen to a job, with a terminal of its own."""
        terminal = Terminal()
        lines = Console(terminal)
        terminal.print("$ flykka run examples/flights.py", style="bold", highlight=False)

        def hear(message: Message) -> None:
            if self.taken:
                return
            lines(message)
            self._restored = self._restored or isinstance(message, JobRestored)
            if self._restored and isinstance(message, CheckpointCompleted):
                terminal.print(JobPicture(client.details))
                terminal.save_svg(self._file, title="flykka run")
                self.taken = True

        client.add_listener(hear)


def main() -> int:
    """Run the example and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.svg", help="where to save the picture")
    photographer = Photographer(parser.parse_args().file)
    with launched(photographer):
        try:
            App(str(EXAMPLE)).run()
        except SystemExit as ended:
            if ended.code:
                return 1
    return 0 if photographer.taken else 1


if __name__ == "__main__":
    sys.exit(main())
