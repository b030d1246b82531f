"""The line of stages and followers."""

from flykka.actors.machines.task.stage_pipeline import StagePipeline


def pipeline(limit: int = 2) -> StagePipeline[str, str]:
    return StagePipeline(limit)


def test_stages_are_numbered_from_zero_in_the_order_of_their_start() -> None:
    line = pipeline()

    numbers = [line.start("a"), line.start("b")]

    assert numbers == [0, 1]


def test_there_is_room_below_the_limit_only() -> None:
    line = pipeline(limit=2)

    before = line.has_room
    line.start("a")
    line.start("b")

    assert before
    assert not line.has_room
    line.finish(0)
    assert line.has_room


def test_a_follower_with_nothing_before_it_is_released_at_once() -> None:
    line = pipeline()

    line.emit_after("watermark")

    assert line.released() == ["watermark"]
    assert line.released() == []


def test_a_follower_waits_for_every_stage_before_it_and_for_none_behind_it() -> None:
    line = pipeline(limit=3)
    line.start("a")
    line.start("b")
    line.emit_after("barrier")
    line.start("c")

    line.finish(0)
    after_one = line.released()
    line.finish(1)
    after_two = line.released()

    assert (after_one, after_two) == ([], ["barrier"])
    line.check()


def test_a_finished_stage_tells_what_it_was_started_for() -> None:
    line = pipeline()
    line.start("read")
    line.start("snapshot")

    purposes = [line.finish(0), line.finish(1)]

    assert purposes == ["read", "snapshot"]
    assert line.in_flight == 0
