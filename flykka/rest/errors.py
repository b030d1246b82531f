"""RestError: a request that is answered with a status and a text, as Flink's RestHandlerException."""

from __future__ import annotations

RETRY_AFTER_SECONDS = 3
"""The time after which a request may be made again whose reason of refusal passes: Flink's `rest.retry.delay`."""


class RestError(Exception):
    """The answer has this status, and `{"errors": [text]}`.

    Where the reason `passes`, as that nobody leads at this moment, the answer says that the same request may be made
    again, and after what time. If it `closes`, the connection ends with the answer.
    """

    def __init__(self, status: int, text: str, *, passes: bool = False, closes: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.passes = passes
        self.closes = closes

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if self.passes else {}
        return headers | ({"Connection": "close"} if self.closes else {})
