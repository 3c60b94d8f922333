"""Incremental fetch sessions (KIP-227), alone and through the broker."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.unit.broker.dialogue import (
    Client,
    all_fetched,
    batch,
    delete_records,
    dialogue,
    forgotten,
    values_of,
    wanted,
)

from headrace.broker.fetch_sessions import FetchSession, FetchSessions, Wanted
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import FetchFrame
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse

VERSIONS = range(7, 19)


def frame(session_id: int, epoch: int, *indexes: int) -> FetchFrame:
    made = FetchFrame()
    made.session_id = session_id
    made.session_epoch = epoch
    made.topics = [("t", [(index, -1, 0, -1, -1, 100) for index in indexes])]
    return made


def opened(sessions: FetchSessions, *indexes: int) -> FetchSession:
    error, session, full = sessions.resolve(frame(0, 0, *indexes), False)
    assert (error, full) == (ErrorCode.NONE, True)
    assert session is not None
    return session


# -- the sessions alone ------------------------------------------------------------------------


def test_epochs_go_up_and_wrap_to_1() -> None:
    sessions = FetchSessions(random.Random(1), 10)
    session = opened(sessions, 0)
    for epoch in (1, 2, 3):
        assert sessions.resolve(frame(session.session_id, epoch), False)[0] == ErrorCode.NONE
    session.epoch = 2**31 - 1
    assert sessions.resolve(frame(session.session_id, 2**31 - 1), False)[0] == ErrorCode.NONE
    assert session.epoch == 1
    assert sessions.resolve(frame(session.session_id, 1), False)[0] == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1])
def test_a_wrong_epoch_changes_nothing(epoch: int) -> None:
    sessions = FetchSessions(random.Random(1), 10)
    session = opened(sessions, 0)
    error, none, _ = sessions.resolve(frame(session.session_id, epoch, 1, 2), False)
    assert (error, none) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, None)
    assert list(session.wanted) == [("t", 0)]
    assert sessions.resolve(frame(session.session_id, 1), False)[0] == ErrorCode.NONE


def test_an_unknown_session() -> None:
    sessions = FetchSessions(random.Random(1), 10)
    error, none, _ = sessions.resolve(frame(77, 1), False)
    assert (error, none) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None)


def test_names_and_ids_do_not_mix() -> None:
    sessions = FetchSessions(random.Random(1), 10)
    session = opened(sessions, 0)
    error, _, _ = sessions.resolve(frame(session.session_id, 1), True)
    assert error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.resolve(frame(session.session_id, 1), False)[0] == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_full_fetch_closes_the_session_it_names(epoch: int) -> None:
    sessions = FetchSessions(random.Random(1), 10)
    session = opened(sessions, 0)
    _, new, full = sessions.resolve(frame(session.session_id, epoch, 0), False)
    assert full
    assert len(sessions) == (1 if epoch == 0 else 0)
    assert (new is None) == (epoch == -1)
    error, _, _ = sessions.resolve(frame(session.session_id, 1), False)
    assert error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_least_recently_used_session_gives_way() -> None:
    sessions = FetchSessions(random.Random(1), 3)
    first, second, third = (opened(sessions, 0) for _ in range(3))
    sessions.resolve(frame(first.session_id, 1), False)
    fourth = opened(sessions, 0)
    assert len(sessions) == 3
    error, _, _ = sessions.resolve(frame(second.session_id, 1), False)
    assert error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for session, epoch in ((first, 2), (third, 1), (fourth, 1)):
        assert sessions.resolve(frame(session.session_id, epoch), False)[0] == ErrorCode.NONE


def test_without_slots_there_are_no_sessions() -> None:
    sessions = FetchSessions(random.Random(1), 0)
    assert sessions.resolve(frame(0, 0, 1), False) == (ErrorCode.NONE, None, True)
    assert len(sessions) == 0


def test_ids_are_positive_and_differ() -> None:
    sessions = FetchSessions(random.Random(1), 500)
    ids = {opened(sessions, 0).session_id for _ in range(500)}
    assert len(ids) == 500
    assert min(ids) > 0


def test_a_partition_forgotten_and_asked_anew_is_not_replaced_by_the_old_one() -> None:
    """1. A fetch waits with the partition; 2. the next one forgets it; 3. the one after names it
    again, at another offset; 4. the first is answered."""
    session = FetchSession(1, False)
    session.update(frame(1, 1, 0, 1))
    old = session.wanted["t", 0]
    leaving = frame(1, 2)
    leaving.forgotten = [("t", [0])]
    session.update(leaving)
    session.update(frame(1, 3, 0))
    new = session.wanted["t", 0]
    session.to_the_end([old])
    assert session.wanted["t", 0] is new


def test_what_is_served_goes_last() -> None:
    session = FetchSession(1, False)
    session.update(frame(1, 1, 0, 1, 2))
    session.to_the_end([session.wanted["t", 0], session.wanted["t", 1]])
    assert [index for _, index in session.wanted] == [2, 0, 1]
    gone = Wanted("t", 9, -1, 0, -1, 100)
    session.to_the_end([gone])
    assert [index for _, index in session.wanted] == [2, 0, 1]


# -- through the broker ------------------------------------------------------------------------


class Consumer:
    """Keeps a session as clients do."""

    def __init__(self, broker: SimulatedBroker, version: int = 12) -> None:
        self.client = Client(broker)
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def fetch(
        self,
        partitions: Sequence[FetchPartition] = (),
        *,
        forget: Sequence[int] = (),
        topics: Mapping[str, Sequence[FetchPartition]] | None = None,
        **fields: Any,
    ) -> FetchResponse:
        asked = topics if topics is not None else ({"t": partitions} if partitions else {})
        request = self.client.fetch_request(asked, self.version, **fields)
        request.session_id, request.session_epoch = self.session_id, self.epoch
        if forget:
            request.forgotten_topics_data = [
                forgotten(self.client, "t", *forget, version=self.version)
            ]
        response = self.client.ask(request, self.version)
        assert isinstance(response, FetchResponse)
        if response.error_code == 0:
            self.session_id = response.session_id
            self.epoch += 1
        return response


def told(response: FetchResponse) -> dict[int, list[str]]:
    return {p.partition_index: values_of(p) for p in all_fetched(response)}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_answer_is_full_and_the_next_tell_news_only(version: int) -> None:
    broker, producer = dialogue("t", 3)
    producer.produce("t", 0, batch("a"))
    consumer = Consumer(broker, version)
    first = consumer.fetch([wanted(n, 0) for n in range(3)])
    assert first.session_id > 0
    assert told(first) == {0: ["a"], 1: [], 2: []}
    assert told(consumer.fetch([wanted(0, 1)])) == {}
    producer.produce("t", 2, batch("b"))
    second = consumer.fetch()
    assert second.session_id == first.session_id
    assert told(second) == {2: ["b"]}
    # Not told to move on, the broker sends it again.
    assert told(consumer.fetch()) == {2: ["b"]}
    assert told(consumer.fetch([wanted(2, 1)])) == {}


def test_forgotten_partitions_are_told_no_more() -> None:
    broker, producer = dialogue("t", 3)
    consumer = Consumer(broker)
    consumer.fetch([wanted(n, 0) for n in range(3)])
    consumer.fetch(forget=[1])
    for index in range(3):
        producer.produce("t", index, batch("a"))
    assert told(consumer.fetch()) == {0: ["a"], 2: ["a"]}
    assert told(consumer.fetch([wanted(0, 1), wanted(1, 0), wanted(2, 1)])) == {1: ["a"]}


def test_a_moved_log_start_is_news() -> None:
    broker, producer = dialogue("t", 2)
    for _ in range(3):
        producer.produce("t", 0, batch("a"))
    consumer = Consumer(broker)
    consumer.fetch([wanted(0, 3), wanted(1, 0)])
    assert told(consumer.fetch()) == {}
    delete_records(producer, "t", 0, 2)
    (news,) = all_fetched(consumer.fetch())
    assert (news.partition_index, news.log_start_offset) == (0, 2)
    assert told(consumer.fetch()) == {}


def test_a_high_watermark_behind_a_limit_is_news_once() -> None:
    broker, producer = dialogue("t", 2)
    consumer = Consumer(broker)
    consumer.fetch([wanted(0, 0), wanted(1, 0)])
    for index in range(2):
        producer.produce("t", index, batch("a" * 100))
    response = consumer.fetch(max_bytes=1)
    assert told(response) == {0: ["a" * 100], 1: []}
    assert [p.high_watermark for p in all_fetched(response)] == [1, 1]


def test_every_partition_gets_its_turn_under_a_tight_limit() -> None:
    broker, producer = dialogue("t", 5)
    for index in range(5):
        for n in range(4):
            producer.produce("t", index, batch(f"{n}" * 100))
    consumer = Consumer(broker)
    offsets = dict.fromkeys(range(5), 0)
    response = consumer.fetch([wanted(n, 0) for n in range(5)], max_bytes=1)
    served: list[int] = []
    for _ in range(20):
        moved = []
        for partition in all_fetched(response):
            if values_of(partition):
                served.append(partition.partition_index)
                offsets[partition.partition_index] += 1
                moved.append(wanted(partition.partition_index, offsets[partition.partition_index]))
        response = consumer.fetch(moved, max_bytes=1)
    assert served[:5] == [0, 1, 2, 3, 4]
    assert all(count == 4 for count in offsets.values())


def test_a_deleted_topic_is_told_until_it_is_forgotten() -> None:
    broker, producer = dialogue("t", 1)
    consumer = Consumer(broker)
    consumer.fetch([wanted(0, 0)])
    producer.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    for _ in range(2):
        (partition,) = all_fetched(consumer.fetch())
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("t")
    (healed,) = all_fetched(consumer.fetch())
    assert (healed.error_code, healed.high_watermark) == (0, 0)
    assert told(consumer.fetch()) == {}


def test_an_error_that_went_away_is_told_once() -> None:
    broker, producer = dialogue("t", 1)
    producer.produce("t", 0, batch("a"))
    consumer = Consumer(broker)
    (partition,) = all_fetched(consumer.fetch([wanted(0, 5)]))
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    (partition,) = all_fetched(consumer.fetch([wanted(0, 1)]))
    assert (partition.error_code, partition.high_watermark) == (0, 1)
    assert told(consumer.fetch()) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_sessions_have_no_partitions(version: int) -> None:
    broker, producer = dialogue("t", 1)
    producer.produce("t", 0, batch("a"))
    consumer = Consumer(broker, version)
    consumer.fetch([wanted(0, 0)])
    consumer.epoch = 9
    wrong = consumer.fetch()
    assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert wrong.responses == []
    consumer.session_id += 1
    assert consumer.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    consumer.session_id, consumer.epoch = consumer.session_id - 1, 1
    consumer.version = 12 if version >= 13 else 13
    assert consumer.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_outlives_its_connection_and_not_its_broker() -> None:
    broker, producer = dialogue("t", 1)
    consumer = Consumer(broker)
    consumer.fetch([wanted(0, 0)])
    consumer.client.transport.close("gone")
    consumer.client = Client(broker)
    producer.produce("t", 0, batch("a"))
    assert told(consumer.fetch()) == {0: ["a"]}
    broker.stop()
    broker.start()
    consumer.client = Client(broker)
    assert consumer.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_incremental_fetch_waits_for_any_of_its_partitions() -> None:
    broker, producer = dialogue("t", 3)
    consumer = Consumer(broker)
    consumer.fetch([wanted(n, 0) for n in range(3)])
    client = consumer.client
    request = client.fetch_request({}, 12, max_wait_ms=500, min_bytes=1)
    request.session_id, request.session_epoch = consumer.session_id, consumer.epoch
    client.transport.feed(client.frame(request, 12))
    assert client.transport.take() == []
    producer.produce("t", 1, batch("a"))
    (answer,) = client.answers(FetchRequest, 12)
    assert told(answer) == {1: ["a"]}


def test_slots_come_from_the_configuration() -> None:
    broker, _ = dialogue("t", 1, flags={"max_incremental_fetch_session_cache_slots": "2"})
    consumers = [Consumer(broker) for _ in range(3)]
    for consumer in consumers:
        consumer.fetch([wanted(0, 0)])
    assert len(broker.broker.fetch_sessions) == 2
    assert consumers[0].fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert consumers[2].fetch().error_code == 0
