"""librdkafka's transactions: the old protocol, with partitions and offsets added one by one."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from tests.interop.confluent import TIMEOUT_S, consume, consumer_of, create_topic, producer_of
from tests.interop.conftest import Target
from tests.interop.holding_proxy import END_TXN, PRODUCE, HoldingProxy

from headrace.testing.cluster import LocalBroker
from headrace.wire.kafka.errors import ErrorCode

Unique = Callable[[str], str]


def begun(target: Target, transactional_id: str, **settings: object) -> Producer:
    producer = producer_of(target.bootstrap_servers, transactional_id=transactional_id, **settings)
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value=value.encode(), partition=partition)


def reader(target: Target, topic: str, isolation: str, partitions: int = 1) -> Consumer:
    found = consumer_of(
        target.bootstrap_servers,
        "reader",
        isolation_level=isolation,
        enable_auto_commit=False,
        enable_partition_eof=False,
    )
    found.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return found


def values(messages: list[Message]) -> list[str]:
    return [(message.value() or b"").decode() for message in messages]


def test_committed_and_aborted(target: Target, unique: Unique) -> None:
    topic = unique("both")
    create_topic(target.bootstrap_servers, topic, 2)
    producer = begun(target, unique("tx"))
    for number in range(5):
        producer.begin_transaction()
        word = "kept" if number % 2 == 0 else "gone"
        write(producer, topic, f"{word}-{number}-a", f"{word}-{number}-b")
        write(producer, topic, f"{word}-{number}-c", partition=1)
        if number % 2 == 0:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    committed = reader(target, topic, "read_committed", 2)
    seen = values(consume(committed, 9))
    committed.close()
    assert sorted(seen) == sorted(f"kept-{n}-{c}" for n in (0, 2, 4) for c in "abc")
    everything = reader(target, topic, "read_uncommitted", 2)
    # What was aborted before it was sent never reached the broker.
    assert set(values(consume(everything, 9))) <= {
        f"{word}-{n}-{c}" for word in ("kept", "gone") for n in range(5) for c in "abc"
    }
    everything.close()


def test_an_aborted_write_that_reached_the_log_is_left_out(target: Target, unique: Unique) -> None:
    topic = unique("aborted")
    create_topic(target.bootstrap_servers, topic)
    producer = begun(target, unique("tx"))
    producer.begin_transaction()
    write(producer, topic, "gone-1", "gone-2")
    assert producer.flush(TIMEOUT_S) == 0
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    write(producer, topic, "kept")
    producer.commit_transaction(TIMEOUT_S)
    committed = reader(target, topic, "read_committed")
    (message,) = consume(committed, 1)
    committed.close()
    assert message.value() == b"kept"
    assert message.offset() == 3  # behind two records and the abort's marker
    everything = reader(target, topic, "read_uncommitted")
    assert values(consume(everything, 3)) == ["gone-1", "gone-2", "kept"]
    everything.close()


def test_an_open_transaction_holds_readers_back(target: Target, unique: Unique) -> None:
    topic = unique("open")
    create_topic(target.bootstrap_servers, topic)
    plain = producer_of(target.bootstrap_servers)
    producer = begun(target, unique("tx"))
    producer.begin_transaction()
    write(producer, topic, "first")
    assert producer.flush(TIMEOUT_S) == 0
    write(plain, topic, "second")
    assert plain.flush(TIMEOUT_S) == 0
    committed = reader(target, topic, "read_committed")
    assert committed.consume(1, 0.3) == []
    low, high = committed.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    assert (low, high) == (0, 0)  # to this reader the log ends before the transaction
    producer.commit_transaction(TIMEOUT_S)
    assert values(consume(committed, 2)) == ["first", "second"]
    committed.close()


def test_the_second_producer_fences_the_first(target: Target, unique: Unique) -> None:
    topic, transactional_id = unique("fenced"), unique("tx")
    create_topic(target.bootstrap_servers, topic)
    first = begun(target, transactional_id)
    first.begin_transaction()
    write(first, topic, "zombie")
    assert first.flush(TIMEOUT_S) == 0
    second = begun(target, transactional_id)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    write(second, topic, "heir")
    second.commit_transaction(TIMEOUT_S)
    committed = reader(target, topic, "read_committed")
    assert values(consume(committed, 1)) == ["heir"]
    committed.close()


def test_consume_transform_produce(target: Target, unique: Unique) -> None:
    source, sink, group = unique("source"), unique("sink"), unique("group")
    create_topic(target.bootstrap_servers, source)
    create_topic(target.bootstrap_servers, sink)
    plain = producer_of(target.bootstrap_servers)
    write(plain, source, *(str(number) for number in range(60)))
    assert plain.flush(TIMEOUT_S) == 0
    producer = begun(target, unique("tx"))
    consumer = consumer_of(
        target.bootstrap_servers, group, isolation_level="read_committed", enable_auto_commit=False
    )
    consumer.subscribe([source])
    done, round_number = 0, 0
    deadline = time.monotonic() + 2 * TIMEOUT_S
    while done < 60:
        assert time.monotonic() < deadline
        messages = consumer.consume(10, 0.5)
        if not messages:
            continue
        round_number += 1
        producer.begin_transaction()
        write(producer, sink, *(f"x{value}" for value in values(messages)))
        last = messages[-1]
        producer.send_offsets_to_transaction(
            [TopicPartition(source, 0, last.offset() + 1)],
            consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )
        if round_number % 3 == 0:
            producer.abort_transaction(TIMEOUT_S)
            consumer.seek(TopicPartition(source, 0, messages[0].offset()))
            continue
        producer.commit_transaction(TIMEOUT_S)
        done = last.offset() + 1
        (committed,) = consumer.committed([TopicPartition(source, 0)], TIMEOUT_S)
        assert committed.offset == done
    consumer.close()
    committed_reader = reader(target, sink, "read_committed")
    assert values(consume(committed_reader, 60)) == [f"x{number}" for number in range(60)]
    committed_reader.close()


def test_a_timeout_above_the_broker_s_maximum(target: Target, unique: Unique) -> None:
    producer = producer_of(
        target.bootstrap_servers, transactional_id=unique("tx"), transaction_timeout_ms=2_000_000
    )
    with pytest.raises(KafkaException, match=r"(?i)transaction.timeout"):
        producer.init_transactions(TIMEOUT_S)


def test_a_transaction_left_open_is_aborted_and_its_producer_fenced(unique: Unique) -> None:
    topic = unique("left")
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with LocalBroker(settings=settings) as broker:
        create_topic(broker.bootstrap_servers, topic)
        producer = begun(broker, unique("tx"), transaction_timeout_ms=1_000)
        producer.begin_transaction()
        write(producer, topic, "left")
        assert producer.flush(TIMEOUT_S) == 0
        plain = producer_of(broker.bootstrap_servers)
        write(plain, topic, "plain")
        assert plain.flush(TIMEOUT_S) == 0
        committed = reader(broker, topic, "read_committed")
        assert values(consume(committed, 1)) == ["plain"], "read once the open one is aborted"
        committed.close()
        write(producer, topic, "late")
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(TIMEOUT_S)
        assert refused.value.args[0].fatal() or refused.value.args[0].txn_requires_abort()
        everything = reader(broker, topic, "read_uncommitted")
        assert values(consume(everything, 2)) == ["left", "plain"]
        everything.close()
        successor = begun(broker, unique("tx"))
        successor.begin_transaction()
        write(successor, topic, "next")
        successor.commit_transaction(TIMEOUT_S)
        committed = reader(broker, topic, "read_committed")
        assert values(consume(committed, 2)) == ["plain", "next"]
        committed.close()


def last_stable(target: Target, topic: str) -> int:
    """Where the log ends to a reader of what is committed."""
    looking = reader(target, topic, "read_committed")
    _, high = looking.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    looking.close()
    return int(high)


def until_stable(target: Target, topic: str, offset: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while last_stable(target, topic) < offset:
        assert time.monotonic() < deadline, "the transaction was not given up"


@pytest.mark.parametrize(
    "meanwhile", ["committed", pytest.param("timed out", marks=pytest.mark.long)]
)
def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    unique: Unique, meanwhile: str
) -> None:
    """EndTxn is held up on its way. Meanwhile its transaction is committed by the client's second
    try, or aborted by the coordinator, and the id's next producer is in the midst of its own."""
    topic, transactional_id = unique("late"), unique("tx")
    cleanup = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with (
        HoldingProxy() as proxy,
        LocalBroker(settings={**proxy.settings, **cleanup}, listen=proxy.target) as broker,
    ):
        create_topic(broker.bootstrap_servers, topic)
        is_committed = meanwhile == "committed"
        timeout_ms = 60_000 if is_committed else 1_000
        first = begun(broker, transactional_id, transaction_timeout_ms=timeout_ms)
        first.begin_transaction()
        write(first, topic, "first")
        assert first.flush(TIMEOUT_S) == 0
        proxy.hold(END_TXN, cut=is_committed)
        if is_committed:
            first.commit_transaction(TIMEOUT_S)
        else:
            with pytest.raises(KafkaException) as waited:
                first.commit_transaction(0.2)
            assert waited.value.args[0].retriable()
            until_stable(broker, topic, 2)  # the record and the coordinator's marker
        second = begun(broker, transactional_id)
        second.begin_transaction()
        write(second, topic, "second")
        assert second.flush(TIMEOUT_S) == 0
        assert proxy.release().error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert last_stable(broker, topic) == 2, "the next transaction is still open"
        second.abort_transaction(TIMEOUT_S)
        second.begin_transaction()
        write(second, topic, "third")
        second.commit_transaction(TIMEOUT_S)
        kept = ["first", "third"] if is_committed else ["third"]
        committed = reader(broker, topic, "read_committed")
        assert values(consume(committed, len(kept))) == kept
        committed.close()


@pytest.mark.long
def test_a_write_that_comes_after_the_abort_is_refused_and_nothing_hangs(unique: Unique) -> None:
    """Produce is held up until its transaction is over: its coordinator has lost patience."""
    topic = unique("late")
    cleanup = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with (
        HoldingProxy() as proxy,
        LocalBroker(settings={**proxy.settings, **cleanup}, listen=proxy.target) as broker,
    ):
        create_topic(broker.bootstrap_servers, topic)
        producer = begun(broker, unique("tx"), transaction_timeout_ms=1_000)
        producer.begin_transaction()
        proxy.hold(PRODUCE, cut=False)
        write(producer, topic, "late")
        until_stable(broker, topic, 1)  # the marker of the abort alone
        (row,) = proxy.release().responses[0].partition_responses
        assert row.error_code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
        plain = producer_of(broker.bootstrap_servers)
        write(plain, topic, "plain")
        assert plain.flush(TIMEOUT_S) == 0
        assert last_stable(broker, topic) == 2, "no transaction hangs"
        committed = reader(broker, topic, "read_committed")
        assert values(consume(committed, 1)) == ["plain"]
        committed.close()
