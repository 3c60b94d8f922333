"""ListOffsets in every version: the special times, and exact ones."""

import pytest
from tests.unit.broker.dialogue import (
    NOW_MS,
    READ_COMMITTED,
    Client,
    batch,
    delete_records,
    dialogue,
)

from headrace.testing.disk import Fault
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.wire.kafka.records import build_batch

VERSIONS = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def asked(
    client: Client,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "t",
    index: int = 0,
    current_leader_epoch: int = -1,
    isolation_level: int = 0,
) -> ListOffsetsPartitionResponse:
    one = ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=current_leader_epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level if version >= 2 else 0,
        topics=[ListOffsetsTopic(name=topic, partitions=[one])],
    )
    response = client.ask(request, version)
    ((found,),) = [topic.partitions for topic in response.topics]
    assert isinstance(found, ListOffsetsPartitionResponse)
    return found


def place(found: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    assert found.error_code == 0
    return found.offset, found.timestamp, found.leader_epoch


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ends_of_a_log(version: int) -> None:
    _, client = dialogue()
    epoch = 0 if version >= 4 else -1
    assert place(asked(client, LATEST, version=version)) == (0, -1, epoch)
    assert asked(client, EARLIEST, version=version).offset == 0
    for n in range(5):
        client.produce("t", 0, batch(f"{n}"))
    assert place(asked(client, LATEST, version=version)) == (5, -1, epoch)
    assert place(asked(client, EARLIEST, version=version)) == (0, -1, epoch)
    delete_records(client, "t", 0, 3)
    assert place(asked(client, EARLIEST, version=version)) == (3, -1, epoch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("special", list(SINCE))
def test_special_times_and_since_when(version: int, special: int) -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a", "b"))
    found = asked(client, special, version=version)
    if version < SINCE[special]:
        assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
        return
    expected = {
        MAX_TIMESTAMP: (1, NOW_MS + 1, 0),
        EARLIEST_LOCAL: (0, -1, 0),
        LATEST_TIERED: (-1, -1, -1),
        EARLIEST_PENDING_UPLOAD: (0, -1, 0),
    }
    assert place(found) == expected[special]


def test_max_timestamp_of_an_empty_log_and_of_mixed_times() -> None:
    _, client = dialogue()
    assert place(asked(client, MAX_TIMESTAMP)) == (-1, -1, -1)
    client.produce("t", 0, batch("a", timestamp_ms=NOW_MS))
    client.produce("t", 0, batch("late", "later", timestamp_ms=NOW_MS + 500))
    client.produce("t", 0, batch("b", timestamp_ms=NOW_MS + 100))
    assert place(asked(client, MAX_TIMESTAMP)) == (2, NOW_MS + 501, 0)


@pytest.mark.parametrize("codec", Compression)
def test_times_are_exact_within_a_batch(codec: Compression) -> None:
    _, client = dialogue()
    times = [NOW_MS, NOW_MS + 10, NOW_MS + 10, NOW_MS + 30, NOW_MS + 20]
    whole = build_batch([(b"k", b"v", (), t) for t in times], compression=codec)
    client.produce("t", 0, bytes(whole))
    client.produce("t", 0, batch("x", timestamp_ms=NOW_MS + 40))
    expected = {
        0: (0, NOW_MS),
        NOW_MS: (0, NOW_MS),
        NOW_MS + 1: (1, NOW_MS + 10),
        NOW_MS + 10: (1, NOW_MS + 10),
        NOW_MS + 11: (3, NOW_MS + 30),
        NOW_MS + 30: (3, NOW_MS + 30),
        NOW_MS + 31: (5, NOW_MS + 40),
        NOW_MS + 41: (-1, -1),
        2**62: (-1, -1),
    }
    for timestamp, (offset, time) in expected.items():
        assert place(asked(client, timestamp))[:2] == (offset, time)
    assert place(asked(client, MAX_TIMESTAMP))[:2] == (5, NOW_MS + 40)


@pytest.mark.parametrize("end", [None, "stop", "kill"])
def test_times_over_segments_and_restarts(end: str | None) -> None:
    broker, client = dialogue(segment_bytes="1048576", index_interval_bytes="1000")
    for n in range(60):
        client.produce("t", 0, batch("x" * 50_000, "y", timestamp_ms=NOW_MS + 10 * n))
    if end is not None:
        getattr(broker, end)()
        broker.start()
        client = Client(broker)
    for n in range(60):
        assert place(asked(client, NOW_MS + 10 * n))[:2] == (2 * n, NOW_MS + 10 * n)
        assert place(asked(client, NOW_MS + 10 * n + 1))[:2] == (2 * n + 1, NOW_MS + 10 * n + 1)


def test_a_time_below_the_start_of_the_log_finds_its_first_record() -> None:
    _, client = dialogue()
    client.produce("t", 0, batch(*"abcdef"))
    delete_records(client, "t", 0, 3)
    assert place(asked(client, NOW_MS))[:2] == (3, NOW_MS + 3)
    assert place(asked(client, NOW_MS + 5))[:2] == (5, NOW_MS + 5)


def test_log_append_time_answers_with_the_first_of_the_batch() -> None:
    broker, client = dialogue(message_timestamp_type="LogAppendTime")
    client.produce("t", 0, batch("a", "b", timestamp_ms=5))
    broker.advance(100)
    client.produce("t", 0, batch("c", "d", timestamp_ms=5))
    assert place(asked(client, NOW_MS))[:2] == (0, NOW_MS)
    assert place(asked(client, NOW_MS + 1))[:2] == (2, NOW_MS + 100)
    assert place(asked(client, MAX_TIMESTAMP))[:2] == (2, NOW_MS + 100)


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    open_batch = build_batch(
        [(b"k", b"open", (), NOW_MS + 50)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    partition.append(open_batch, NOW_MS)
    assert place(asked(client, LATEST))[0] == 2
    assert place(asked(client, LATEST, isolation_level=READ_COMMITTED))[0] == 1
    assert place(asked(client, NOW_MS + 50))[0] == 1
    assert place(asked(client, NOW_MS + 50, isolation_level=READ_COMMITTED))[0] == -1


def test_leader_epochs_of_what_is_found() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    broker.reboot()
    broker.start()
    client = Client(broker)
    client.produce("t", 0, batch("b", timestamp_ms=NOW_MS + 5))
    assert place(asked(client, EARLIEST)) == (0, -1, 0)
    assert place(asked(client, LATEST)) == (2, -1, 1)
    assert place(asked(client, NOW_MS)) == (0, NOW_MS, 0)
    assert place(asked(client, NOW_MS + 1)) == (1, NOW_MS + 5, 1)
    assert place(asked(client, MAX_TIMESTAMP)) == (1, NOW_MS + 5, 1)
    for current, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        assert asked(client, LATEST, current_leader_epoch=current).error_code == error


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partitions_and_partitions_asked_twice(version: int) -> None:
    _, client = dialogue("t", 2)
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert asked(client, LATEST, version=version, topic="nobody").error_code == unknown
    assert asked(client, LATEST, version=version, index=2).error_code == unknown
    once, twice = (ListOffsetsPartition(partition_index=n, timestamp=LATEST) for n in (0, 1))
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[twice, once, twice])]
    )
    codes = [p.error_code for p in client.ask(request, version).topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


def test_a_disk_that_fails_answers_with_56() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    broker.disk.plan(Fault("read", path_part="/t-0/", is_sticky=True))
    assert asked(client, NOW_MS).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert asked(client, LATEST).error_code == ErrorCode.KAFKA_STORAGE_ERROR
