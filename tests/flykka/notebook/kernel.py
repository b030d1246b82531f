"""A real Jupyter kernel, driven as by a frontend: runs cells, collects outputs, and updates displays by id."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.layout.sources import ROOT

PATIENCE = 60.0
"""The number of seconds that a cell may take. A busy machine starts a JVM slowly."""


def wait_until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Poll a condition that another process makes true without a notification.

    Raises:
        TimeoutError: the condition is still false after `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came of it in {patience} s")
        time.sleep(0.02)


class CellError(AssertionError):
    """Raised if a cell raises; the text is the traceback."""


@dataclass(slots=True)
class Cell:
    message_id: str
    printed: str = ""
    shown: list[dict[str, str]] = field(default_factory=list)
    display_ids: list[str] = field(default_factory=list)
    error: tuple[str, str] | None = None
    """The name and text of the exception."""
    traceback: str = ""
    done: bool = False

    @property
    def text(self) -> str:
        return self.shown[-1]["text/plain"]


@dataclass(slots=True)
class Update:
    at: float
    data: dict[str, str]


class Kernel:
    """A kernel that runs from its construction until the end of a `with` statement."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        settings = {"PYTHONPATH": path, "IPYTHONDIR": str(folder / "ipython"), "PYTHONWARNINGS": "default"}
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(env={**os.environ, **settings}, cwd=str(folder))
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE)
        self._cells: dict[str, Cell] = {}
        self.updates: defaultdict[str, list[Update]] = defaultdict(list)

    @property
    def pid(self) -> int:
        pid = self._manager.provisioner.pid  # type: ignore[union-attr]
        assert isinstance(pid, int)
        return pid

    def run(self, code: str, *, cell_id: str | None = None, patience: float = PATIENCE) -> Cell:
        """Run a cell to its end. Cells with the same id are one cell that is edited and run again.

        Raises:
            CellError: the cell raised.
        """
        cell = self.wait(self.start(code, cell_id=cell_id), patience)
        if cell.error is not None:
            raise CellError(cell.traceback)
        return cell

    def start(self, code: str, *, cell_id: str | None = None) -> Cell:
        # By default a kernel drops requests that arrive just after an error.
        content = {"code": code, "silent": False, "allow_stdin": False, "stop_on_error": False}
        request = self._client.session.msg(
            "execute_request", content, metadata={} if cell_id is None else {"cellId": cell_id}
        )
        self._client.shell_channel.send(request)
        cell = Cell(request["header"]["msg_id"])
        self._cells[cell.message_id] = cell
        return cell

    def wait(self, cell: Cell, patience: float = PATIENCE) -> Cell:
        """Handle messages until the cell has completed.

        Raises:
            queue.Empty: the cell has not completed after `patience` seconds.
        """
        deadline = time.monotonic() + patience
        while not cell.done:
            self.listen(deadline - time.monotonic())
        return cell

    def listen(self, patience: float = PATIENCE) -> None:
        """Handle the next message of the kernel.

        Raises:
            queue.Empty: no message arrived within `patience` seconds.
        """
        self._hear(self._client.get_iopub_msg(timeout=patience))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def restart(self) -> None:
        self._manager.restart_kernel()
        self._client.wait_for_ready(timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def _hear(self, heard: dict[str, Any]) -> None:
        content = heard["content"]
        if heard["msg_type"] == "update_display_data":
            self.updates[content["transient"]["display_id"]].append(Update(time.monotonic(), content["data"]))
        cell = self._cells.get(heard["parent_header"].get("msg_id", ""))
        if cell is None:
            return
        match heard["msg_type"]:
            case "stream":
                cell.printed += content["text"]
            case "display_data" | "execute_result":
                cell.shown.append(content["data"])
                if display_id := content.get("transient", {}).get("display_id"):
                    cell.display_ids.append(display_id)
            case "error":
                cell.error = content["ename"], content["evalue"]
                cell.traceback = "\n".join(content["traceback"])
            case "status" if content["execution_state"] == "idle":
                cell.done = True
            case _:
                pass
