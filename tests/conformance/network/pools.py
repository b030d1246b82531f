"""Area 09, pools: the buffers of a TaskManager, and the share of one pool.

Flink's thread that waits for a buffer is a listener in flykka. Both are notified when a buffer becomes available, or
when the pool is destroyed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

from flykka.actors.errors import NetworkBufferError, NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.buffer_pool import BufferListener, LocalBufferPool, NotificationResult
from flykka.actors.machines.exchange.shuffle_environment import NetworkBufferPool, NetworkSettings, ShuffleEnvironment
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1_000_000
LOCAL_STEP = {"do", "n", "in", "channel", "name", "wants", "returns_buffer_at_once", "want"}


class Waiting:
    def __init__(self, pool: LocalBufferPool[Waiting], wants: int, *, returns_buffer_at_once: bool = False) -> None:
        self.pool = pool
        self.notified = 0
        self.destroyed_notified = 0
        self._wants = wants
        self._returns_buffer_at_once = returns_buffer_at_once

    def buffer_available(self) -> NotificationResult:
        self.notified += 1
        if self._returns_buffer_at_once:
            self.pool.give_back()
        if self.notified < self._wants:
            return NotificationResult.BUFFER_USED_NEED_MORE
        return NotificationResult.BUFFER_USED_NO_NEED_FOR_MORE

    def buffer_pool_destroyed(self) -> None:
        self.destroyed_notified += 1


def _outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except (NetworkBufferError, ValueError):
        return "error"
    return "ok"


def _take(pool: LocalBufferPool[Any], count: int) -> str:
    """Return `ok`, `none` if there are too few buffers, or `error`."""
    try:
        return "ok" if pool.take_up_to(count) == count else "none"
    except NetworkBufferError:
        return "error"


class Global:
    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "buffers"})
        self.total = given["buffers"]
        self.buffers = NetworkBufferPool(self.total)
        self.pools: list[LocalBufferPool[BufferListener]] = []

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "pool", "pools", "n", "min", "max", "want"})
        wanted = step.get("want")
        match step:
            case {"do": "create", "min": minimum, "max": maximum}:
                self._outcome_of(lambda: self.pools.append(self.buffers.create_pool(minimum, maximum)), wanted)
            case {"do": "create_random", "pools": pools}:
                self._create_at_random(pools, step["min"], step["max"], wanted)
            case {"do": "destroy", "pool": number}:
                self.buffers.destroy_pool(self.pools[number])
                self._expect(wanted)
            case {"do": "destroy_all_pools"}:
                for pool in self.buffers.pools:
                    self.buffers.destroy_pool(pool)
                self._expect(wanted)
            case {"do": "destroy_global"}:
                self.buffers.destroy()
                self._expect(wanted)
            case {"do": "take", "pool": number, "n": count}:
                self._word_or_figures(_take(self.pools[number], count), wanted, self.pools[number])
            case {"do": "take_all"}:
                taken = sum(pool.take_up_to(self.total) for pool in self.pools)
                assert wanted is None or taken == wanted
            case {"do": "give_back", "pool": number, "n": count}:
                for _ in range(count):
                    self.pools[number].give_back()
                self._expect(wanted, self.pools[number])
            case {"do": "give_back_all"}:
                for pool in self.pools:
                    for _ in range(pool.used):
                        pool.give_back()
                self._expect(wanted)
            case {"do": "take_exclusive", "n": count}:
                self._outcome_of(lambda: self.buffers.take_exclusive(count), wanted)
            case {"do": "give_back_exclusive" | "return_exclusive", "n": count}:
                self.buffers.give_back_exclusive(count)
                self._expect(wanted)
            case _:
                raise UnknownWordError(f"step: {step}")
        self.buffers.check()

    def expect(self, word: str, wanted: Any) -> None:
        if word == "all_wants_hold":
            return
        self._expect({word: wanted})

    def _outcome_of(self, act: Callable[[], object], wanted: Any) -> None:
        outcome = _outcome(act)
        if wanted in ("ok", "error"):
            assert outcome == wanted
        else:
            assert outcome == "ok"
            self._expect(wanted)

    def _word_or_figures(self, word: str, wanted: Any, pool: LocalBufferPool[BufferListener]) -> None:
        if isinstance(wanted, str):
            assert word == wanted
        else:
            assert word == "ok"
            self._expect(wanted, pool)

    def _create_at_random(self, pools: int, minimum: str, maximum: str, wanted: str | None) -> None:
        assert wanted == "after each: sum of sizes = min(1024, sum of max)"
        low, high = (int(figure) for figure in minimum.split(".."))
        beyond = re.fullmatch(r"unbounded or min\+(\d+)\.\.(\d+)", maximum)
        assert beyond is not None, maximum
        random = Random(0)
        for _ in range(pools):
            least = random.randint(low, high)
            most = None if random.random() < 0.5 else max(1, least + random.randint(*map(int, beyond.groups())))
            self.pools.append(self.buffers.create_pool(least, most))
            usable = sum(PLENTY if pool.maximum is None else pool.maximum for pool in self.pools)
            assert sum(pool.size for pool in self.pools) == min(self.total, usable)

    def _expect(self, wanted: Any, pool: LocalBufferPool[BufferListener] | None = None) -> None:
        sizes = [pool.size for pool in self.pools if not pool.is_destroyed]
        match wanted:
            case None:
                pass
            case list():
                assert sizes == wanted
            case str():
                summed = re.fullmatch(r"sum (\d+), none has (\d+)", wanted)
                if summed is None:
                    raise UnknownWordError(f"want: {wanted}")
                assert sum(sizes) == int(summed[1])
                assert int(summed[2]) not in sizes
            case dict():
                for word, figure in wanted.items():
                    assert self._figure(word, sizes, pool) == figure, word
            case _:
                raise UnknownWordError(f"want: {wanted}")

    def _figure(self, word: str, sizes: list[int], pool: LocalBufferPool[BufferListener] | None) -> Any:
        match word:
            case "global_free":
                return self.buffers.free
            case "pools":
                return len(self.buffers.pools)
            case "size":
                return sizes
            case "used" if pool is not None:
                return pool.used
            case "free" if pool is not None:
                return pool.idle
            case "held_from_global" if pool is not None:
                return pool.held
            case _:
                raise UnknownWordError(f"want: {word}")


class Local:
    """One pool, whose buffers are all available."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "min", "size", "max"})
        self.pool = LocalBufferPool[Waiting](
            given["size"],
            minimum=given["min"],
            maximum=given.get("max"),
        )
        self.listeners: dict[str, Waiting] = {}
        self.blocked: list[Waiting] = []

    def do(self, step: Case) -> None:
        only_known_words("step", step, LOCAL_STEP)
        wanted = step.get("want")
        match step:
            case {"do": "take", "n": count}:
                self._check(_take(self.pool, count), wanted)
            case {"do": "take_blocking", "n": count}:
                outcome = _take(self.pool, count)
                if outcome == "none":
                    self.blocked.append(Waiting(self.pool, count))
                    self.pool.wait(self.blocked[-1])
                self._check(outcome, wanted)
            case {"do": "give_back", "n": count}:
                for _ in range(count):
                    self.pool.give_back()
                self._check("ok", wanted)
            case {"do": "resize", "n": size}:
                self._check(_outcome(lambda: self.pool.resize(size)), wanted)
            case {"do": "listen", "name": name, "wants": wants}:
                at_once = step.get("returns_buffer_at_once", False)
                self.listeners[name] = Waiting(self.pool, wants, returns_buffer_at_once=at_once)
                accepted = self.pool.wait(self.listeners[name])
                assert wanted is None or accepted == wanted
            case {"do": "destroy"}:
                self.pool.destroy()
                self._check("ok", wanted)
            case _:
                raise UnknownWordError(f"step: {step}")
        self.pool.check()

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "blocked_taker":
                taker = self.blocked[-1]
                outcome = "error" if taker.destroyed_notified else "ok" if taker.notified else "waits"
                assert outcome == wanted
            case _:
                assert self._figure(word) == wanted

    def _check(self, outcome: str, wanted: Any) -> None:
        match wanted:
            case str():
                assert outcome == wanted
            case dict():
                assert outcome == "ok"
                for word, figure in wanted.items():
                    assert self._figure(word) == figure, word
            case None:
                pass
            case _:
                raise UnknownWordError(f"want: {wanted}")

    def _figure(self, word: str) -> Any:
        match word:
            case "held_from_global":
                return self.pool.held
            case "free":
                return self.pool.idle
            case "used":
                return self.pool.used
            case "size":
                return self.pool.size
            case "available":
                return self.pool.is_available
            case "notified":
                return {name: listener.notified for name, listener in self.listeners.items()}
            case "destroyed_notified":
                return {name: listener.destroyed_notified for name, listener in self.listeners.items()}
            case _:
                raise UnknownWordError(f"want: {word}")


