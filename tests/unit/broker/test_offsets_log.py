"""`__consumer_offsets` as the groups see it: made once, read back whole or not at all."""

import pytest
from tests.unit.broker.dialogue import NOW_MS, Client, batch, dialogue

from headrace.base.errors import CorruptionError, StorageError
from headrace.broker.internal_log import TransactionalRecord, TransactionMarker
from headrace.broker.offsets_log import OFFSETS_TOPIC, PartitionOffsetsLog
from headrace.broker.partition import Partition
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.wire.kafka.records import build_batch

Pair = tuple[bytes, bytes | None]


def made(partition_count: int = 1) -> tuple[SimulatedBroker, PartitionOffsetsLog]:
    broker = SimulatedBroker(offsets_topic_num_partitions=str(partition_count))
    log = broker.broker.offsets_log
    assert log.ensure_exists().value() == 0
    return broker, log


def target_of(broker: SimulatedBroker, index: int = 0) -> Partition:
    target = broker.broker.partitions.find(OFFSETS_TOPIC, index)
    assert target is not None
    return target


def pairs(log: PartitionOffsetsLog, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, value) for _, key, value in log.read(partition)]


# -- the topic ---------------------------------------------------------------------------------


def test_the_topic_is_made_as_configured() -> None:
    broker = SimulatedBroker(offsets_topic_num_partitions="7")
    log = broker.broker.offsets_log
    assert log.partition_count() == 7
    assert not log.is_local(0)
    assert log.ensure_exists().value() == 0
    topic = broker.broker.image.topics_by_name[OFFSETS_TOPIC]
    assert (len(topic.partitions), topic.is_internal) == (7, True)
    configs = broker.broker.image.topic_configs(OFFSETS_TOPIC)
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "producer"
    assert all(log.is_local(index) for index in range(7))
    assert log.ensure_exists().value() == 0


def test_several_callers_share_one_creation() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk, offsets_topic_num_partitions="3")
    disk.defer_syncs = True
    log = broker.broker.offsets_log
    promises = [log.ensure_exists() for _ in range(5)]
    assert all(promise is promises[0] for promise in promises)
    assert not promises[0].settled
    broker.settle()
    assert promises[0].value() == 0
    assert log.partition_count() == 3


@pytest.mark.parametrize("defer_syncs", [False, True])
def test_finding_a_coordinator_makes_it(defer_syncs: bool) -> None:
    """Also where the creation is done before anybody could wait for it."""
    disk = SimulatedDisk(defer_syncs=defer_syncs)
    broker = SimulatedBroker(disk=disk, offsets_topic_num_partitions="2")
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    response = Client(broker).ask(request, 4)
    assert (response.coordinators[0].error_code, response.coordinators[0].node_id) == (
        0,
        broker.broker.node_id,
    )


def test_clients_may_read_it_and_not_write_to_it() -> None:
    broker, log = made()
    log.append(0, [(b"k", b"v")])
    client = Client(broker)
    for version in (9, 13):
        for _ in range(2):
            answer = client.produce(OFFSETS_TOPIC, 0, batch("junk"), version=version)
            assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [r.value for r in client.read_all(OFFSETS_TOPIC, 0)] == [b"v"]


# -- writing and reading -----------------------------------------------------------------------


def test_records_come_back_in_order_with_their_offsets() -> None:
    _, log = made(2)
    first: list[Pair] = [(b"a", b"1"), (b"b", None)]
    assert log.append(0, first).value() == 0
    assert log.append(0, [(b"c", b"2")]).value() == 0
    assert log.append(1, [(b"other", b"3")]).value() == 0
    assert list(log.read(0)) == [(0, b"a", b"1"), (1, b"b", None), (2, b"c", b"2")]
    assert pairs(log, 1) == [(b"other", b"3")]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_reading_goes_over_segments_and_restarts(end: str) -> None:
    broker = SimulatedBroker(
        offsets_topic_num_partitions="1", offsets_topic_segment_bytes="1048576"
    )
    assert broker.broker.offsets_log.ensure_exists().value() == 0
    written: list[Pair] = [(b"key %d" % n, b"v" * 30_000) for n in range(100)]
    for pair in written:
        assert broker.broker.offsets_log.append(0, [pair]).value() == 0
    assert len(target_of(broker).log.segments) > 1
    getattr(broker, end)()
    broker.start()
    assert pairs(broker.broker.offsets_log) == written


