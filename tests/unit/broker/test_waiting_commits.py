"""Who is told when, of those that wait for the high watermark."""

from headrace.broker.waiting_commits import WaitingCommits
from headrace.wire.kafka.errors import ErrorCode

NONE, LATE = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


def test_a_batch_that_was_sent_again_does_not_wait_for_those_behind_it() -> None:
    waiting = WaitingCommits()
    later = waiting.add(9, 100)
    again = waiting.add(3, 100)
    waiting.on_reached(5, NONE)
    assert again.value() is NONE
    assert not later.settled


def test_the_order_holds_though_an_answer_moves_the_watermark_again() -> None:
    waiting = WaitingCommits()
    told: list[int] = []

    def on_first() -> None:
        told.append(1)
        waiting.add(7, 100).then(lambda _: told.append(7))
        waiting.on_reached(8, NONE)

    waiting.add(1, 100).then(lambda _: on_first())
    waiting.add(2, 100).then(lambda _: told.append(2))
    waiting.on_reached(3, NONE)
    assert told == [1, 2, 7]


def test_an_answer_that_fails_the_partition_settles_nobody_twice() -> None:
    waiting = WaitingCommits()
    told: list[tuple[int, ErrorCode]] = []
    waiting.add(1, 100).then(lambda _: waiting.refuse(ErrorCode.KAFKA_STORAGE_ERROR))
    for offset in (2, 5):
        waiting.add(offset, 100).then(lambda one, at=offset: told.append((at, one.value())))
    waiting.on_reached(3, NONE)
    assert told == [(2, NONE), (5, ErrorCode.KAFKA_STORAGE_ERROR)]


def test_whose_time_is_over_is_told_and_the_others_stay() -> None:
    waiting = WaitingCommits()
    short, long = waiting.add(1, 50), waiting.add(1, 500)
    waiting.expire(60)
    assert short.value() is LATE
    assert not long.settled
    assert len(waiting) == 1
