"""Produce in every version, and what may be in the way of a batch."""

import errno

import pytest
from tests.unit.broker.dialogue import NOW_MS, Client, batch, dialogue, only_produced, records_of

from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.record_batch import TIMESTAMP_APPEND, crc_of, read_header
from headrace.wire.kafka.records import build_batch, is_crc_valid

VERSIONS = range(3, 14)
HOUR_MS = 3_600_000


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_offsets_in_turn(version: int) -> None:
    _, client = dialogue()
    for expected in (0, 2, 4):
        answer = client.produce("t", 0, batch("a", "b"), version=version)
        assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, expected)
        assert answer.log_append_time_ms == -1
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.error_message is None
    assert [r.offset for r in client.read_all("t", 0)] == list(range(6))


@pytest.mark.parametrize("version", VERSIONS)
def test_several_partitions_and_topics_are_answered_in_their_order(version: int) -> None:
    broker, client = dialogue("t", 3)
    broker.create_topic("u")
    data = [(client.topic_id(t), t, indexes) for t, indexes in (("u", [0]), ("t", [2, 0, 7]))]
    request = ProduceRequest(
        acks=1,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=topic_id if version >= 13 else bytes(16),
                partition_data=[
                    PartitionProduceData(index=i, records=batch(f"{name}{i}")) for i in indexes
                ],
            )
            for topic_id, name, indexes in data
        ],
    )
    response = client.ask(request, version)
    found = [
        [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses]
        for topic in response.responses
    ]
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert found == [[(0, 0, 0)], [(2, 0, 0), (0, 0, 0), (7, unknown, -1)]]