def run_global_pool(case: Case) -> None:
    pools = Global(case["given"])
    for step in case["steps"]:
        pools.do(step)
    for word, wanted in case["expect"].items():
        pools.expect(word, wanted)


def run_local_pool(case: Case) -> None:
    pool = Local(case["given"])
    for step in case["steps"]:
        pool.do(step)
    for word, wanted in case["expect"].items():
        pool.expect(word, wanted)


def run_task_network_memory(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    known = {"kind", "buffers", "result_partitions_subpartitions", "gates_remote_channels", "exclusive_per_channel"}
    only_known_words("given", given, known | {"floating_per_gate"})
    settings = NetworkSettings(
        network_buffers=given["buffers"],
        buffers_per_channel=given["exclusive_per_channel"],
        floating_buffers_per_gate=given.get("floating_per_gate", 8),
    )
    environment = ShuffleEnvironment(settings)
    assert not case.get("steps")

    error = None
    try:
        environment.register_task(
            ExecutionAttemptId("attempt"), given["result_partitions_subpartitions"], given["gates_remote_channels"]
        )
    except NetworkBuffersExhaustedError:
        error = "insufficient network buffers"
    environment.check()

    only_known_words("expect", expect, {"registered", "error"})
    assert expect.get("error") == error
    assert expect["registered"] == (error is None)
