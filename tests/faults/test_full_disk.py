"""A broker whose disk fills up under load: records are refused there, everything else goes on.

Three brokers, three replicas. The only disk of one of them, with its part of the metadata log and
of `__consumer_offsets`, is a small file system that the test fills to the last byte, and gives
back. An idempotent producer writes with acks=all to all partitions all the while.
"""

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import NewTopic
from tests.faults.disks import fill, small_disk
from tests.faults.load import (
    PATIENCE,
    ProduceLoad,
    TailReader,
    await_acknowledged,
    patiently,
    record_poll,
)
from tests.faults.node_rig import NodeRig, rig_of
from tests.faults.readers import end_offsets, invented
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole, led_at
from tests.faults.test_replication import IMPATIENCE, tell, verdict
from tests.faults.topic_load import open_connection, topics_at
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch

PARTITIONS = 3
VICTIM = 2
TOPIC = "full"
SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.fetch.backoff.ms": "200"}


def create(rig: NodeRig, topic: str, partitions: int, replicas: int) -> None:
    admin = admin_of(rig.bootstrap_servers)
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas)
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def sent_to(rig: NodeRig, topic: str, partition: int, leader: int) -> int:
    """What the leader answers to one record with acks=1."""
    batch = bytes(build_batch([(None, b"x" * 1000, (), 1_700_000_000_000)]))
    data = [PartitionProduceData(index=partition, records=batch)]
    topic_id = topics_at(rig.nodes[leader].listen)[topic]
    one = TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[one])
    connection = open_connection(rig.nodes[leader].listen)
    try:
        answer = connection.call(request, ProduceResponse)
    finally:
        connection.close()
    return int(answer.responses[0].partition_responses[0].error_code)


def commit(rig: NodeRig, group: str, offset: int) -> None:
    client = Consumer({"bootstrap.servers": rig.bootstrap_servers, "group.id": group, **PATIENCE})
    try:
        wanted = [Part(TOPIC, 0, offset)]
        patiently(lambda: client.commit(offsets=wanted, asynchronous=False))
        (read,) = patiently(lambda: client.committed([Part(TOPIC, 0)], TIMEOUT_S))
        assert read.offset == offset
    finally:
        client.close()


def test_a_full_disk_refuses_records_and_heals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = rig_of(tmp_path, directories=1, settings=SETTINGS)
    disk = rig.nodes[VICTIM].log_dirs[0]
    with small_disk(disk, 64), rig:
        create(rig, TOPIC, PARTITIONS, 3)
        create(rig, "alone", 3, 1)
        before = await_told(rig.addresses(), TOPIC, is_whole)
        led = next(index for index, each in before.items() if each.leader == VICTIM)
        alone = until(lambda: led_at(rig.nodes[1].listen, "alone"))
        mine = next(index for index, each in alone.items() if each.leader == VICTIM)
        assert sent_to(rig, "alone", mine, VICTIM) == 0
        history = History()
        servers = rig.bootstrap_servers
        load = ProduceLoad(
            servers,
            TOPIC,
            PARTITIONS,
            history,
            idempotent=True,
            pause_s=0.002,
            settings={**IMPATIENCE, "queue.buffering.max.messages": 100_000},
        )
        tail = TailReader(servers, TOPIC, PARTITIONS, history)
        tail.start()
        load.start()
        await_acknowledged(history, 200)
        commit(rig, "watcher", 1)
        ballast = fill(disk)
        until(lambda: "log_dir_full" in rig.nodes[VICTIM].log_text(), WAIT_S)

        def has_left(told: dict[int, Led]) -> bool:
            return bool(told) and all(
                VICTIM not in each.isr for each in told.values() if each.leader != VICTIM
            )

        # A follower without room leaves; what others lead goes on without it.
        told = await_told(rig.addresses(VICTIM), TOPIC, has_left)
        others = [index for index, each in told.items() if each.leader != VICTIM]
        heard = [load.gaps.count(index) for index in others]
        until(
            lambda: all(
                load.gaps.count(index) > count for index, count in zip(others, heard, strict=True)
            ),
            WAIT_S,
        )
        # Records are refused, with a word that clients take for "later"; reads are served.
        assert sent_to(rig, "alone", mine, VICTIM) == ErrorCode.KAFKA_STORAGE_ERROR
        assert ErrorCode.KAFKA_STORAGE_ERROR.retriable
        assert len(read_all(servers, "alone", 3)) == 1
        # Administration goes on: two of three voters have room.
        create(rig, "made-meanwhile", 1, 1)
        assert rig.is_alive(VICTIM)
        ballast.unlink()
        await_told(rig.addresses(), TOPIC, is_whole)
        until(lambda: sent_to(rig, "alone", mine, VICTIM) == 0, WAIT_S)
        again = load.gaps.count(led)
        until(lambda: load.gaps.count(led) > again, WAIT_S)
        commit(rig, "watcher", 2)
        await_told(rig.addresses(), "made-meanwhile", bool)
        assert rig.is_alive(VICTIM)
        load.stop()
        for message in read_all(servers, TOPIC, PARTITIONS):
            record_poll(history, "librdkafka", message)
        tail.drain(end_offsets(history))
        assert tail.errors == []
        assert invented(history) == []
        line = verdict(history, 1, [0.0])
    tell(capsys, "a full disk, and room again", line)
