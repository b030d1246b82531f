"""RestError: a request that is answered with a status and a text, as Flink's RestHandlerException."""

from __future__ import annotations


class RestError(Exception):
    """The answer has this status, and `{"errors": [text]}`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
