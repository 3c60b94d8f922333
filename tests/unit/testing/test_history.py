"""A history keeps what happened: order, outcomes, and sends from several threads."""

import threading

import pytest

from headrace.testing.history import History, Outcome, Poll, Send, TopicPartition

P0 = TopicPartition("events", 0)


def test_sends_settle_once_and_keep_the_order_of_their_calls() -> None:
    history = History()
    first = history.begin_send("p", "a", P0)
    second = history.begin_send("p", "b", P0)
    history.send_ok(second, P0, 0)
    history.send_unknown(first)
    assert [(send.value, send.sequence) for send in history.events(Send)] == [("b", 2), ("a", 1)]
    with pytest.raises(KeyError):
        history.send_failed(first)


def test_partition_may_be_known_only_by_the_answer() -> None:
    history = History()
    history.send_ok(history.begin_send("p", "a"), P0, 7)
    (send,) = history.events(Send)
    assert (send.partition, send.offset, send.outcome) == (P0, 7, Outcome.OK)


def test_open_sends_count_as_unknown() -> None:
    history = History([Send("p", 0, "earlier", P0, Outcome.OK, 0)])
    history.begin_send("p", "open", P0)
    history.send_failed(history.begin_send("p", "refused", P0))
    history.add(Send("p", 9, "added", P0, Outcome.OK, 1))
    counts = {outcome: history.count(outcome) for outcome in Outcome}
    assert counts == {Outcome.OK: 2, Outcome.FAIL: 1, Outcome.INFO: 1}
    assert [send.value for send in history.events(Send)][-1] == "open"


def test_kinds_are_told_apart() -> None:
    history = History([Poll("c", P0, 0, "a"), Send("p", 1, "a", P0, Outcome.OK, 0)])
    assert [type(event) for event in history.events(Poll)] == [Poll]
    assert len(history.all_events()) == 2


def test_threads_may_record_together() -> None:
    history = History()

    def send_many(producer: str) -> None:
        for number in range(500):
            token = history.begin_send(producer, f"{producer}-{number}", P0)
            history.send_ok(token, P0, None)

    threads = [threading.Thread(target=send_many, args=(f"p{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert history.count(Outcome.OK) == 2_000
    assert len({send.sequence for send in history.events(Send)}) == 2_000
