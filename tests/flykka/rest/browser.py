"""A page in Chromium, driven by the DevTools protocol over a pair of pipes, without a driver or a port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_SECONDS = 60.0


class Page:
    """An empty page in its own browser, which `close` ends. `errors` contains the errors on the page's console."""

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        assert CHROMIUM is not None, "there is no Chromium"
        self.errors: list[str] = []
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
        ]
        # Chromium reads commands from descriptor 3 and writes responses to descriptor 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        arguments = ["bash", "-c", shell, "chromium", CHROMIUM, *flags, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(arguments, pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + _SECONDS
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, f"{script} is not true of: {self.text()}"
        return found

    def text(self, element: str = "main") -> str:
        return str(self.run(f"document.querySelector({json.dumps(element)})?.innerText ?? ''"))

    def wait_text(self, text: str, element: str = "main") -> None:
        self.wait(f"document.querySelector({json.dumps(element)})?.innerText.includes({json.dumps(text)})")

    def click(self, button: str, within: str = "main") -> None:
        """Press the button, or follow the link, whose text begins with this text."""
        named = f"[...document.querySelectorAll({json.dumps(within + ' :is(a, button)')})]"
        self.wait(f"!!{named}.find((each) => each.innerText.startsWith({json.dumps(button)}))")
        self.run(f"{named}.find((each) => each.innerText.startsWith({json.dumps(button)})).click()")

    def key(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=_CODES[key], **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=_CODES[key])

    def picture(self, file: Path, *, whole: bool = False) -> None:
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, f"{method}: {said['error']}"
                return dict(said["result"])

    def close(self) -> None:
        os.write(self._write, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self._process.wait(_SECONDS)
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            more = os.read(self._read, 1 << 16)
            assert more, "Chromium has ended"
            self._unread += more
        text, self._unread = self._unread.split(b"\0", 1)
        said: dict[str, Any] = json.loads(text)
        self._note_error(said.get("method"), said.get("params", {}))
        return said

    def _note_error(self, method: str | None, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(event["exceptionDetails"]["exception"].get("description", "an exception"))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and event["type"] == "error":
            self.errors.append(str(event["args"]))


_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
