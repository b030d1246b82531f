"""Costly responses: few are computed at a time, equal ones once, and cheap ones do not wait for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from threading import Event
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse

from flykka.rest.costly import WAITING, Cost, Costly, CostlyAnswers
from flykka.rest.endpoint import Endpoint, Query, routes
from flykka.rest.errors import RestError


async def refusal_response(request: Request, raised: Exception) -> JSONResponse:
    assert isinstance(raised, RestError)
    return JSONResponse({"errors": [str(raised)]}, raised.status, raised.headers)


def test_60_concurrent_costly_requests_delay_no_other_request() -> None:
    release, made, costly = Event(), Counter[str](), CostlyAnswers()
    most = Cost.PROCESSOR + WAITING

    def make(name: str) -> str:
        made[name] += 1
        assert release.wait(60)
        return name

    def slow(query: Query) -> Costly:
        return Costly(cost=Cost.PROCESSOR, make=lambda: make(query.path["name"]), key=query.path["name"])

    endpoints = [Endpoint("/slow/{name}", slow, "Takes long"), Endpoint("/quick", lambda query: "here", "Does not")]
    app = Starlette(routes=routes(endpoints, costly), exception_handlers={RestError: refusal_response})

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=60) as http:
            asked = [asyncio.create_task(http.get(f"/slow/{number % 30}")) for number in range(60)]
            # All requests that are not refused wait, because no response is computed before the release.
            while sum(each.done() for each in asked) < 60 - 2 * most:
                await asyncio.sleep(0)
            for _ in range(3):
                assert (await http.get("/quick")).json() == "here"
            assert {each.result().status_code for each in asked if each.done()} == {503}
            release.set()
            return await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    costly.close()

    assert Counter(each.status_code for each in answers) == {200: 2 * most, 503: 60 - 2 * most}
    assert sum(made.values()) == len(made) == most
    for each in answers:
        if each.status_code == 503:
            assert each.headers["retry-after"] == "3"
            assert each.json()["errors"] == [f"{most} slow requests are being answered already"]


def test_requests_to_actors_do_not_wait_for_cpu_bound_ones() -> None:
    costly, release = CostlyAnswers(), Event()
    wait = Costly(cost=Cost.PROCESSOR, make=lambda: release.wait(60))
    begun = [costly.begin(wait) for _ in range(Cost.PROCESSOR + WAITING)]

    assert costly.begin(Costly(cost=Cost.ACTORS, make=lambda: "why")).result(60) == "why"
    with pytest.raises(RestError, match="slow requests"):
        costly.begin(Costly(cost=Cost.PROCESSOR, make=lambda: None))

    release.set()
    assert all(each.result(60) for each in begun)
    costly.close()


def test_a_failure_is_shared_by_all_waiters_and_not_cached() -> None:
    costly, release, answers = CostlyAnswers(), Event(), iter([None, "later"])

    def make() -> Any:
        assert release.wait(60)
        if (answer := next(answers)) is None:
            raise RestError(404, "there is none")
        return answer

    first, second = (costly.begin(Costly(cost=Cost.PROCESSOR, make=make, key=1)) for _ in range(2))
    release.set()

    for each in (first, second):
        with pytest.raises(RestError, match="there is none"):
            each.result(60)
    assert costly.begin(Costly(cost=Cost.PROCESSOR, make=make, key=1)).result(60) == "later"
    costly.close()
