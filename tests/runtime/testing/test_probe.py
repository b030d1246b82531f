"""The test probe: its expectations and deadlines, and its behaviour as an actor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ActorDeadError, AskFailedError
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor


@pytest.fixture
def probe(system: SeededSystem) -> TestProbe:
    return TestProbe(system, "probe")


def probe_with_messages(probe: TestProbe, *texts: str) -> TestProbe:
    for text in texts:
        probe.ref.tell(says(text))
    return probe


def probe_with_word_each_second(probe: TestProbe, system: ActorSystem, *texts: str) -> TestProbe:
    """Return the probe; an actor will send it the first word after one second, the second word after two seconds, and
    so on.
    """

    def start(context: ActorContext) -> None:
        for number, text in enumerate(texts, 1):
            context.timers.start_once(text, number * 1_000, says(text))

    def pass_on(text: str) -> Callable[[ActorContext], object]:
        return lambda _: probe.ref.tell(says(text))

    system.spawn(scripted_actor([], {"start": start, **{text: pass_on(text) for text in texts}}), "teller")
    return probe


# Expectations


def test_a_message_is_expected_by_class_value_or_predicate(probe: TestProbe) -> None:
    probe_with_messages(probe, "a", "b", "c")

    assert probe.expect_message(Say) == says("a")
    assert probe.expect_message(says("b")) == says("b")
    assert probe.expect_message(Say, where=lambda say: say.text > "b").text == "c"


def test_an_unexpected_message_is_shown_in_the_error(probe: TestProbe) -> None:
    with pytest.raises(AssertionError, match=r"expected a Say within 3\.0 s, got nothing"):
        probe.expect_message(Say)
    with pytest.raises(AssertionError, match=r"expected Say\(text='a'\), got Say\(text='b'\)"):
        probe_with_messages(probe, "b").expect_message(says("a"))
    with pytest.raises(AssertionError, match=r"the message does not fit: Say\(text='b'\)"):
        probe_with_messages(probe, "b").expect_message(Say, where=lambda say: say.text == "a")


def test_expect_no_message_waits_for_the_given_duration(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a")

    probe.expect_no_message(0.999)
    with pytest.raises(AssertionError, match="expected no message"):
        probe.expect_no_message(0.001)

    assert system.manual_clock.now_ms() == 1_000


def test_fish_for_message_keeps_later_messages(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a", "b", "c")

    assert probe.fish_for_message(lambda message: message == says("b"), 5) == says("b")

    assert system.manual_clock.now_ms() == 2_000
    assert probe.expect_message(Say).text == "c"


def test_fish_for_message_fails_at_its_deadline(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a", "b", "c")

    with pytest.raises(AssertionError, match=r"no message matched; received were \[Say\(text='a'\), Say\(text='b'\)\]"):
        probe.fish_for_message(lambda message: message == says("c"), 2.5)


def test_several_messages_are_received_within_one_timeout(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a", "b", "c", "d")

    assert probe.receive_n(2, 2) == [says("a"), says("b")]
    with pytest.raises(AssertionError, match="expected 3 messages, got 2"):
        probe.receive_n(3, 2.5)


def test_within_sets_one_deadline_for_its_block(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a", "b", "c", "d", "e")

    with probe.within(4):
        for _ in range(4):
            probe.expect_message(Say)
    with pytest.raises(AssertionError, match="got nothing"), probe.within(10), probe.within(0.5):
        probe.expect_message(Say)

    probe.expect_message(Say)


def test_within_can_require_a_minimum_duration(probe: TestProbe, system: SeededSystem) -> None:
    probe_with_word_each_second(probe, system, "a", "b")

    with probe.within(2, at_least=1):
        probe.expect_message(Say)
    with pytest.raises(AssertionError, match=r"expected no end before 1\.5 s, it took 1\.0 s"):  # noqa: SIM117
        with probe.within(2, at_least=1.5):
            probe.expect_message(Say)


def test_a_within_block_that_takes_too_long_fails(probe: TestProbe, system: SeededSystem) -> None:
    with pytest.raises(AssertionError, match=r"expected an end within 1 s, it took 2\.0 s"), probe.within(1):
        system.advance(2_000)


# Actions


def test_a_probe_is_the_sender_of_its_messages(probe: TestProbe, system: SeededSystem) -> None:
    echo = system.spawn(scripted_actor([], {"question": replies}), "echo")

    probe.send(echo, says("question"))

    assert probe.expect_message(Say) == says("reply")
    assert probe.last_sender == echo


def test_a_reply_answers_both_asks_and_tells(probe: TestProbe, system: SeededSystem) -> None:
    other = TestProbe(system)
    other.send(probe.ref, says("told"))
    probe.expect_message(says("told"))

    probe.reply(says("answer"))
    other.expect_message(says("answer"))
    question = probe.ref.ask(says("asked"), block=False)
    probe.expect_message(says("asked"))
    probe.reply(says("reply"))

    assert other.last_sender == probe.ref
    assert question.get() == says("reply")


def test_replying_to_a_message_of_the_test_itself_fails(probe: TestProbe) -> None:
    probe_with_messages(probe, "a").expect_message(Say)

    with pytest.raises(AssertionError, match="no sender to reply to"):
        probe.reply(says("b"))


def test_a_forwarded_message_keeps_its_sender(probe: TestProbe, system: SeededSystem) -> None:
    echo = system.spawn(scripted_actor([], {"question": replies, "fail": fails}), "echo")
    answers, fails_too = (probe.ref.ask(says(text), block=False) for text in ("question", "fail"))

    for _ in range(2):
        probe.expect_message(Say)
        probe.forward(echo)

    assert answers.get() == says("reply")
    with pytest.raises(AskFailedError):
        fails_too.get()


def test_an_ask_forwarded_to_an_ended_actor_fails(probe: TestProbe, system: SeededSystem) -> None:
    gone = system.spawn(scripted_actor([]), "gone")
    gone.stop()
    question = probe.ref.ask(says("question"), block=False)

    probe.expect_message(Say)
    probe.forward(gone)

    with pytest.raises(ActorDeadError):
        question.get()


def test_a_probe_expects_the_end_of_a_watched_actor(probe: TestProbe, system: SeededSystem) -> None:
    living, dead, other = (system.spawn(scripted_actor([]), name) for name in ("living", "dead", "other"))
    dead.stop()
    probe.watch(dead)
    probe.expect_terminated(dead)

    probe.watch(living)
    system.run_until_idle()
    living.stop()

    with pytest.raises(AssertionError, match="expected Terminated"):
        probe.expect_terminated(other)


def test_the_probe_works_on_threads(threaded: ActorSystem) -> None:
    probe = TestProbe(threaded)
    echo = threaded.spawn(scripted_actor([], {"question": replies}), "echo")

    with probe.within(5):
        probe.watch(echo)
        probe.send(echo, says("question"))
        probe.expect_message(says("reply"))
        echo.stop(block=False)
        probe.expect_terminated(echo)
    probe.expect_no_message(0.01)