def test_what_a_transaction_wrote_is_told_with_its_producer_and_its_end() -> None:
    broker, log = made()
    log.append(0, [(b"a", b"1")])
    log.append(0, [(b"b", b"2")], producer_id=7, producer_epoch=3)
    for kind, value in ((1, b"\0\0\0\0\0\0"), (2, b"\0\0\0\0\0\0")):
        key = b"\0\0\0" + bytes([kind])
        marker = build_batch(
            [(key, value, (), NOW_MS)],
            producer_id=7,
            producer_epoch=3,
            is_transactional=True,
            is_control=True,
        )
        target_of(broker).append(marker, NOW_MS)
    log.append(0, [(b"c", b"3")])
    # The second control record is of another kind than a transaction's end: passed over.
    assert list(log.read(0)) == [
        (0, b"a", b"1"),
        TransactionalRecord(1, b"b", b"2", 7),
        TransactionMarker(2, 7, is_commit=True),
        (4, b"c", b"3"),
    ]


def test_a_partition_that_is_not_here() -> None:
    _, log = made()
    assert log.append(5, [(b"a", b"1")]).value() == ErrorCode.NOT_COORDINATOR
    assert list(log.read(5)) == []
    assert not log.is_local(5)


def test_commits_wait_for_the_sync_where_it_is_asked_for() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(
        disk=disk, offsets_topic_num_partitions="1", log_flush_interval_messages="1"
    )
    log = broker.broker.offsets_log
    assert log.ensure_exists().value() == 0
    disk.defer_syncs = True
    appended = log.append(0, [(b"a", b"1")])
    assert not appended.settled
    disk.complete_syncs()
    assert appended.value() == 0


# -- failing -----------------------------------------------------------------------------------


def test_a_disk_that_refuses_is_a_code() -> None:
    broker, log = made()
    broker.disk.plan(Fault("write", path_part=OFFSETS_TOPIC))
    assert log.append(0, [(b"a", b"1")]).value() == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.is_local(0)


def test_a_read_that_fails_takes_the_partition_out() -> None:
    broker, log = made()
    log.append(0, [(b"a", b"1")])
    broker.disk.plan(Fault("read", path_part=OFFSETS_TOPIC, is_sticky=True))
    with pytest.raises(StorageError):
        list(log.read(0))
    assert target_of(broker).error == ErrorCode.KAFKA_STORAGE_ERROR


def commit(client: Client, group: str, offset: int) -> int:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[row])]
    response = client.ask(OffsetCommitRequest(group_id=group, topics=topics), 8)
    return int(response.topics[0].partitions[0].error_code)


def committed(client: Client, group: str) -> tuple[int, int | None]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    answer = client.ask(asked, 9).groups[0]
    if answer.error_code:
        return answer.error_code, None
    return 0, answer.topics[0].partitions[0].committed_offset


@pytest.mark.parametrize("position", range(8, 130, 3))
def test_rotten_bytes_are_never_an_offset_and_never_stop_the_node(position: int) -> None:
    """After a clean stop nothing is scanned: whoever reads must look."""
    broker, client = dialogue(flags={"offsets_topic_num_partitions": "2"})
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert commit(client, "g", 41) == 0
    assert commit(client, "h", 42) == 0
    broker.stop()
    home = broker.broker.groups.partition_for("g")
    path = f"/data/{OFFSETS_TOPIC}-{home}/00000000000000000000.log"
    rotten = bytearray(broker.disk.read_file(path))
    if position < len(rotten):
        rotten[position] ^= 0x5A
    broker.disk.overwrite(path, bytes(rotten))
    broker.start()
    client = Client(broker)
    leader_epoch = range(12, 16)  # stamped by the broker, outside of the CRC
    if position < len(rotten) and position not in leader_epoch:
        assert committed(client, "g") == (ErrorCode.NOT_COORDINATOR, None)
        assert any("storage_failed" in line and OFFSETS_TOPIC in line for line in broker.events)
        assert commit(client, "g", 43) == ErrorCode.NOT_COORDINATOR
    assert committed(client, "h") == (0, 42)
    assert client.produce("t", 0, batch("a")).error_code == 0


def test_a_value_of_a_version_from_the_future_is_left_alone() -> None:
    broker, client = dialogue(flags={"offsets_topic_num_partitions": "1"})
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert commit(client, "g", 41) == 0
    ((_, key, value),) = broker.broker.offsets_log.read(0)
    assert key is not None
    assert value is not None
    later: list[Pair] = [(key, b"\x00\x63" + value[2:]), (key, value[:3])]
    assert broker.broker.offsets_log.append(0, later).value() == 0
    broker.kill()
    broker.start()
    assert committed(Client(broker), "g") == (0, 41)


def test_damage_is_raised_with_its_place() -> None:
    broker, log = made()
    for n in range(3):
        log.append(0, [(b"k", b"%d" % n)])
    size = len(target_of(broker).log.segments) and target_of(broker).log.size_bytes // 3
    path = f"/data/{OFFSETS_TOPIC}-0/00000000000000000000.log"
    rotten = bytearray(broker.disk.read_file(path))
    rotten[-1] ^= 1
    broker.disk.overwrite(path, bytes(rotten))
    with pytest.raises(CorruptionError) as caught:
        list(log.read(0))
    assert (caught.value.path, caught.value.position) == (path, 2 * size)