def test_unknown_topics_by_name_and_by_id() -> None:
    _, client = dialogue()
    topic = TopicProduceData(
        name="nobody",
        topic_id=bytes(range(16)),
        partition_data=[PartitionProduceData(index=0, records=batch("a"))],
    )
    by_name = client.ask(ProduceRequest(acks=1, topic_data=[topic]), 12)
    assert only_produced(by_name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = client.ask(ProduceRequest(acks=1, topic_data=[topic]), 13)
    assert only_produced(by_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_and_nothing_is_stored(acks: int) -> None:
    _, client = dialogue()
    for _ in range(2):  # a shape of refused requests must not be learnt
        request = client.produce_request("t", {0: batch("a")}, acks=acks)
        answer = only_produced(client.ask(request, 11))
        assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.read_all("t", 0) == []


def test_null_records_are_refused() -> None:
    _, client = dialogue()
    assert client.produce("t", 0, None).error_code == ErrorCode.INVALID_RECORD


# -- what the producer compressed --------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_is_stored_as_it_was_compressed(codec: Compression) -> None:
    _, client = dialogue()
    sent = batch("value " * 50, compression=codec)
    assert client.produce("t", 0, sent).error_code == 0
    stored = bytes(client.fetch("t", 0, 0).records or b"")
    assert stored[16:] == sent[16:]  # offset and leader epoch alone are the broker's
    assert stored[12:16] == b"\0\0\0\0"


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", Compression)
def test_a_topic_with_its_own_codec_recompresses(wanted: str, codec: Compression) -> None:
    _, client = dialogue(compression_type=wanted)
    sent = batch("one " * 50, "two " * 50, compression=codec, producer=(5, 0, 0))
    assert client.produce("t", 0, sent).error_code == 0
    fetched = client.fetch("t", 0, 0)
    header = read_header(fetched.records or b"")
    expected = Compression.NONE if wanted == "uncompressed" else Compression[wanted.upper()]
    assert header.compression == expected
    assert is_crc_valid(fetched.records or b"")
    assert (header.producer_id, header.base_sequence, header.record_count) == (5, 0, 2)
    assert [(r.value, r.timestamp) for r in records_of(fetched)] == [
        (b"one " * 50, NOW_MS),
        (b"two " * 50, NOW_MS + 1),
    ]
    if expected == codec:
        assert bytes(fetched.records or b"")[16:] == sent[16:]


def test_a_recompressed_batch_is_recognised_as_a_duplicate_too() -> None:
    _, client = dialogue(compression_type="zstd")
    sent = batch("one", producer=(5, 0, 0))
    assert client.produce("t", 0, sent).base_offset == 0
    client.produce("t", 0, batch("x"))
    again = client.produce("t", 0, sent)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert len(client.read_all("t", 0)) == 2


def test_recompression_must_not_grow_a_batch_past_the_limit() -> None:
    _, client = dialogue(compression_type="uncompressed", max_message_bytes="1000")
    small = batch("a" * 5000, compression=Compression.ZSTD)
    assert len(small) < 1000
    assert client.produce("t", 0, small).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.read_all("t", 0) == []


def test_garbage_under_a_right_crc_is_refused_where_records_are_walked() -> None:
    _, client = dialogue(compression_type="zstd")
    broken = bytearray(batch("a" * 100, compression=Compression.GZIP))
    broken[70:80] = b"garbage..."
    broken[17:21] = crc_of(broken, 0, len(broken)).to_bytes(4, "big")
    assert client.produce("t", 0, bytes(broken)).error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_version_7() -> None:
    _, client = dialogue()
    zstd = batch("a", compression=Compression.ZSTD)
    refused = client.produce("t", 0, zstd, version=6)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce("t", 0, zstd, version=7).error_code == 0


# -- times and sizes ---------------------------------------------------------------------------


def test_log_append_time_is_stamped_and_told() -> None:
    broker, client = dialogue(message_timestamp_type="LogAppendTime")
    broker.advance(5000)
    for base_offset in (0, 2):
        answer = client.produce("t", 0, batch("a", "b", timestamp_ms=77))
        assert (answer.base_offset, answer.log_append_time_ms) == (base_offset, NOW_MS + 5000)
    header = read_header(client.fetch("t", 0, 2).records or b"")
    assert header.timestamp_type == TIMESTAMP_APPEND
    assert header.max_timestamp == NOW_MS + 5000
    fetched = client.fetch("t", 0, 0)
    assert is_crc_valid(fetched.records or b"")
    assert [r.timestamp for r in records_of(fetched)] == [NOW_MS + 5000] * 4


def test_a_duplicate_is_told_the_time_of_the_first() -> None:
    broker, client = dialogue(message_timestamp_type="LogAppendTime")
    sent = batch("a", producer=(1, 0, 0))
    first = client.produce("t", 0, sent)
    broker.advance(1000)
    again = client.produce("t", 0, sent)
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "error"),
    [
        (NOW_MS + HOUR_MS, 0),
        (NOW_MS + HOUR_MS + 1, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS - 1000, 0),
        (NOW_MS - 1001, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_bounds_of_timestamps(timestamp_ms: int, error: int) -> None:
    _, client = dialogue(
        message_timestamp_after_max_ms=str(HOUR_MS), message_timestamp_before_max_ms="1000"
    )
    answer = client.produce("t", 0, batch("a", timestamp_ms=timestamp_ms))
    assert answer.error_code == error
    if error:
        assert str(timestamp_ms) in (answer.error_message or "")


def test_a_clock_that_jumps_does_not_judge_the_append_time() -> None:
    broker, client = dialogue(message_timestamp_type="LogAppendTime")
    broker.clock.jump_wall(-10 * HOUR_MS)
    answer = client.produce("t", 0, batch("a", timestamp_ms=NOW_MS))
    assert (answer.error_code, answer.log_append_time_ms) == (0, NOW_MS - 10 * HOUR_MS)


def test_max_message_bytes_to_the_byte() -> None:
    sent = batch("a" * 200)
    _, client = dialogue(max_message_bytes=str(len(sent)))
    assert client.produce("t", 0, sent).error_code == 0
    answer = client.produce("t", 0, batch("a" * 201))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert str(len(sent)) in (answer.error_message or "")


# -- idempotence -------------------------------------------------------------------------------


def test_the_five_batch_window() -> None:
    _, client = dialogue()
    sent = [batch(f"{n}a", f"{n}b", producer=(9, 0, 2 * n)) for n in range(7)]
    for n, whole in enumerate(sent):
        assert client.produce("t", 0, whole).base_offset == 2 * n
    for n in range(2, 7):
        again = client.produce("t", 0, sent[n])
        assert (again.error_code, again.base_offset) == (0, 2 * n)
    for n in (0, 1):
        forgotten = client.produce("t", 0, sent[n])
        assert forgotten.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(client.read_all("t", 0)) == 14


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_duplicates_are_known_after_a_restart(end: str) -> None:
    broker, client = dialogue(flush_messages="1")
    sent = [batch(f"{n}", producer=(9, 0, n)) for n in range(5)]
    for n, whole in enumerate(sent):
        assert client.produce("t", 0, whole).base_offset == n
    getattr(broker, end)()
    broker.start()
    client = Client(broker)
    for n in (4, 0, 2):
        again = client.produce("t", 0, sent[n])
        assert (again.error_code, again.base_offset) == (0, n)
    assert client.produce("t", 0, batch("next", producer=(9, 0, 5))).base_offset == 5
    gap = client.produce("t", 0, batch("gap", producer=(9, 0, 7)))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(client.read_all("t", 0)) == 6


def test_an_old_epoch_is_fenced_and_a_new_one_starts_at_zero() -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a", producer=(9, 1, 0)))
    old = client.produce("t", 0, batch("b", producer=(9, 0, 1)))
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    late = client.produce("t", 0, batch("b", producer=(9, 2, 1)))
    assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.produce("t", 0, batch("b", producer=(9, 2, 0))).base_offset == 1


def test_the_sequence_wraps_around() -> None:
    _, client = dialogue()
    top = 2**31 - 1
    assert client.produce("t", 0, batch("a", producer=(9, 0, top))).base_offset == 0
    assert client.produce("t", 0, batch("b", producer=(9, 0, 0))).base_offset == 1
    again = client.produce("t", 0, batch("a", producer=(9, 0, top)))
    assert (again.error_code, again.base_offset) == (0, 0)


def test_a_transaction_that_nobody_coordinates_is_refused() -> None:
    _, client = dialogue()
    whole = bytes(
        build_batch(
            [(b"k", b"v", (), NOW_MS)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )
    without_id = client.produce("t", 0, whole)
    assert without_id.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = client.produce_request("t", {0: whole})
    request.transactional_id = "tx"
    with_id = only_produced(client.ask(request, 11))
    # Nobody coordinates the id yet: send it again.
    assert with_id.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.read_all("t", 0) == []


# -- durability --------------------------------------------------------------------------------


def test_flush_messages_1_answers_only_after_the_sync() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", flush_messages="1")
    Client(broker).produce("t", 0, batch("first"))
    client = Client(broker)
    disk.defer_syncs = True
    for n in range(3):  # parsed, then by its shape
        client.transport.feed(client.produce_frame("t", 0, batch(f"{n}")))
        assert client.transport.take() == []
        assert disk.complete_syncs() == 1
        (answer,) = client.answers(ProduceRequest, 11)
        assert only_produced(answer).base_offset == n + 1


def test_the_first_batch_of_a_partition_is_answered_when_its_folder_is_durable() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", 2)
    client, other = Client(broker), Client(broker)
    disk.defer_syncs = True
    client.transport.feed(client.produce_frame("t", 0, batch("a")))
    other.transport.feed(other.produce_frame("t", 0, batch("b")))
    assert client.transport.take() == other.transport.take() == []
    assert disk.complete_syncs() == 1
    for each, offset in ((client, 0), (other, 1)):
        (answer,) = each.answers(ProduceRequest, 11)
        assert only_produced(answer).base_offset == offset
    client.transport.feed(client.produce_frame("t", 0, batch("c")))
    (answer,) = client.answers(ProduceRequest, 11)
    assert (only_produced(answer).base_offset, disk.deferred_count) == (2, 0)


def test_produces_that_wait_for_one_sync_share_the_next() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", flush_messages="1")
    Client(broker).produce("t", 0, batch("first"))
    disk.defer_syncs = True
    clients = [Client(broker) for _ in range(5)]
    for n, client in enumerate(clients):
        client.transport.feed(client.produce_frame("t", 0, batch(f"{n}")))
    before = disk.sync_count
    disk.complete_syncs()
    assert clients[0].transport.sent
    assert not any(client.transport.sent for client in clients[1:])
    disk.complete_syncs()
    assert disk.sync_count == before + 2
    for n, client in enumerate(clients):
        (answer,) = client.answers(ProduceRequest, 11)
        assert only_produced(answer).base_offset == n + 1


def test_a_duplicate_waits_for_the_sync_of_the_first() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", flush_messages="1")
    disk.defer_syncs = True
    first, second = Client(broker), Client(broker)
    sent = batch("a", producer=(1, 0, 0))
    first.transport.feed(first.produce_frame("t", 0, sent))
    second.transport.feed(second.produce_frame("t", 0, sent))
    assert second.transport.take() == []
    broker.settle()
    for client in (first, second):
        (answer,) = client.answers(ProduceRequest, 11)
        assert (only_produced(answer).error_code, only_produced(answer).base_offset) == (0, 0)


def test_a_failed_sync_is_never_acknowledged() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", flush_messages="1")
    client = Client(broker)
    client.produce("t", 0, batch("a"))
    disk.plan(Fault("sync", path_part="/t-0/"))
    answer = client.produce("t", 0, batch("b"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    later = client.produce("t", 0, batch("c"))
    assert later.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_takes_the_partition_out(code: int) -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t")
    client = Client(broker)
    client.produce("t", 0, batch("a"))
    disk.plan(Fault("write", code=code, path_part="/t-0/"))
    answer = client.produce("t", 0, batch("b"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    broker.kill()
    broker.start()
    client = Client(broker)
    assert [r.value for r in client.read_all("t", 0)] == [b"a"]
    assert client.produce("t", 0, batch("c")).base_offset == 1


# -- topics that come and go -------------------------------------------------------------------


def test_a_topic_deleted_and_made_anew_under_a_known_shape() -> None:
    broker, client = dialogue()
    for expected in (0, 1):
        assert client.produce("t", 0, batch("a")).base_offset == expected
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    gone = client.produce("t", 0, batch("a"))
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("t")
    assert client.produce("t", 0, batch("a")).base_offset == 0


def test_an_old_topic_id_does_not_reach_the_new_topic_of_that_name() -> None:
    broker, client = dialogue()
    old_frame_of = {n: client.produce_frame("t", 0, batch(f"{n}"), version=13) for n in range(3)}
    for n in range(2):
        client.transport.feed(old_frame_of[n])
    assert len(client.transport.take()) == 2
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    broker.create_topic("t")
    client.transport.feed(old_frame_of[2])
    (answer,) = client.answers(ProduceRequest, 13)
    assert only_produced(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.read_all("t", 0) == []


def test_creation_in_the_same_read_is_seen_by_the_produce_behind_it() -> None:
    broker = SimulatedBroker()
    client = Client(broker)
    creation = CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    )
    client.transport.feed(client.frame(creation, 7) + client.produce_frame("t", 0, batch("a")))
    broker.settle()
    created, produced = client.transport.take()
    assert client.read(created, CreateTopicsRequest, 7).topics[0].error_code == 0
    assert only_produced(client.read(produced, ProduceRequest, 11)).error_code == 0
