"""RestError: an error response with a status and a message, like Flink's RestHandlerException."""

from __future__ import annotations

RETRY_AFTER_SECONDS = 3
"""Seconds after which a temporarily refused request may be repeated: Flink's `rest.retry.delay`."""


class RestError(Exception):
    """An error response with this status and `{"errors": [text]}`.

    If the reason `passes`, for example while there is no leader, the response includes the seconds after which the
    request may be repeated. If it `closes`, the connection is closed after the response.
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
