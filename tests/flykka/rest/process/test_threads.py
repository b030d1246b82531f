"""Threads with their stacks, in Flink's format."""

from __future__ import annotations

import threading

from flykka.rest.process.threads import ThreadSample, sample_threads, thread_dump


def waiting_here(begun: threading.Event, ended: threading.Event) -> None:
    begun.set()
    ended.wait()


def test_a_thread_is_listed_with_its_functions_innermost_first() -> None:
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=waiting_here, args=(begun, ended), name="a thread", daemon=True)
    thread.start()
    begun.wait()
    try:
        infos = {
            each["threadName"]: each["stringifiedThreadInfo"] for each in thread_dump(sample_threads())["threadInfos"]
        }
    finally:
        ended.set()
        thread.join()

    head, *places = infos["a thread"].splitlines()
    functions = [place.partition("(")[0] for place in places if place]
    assert head == f'"a thread" Id={thread.ident} (daemon)'
    assert functions.index("\tat threading.wait") < functions.index(f"\tat {__name__}.waiting_here")
    assert "MainThread" in infos


def test_a_thread_missing_in_the_interpreters_dump_has_no_stack() -> None:
    sample = ThreadSample(ident=7, native_id=8, name="old", is_daemon=False, stack=None)

    (info,) = thread_dump([sample])["threadInfos"]

    assert info["stringifiedThreadInfo"] == (
        '"old" Id=7\n\t(no stack: the interpreter dumps those of the newest 100 threads)\n\n'
    )
