"""What a broker keeps when it is stopped or killed, and its clients when it returns."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import ConfigResource, ResourceType
from tests.interop.confluent import (
    TIMEOUT_S,
    admin_of,
    consume,
    consumer_of,
    create_topic,
    produce,
    producer_of,
    read_all,
)
from tests.interop.conftest import Target, start_target

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(target_name: str) -> Iterator[Target]:
    with start_target(target_name) as started:
        yield started


@pytest.fixture(params=["stop", "kill"])
def restart(request: pytest.FixtureRequest, broker: Target) -> Callable[[], None]:
    def run() -> None:
        broker.stop() if request.param == "stop" else broker.kill()
        broker.start()

    return run


def test_records_topics_and_configs_stay(
    broker: Target, restart: Callable[[], None], unique: Unique
) -> None:
    topic, deleted = unique("kept"), unique("deleted")
    servers = broker.bootstrap_servers
    create_topic(servers, topic, partitions=3, config={"retention.ms": "123456789"})
    create_topic(servers, deleted)
    sent = [(str(n).encode(), b"v" * 100) for n in range(300)]
    produce(producer_of(servers, compression_type="lz4"), topic, sent)
    admin = admin_of(servers)
    admin.delete_topics([deleted])[deleted].result(TIMEOUT_S)
    cluster_id = admin.describe_cluster().result(TIMEOUT_S).cluster_id
    restart()
    admin = admin_of(servers)
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    assert topic in topics
    assert deleted not in topics
    assert admin.describe_cluster().result(TIMEOUT_S).cluster_id == cluster_id
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert entries["retention.ms"].value == "123456789"
    received = read_all(servers, topic, partitions=3)
    assert sorted(message.key() or b"" for message in received) == sorted(k for k, _ in sent)


def test_committed_offsets_and_group_stay(
    broker: Target, restart: Callable[[], None], unique: Unique
) -> None:
    topic, group = unique("group-kept"), unique("group")
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    produce(producer_of(servers), topic, [(None, b"v")] * 20)
    consumer = consumer_of(servers, group, heartbeat_interval_ms=200, session_timeout_ms=10_000)
    consumer.subscribe([topic])
    consume(consumer, 20)
    consumer.commit(asynchronous=False)
    restart()
    # The same member goes on, without a record twice.
    produce(producer_of(servers), topic, [(None, b"later")])
    (message,) = consume(consumer, 1)
    assert (message.offset(), message.value()) == (20, b"later")
    (committed,) = consumer.committed([Part(topic, 0)], TIMEOUT_S)
    assert committed.offset == 20
    consumer.close()


def test_idempotent_producer_goes_on(
    broker: Target, restart: Callable[[], None], unique: Unique
) -> None:
    topic = unique("idempotent-kept")
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    producer = producer_of(servers, enable_idempotence=True)
    for _ in range(3):
        produce(producer, topic, [(None, b"v")] * 50)
        restart()
    produce(producer, topic, [(None, b"v")] * 50)
    assert [message.offset() for message in read_all(servers, topic)] == list(range(200))


def test_producer_ids_are_never_given_twice(
    broker: Target, restart: Callable[[], None], unique: Unique
) -> None:
    topic = unique("ids")
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    for round_number in range(3):
        # Sequence 0 of a fresh producer: refused or swallowed if its id had been used before.
        producer = producer_of(servers, enable_idempotence=True)
        (message,) = produce(producer, topic, [(None, str(round_number).encode())])
        assert message.offset() == round_number
        restart()


def test_deleted_records_stay_deleted(
    broker: Target,
    restart: Callable[[], None],
    unique: Unique,
    request: pytest.FixtureRequest,
    target_name: str,
) -> None:
    if target_name == "kafka" and "kill" in request.node.name:
        pytest.xfail("Kafka writes its log start offsets down once a minute; a kill forgets them")
    topic = unique("log-start")
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    produce(producer_of(servers), topic, [(None, b"v")] * 10)
    admin = admin_of(servers)
    (future,) = admin.delete_records([Part(topic, 0, 4)]).values()
    assert future.result(TIMEOUT_S).low_watermark == 4
    restart()
    assert [message.offset() for message in read_all(servers, topic)] == list(range(4, 10))
