"""aiokafka: the asyncio client, with its own protocol code and group coordinator."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target

TIMEOUT_S = 30.0
Unique = Callable[[str], str]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


async def take(consumer: Any, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_codecs(target: Target, unique: Unique, codec: str | None) -> None:
    topic = unique(f"aio-{codec}")
    create_topic(target.bootstrap_servers, topic)
    sent = [(f"k{n}".encode(), f"{n}-".encode() * 30) for n in range(200)]

    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=target.bootstrap_servers, compression_type=codec, linger_ms=10
        ) as producer:
            headers = [("h", b"1")]
            pending = [await producer.send(topic, v, k, headers=headers) for k, v in sent]
            done = [await future for future in pending]
        assert [each.offset for each in done] == list(range(200))
        consumer = AIOKafkaConsumer(bootstrap_servers=target.bootstrap_servers)
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            await consumer.seek_to_beginning()
            records = await take(consumer, 200)
        assert [(r.key, r.value) for r in records] == sent
        assert {r.headers for r in records} == {(("h", b"1"),)}

    run(work())


def test_idempotent_producer(target: Target, unique: Unique) -> None:
    topic = unique("aio-idempotent")
    create_topic(target.bootstrap_servers, topic)

    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=target.bootstrap_servers, enable_idempotence=True
        ) as producer:
            for n in range(50):
                metadata = await producer.send_and_wait(topic, b"%d" % n)
                assert metadata.offset == n

    run(work())


def test_group_shares_and_continues(target: Target, unique: Unique) -> None:
    topic, group = unique("aio-group"), unique("aio-group")
    create_topic(target.bootstrap_servers, topic, partitions=2)

    def member() -> Any:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=target.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            fetch_max_wait_ms=50,
        )

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers) as producer:
            for n in range(40):
                await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
        first, second = member(), member()
        await asyncio.gather(first.start(), second.start())
        seen = await asyncio.gather(take(first, 20), take(second, 20))
        assert [len({r.partition for r in records}) for records in seen] == [1, 1]
        await first.commit()
        await second.commit()
        await asyncio.gather(first.stop(), second.stop())
        async with member() as third:
            for partition in (0, 1):
                assert await third.committed(TopicPartition(topic, partition)) == 20

    run(work())


def test_offsets_and_times(target: Target, unique: Unique) -> None:
    topic = unique("aio-offsets")
    create_topic(target.bootstrap_servers, topic)

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers) as producer:
            for n in range(10):
                await producer.send_and_wait(topic, b"v", timestamp_ms=1_700_000_000_000 + n * 100)
        part = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=target.bootstrap_servers) as consumer:
            assert await consumer.beginning_offsets([part]) == {part: 0}
            assert await consumer.end_offsets([part]) == {part: 10}
            found = await consumer.offsets_for_times({part: 1_700_000_000_250})
            assert found[part].offset == 3

    run(work())


def test_admin(target: Target, unique: Unique) -> None:
    topic = unique("aio-admin")
    create_topic(target.bootstrap_servers, topic, partitions=2)

    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=target.bootstrap_servers)
        await admin.start()
        try:
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 2
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(work())


def test_transactions(target: Target, unique: Unique) -> None:
    topic, group = unique("aio-tx"), unique("aio-group")
    create_topic(target.bootstrap_servers, topic)

    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=target.bootstrap_servers, transactional_id=unique("aio")
        ) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"gone")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept too")
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 5}, group)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=target.bootstrap_servers,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            assert await consumer.committed(TopicPartition(topic, 0)) == 5
            await consumer.seek_to_beginning()
            records = await take(consumer, 2)
        assert [(r.offset, r.value) for r in records] == [(0, b"kept"), (4, b"kept too")]

    run(work())
