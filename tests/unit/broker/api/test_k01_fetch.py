"""Fetch in every version: limits, waiting, refusals."""

import errno

import pytest
from tests.unit.broker.dialogue import (
    FETCH_VERSION,
    NOW_MS,
    READ_COMMITTED,
    Client,
    all_fetched,
    batch,
    batches_of,
    delete_records,
    dialogue,
    only_fetched,
    values_of,
    wanted,
)

from headrace.broker.partition import Partition
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from headrace.wire.kafka.records import build_batch

VERSIONS = range(4, 19)


def partition_of(broker: SimulatedBroker, topic: str = "t", index: int = 0) -> Partition:
    found = broker.broker.partitions.find(topic, index)
    assert found is not None
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_written(version: int) -> None:
    _, client = dialogue()
    for n in range(3):
        client.produce("t", 0, batch(f"{n}a", f"{n}b"))
    fetched = client.fetch("t", 0, 2, version=version)
    assert (fetched.partition_index, fetched.error_code) == (0, 0)
    assert values_of(fetched) == ["1a", "1b", "2a", "2b"]
    assert (fetched.high_watermark, fetched.last_stable_offset) == (6, 6)
    assert fetched.log_start_offset == (0 if version >= 5 else -1)
    assert fetched.preferred_read_replica == -1
    assert fetched.diverging_epoch.end_offset == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_is_empty_and_behind_it_is_out_of_range(version: int) -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a", "b"))
    at_end = client.fetch("t", 0, 2, version=version)
    assert (at_end.error_code, bytes(at_end.records or b"")) == (0, b"")
    for offset in (3, -1, 2**62):
        behind = client.fetch("t", 0, offset, version=version)
        assert behind.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (behind.high_watermark, bytes(behind.records or b"")) == (-1, b"")


def test_below_the_start_is_out_of_range() -> None:
    _, client = dialogue()
    for n in range(4):
        client.produce("t", 0, batch(f"{n}"))
    assert delete_records(client, "t", 0, 2) == 2
    assert client.fetch("t", 0, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    fetched = client.fetch("t", 0, 2)
    assert (values_of(fetched), fetched.log_start_offset) == (["2", "3"], 2)


def test_an_offset_in_the_middle_of_a_batch_gets_the_whole_batch() -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a", "b", "c"))
    assert values_of(client.fetch("t", 0, 1)) == ["a", "b", "c"]


# -- limits ------------------------------------------------------------------------------------


def test_a_batch_larger_than_every_limit_comes_whole() -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a" * 500))
    client.produce("t", 0, batch("b" * 500))
    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}):
        assert values_of(client.fetch("t", 0, 0, **limits)) == ["a" * 500]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_whole_batches_within_the_limit(version: int) -> None:
    _, client = dialogue()
    size = len(batch("x"))
    for n in range(9):
        client.produce("t", 0, batch(f"{n}"))
    for limit, count in ((size, 1), (2 * size - 1, 1), (2 * size, 2), (5 * size + 1, 5)):
        fetched = client.fetch("t", 0, 1, version=version, partition_max_bytes=limit)
        assert values_of(fetched) == [f"{n}" for n in range(1, 1 + count)]
        fetched = client.fetch("t", 0, 1, version=version, max_bytes=limit)
        assert values_of(fetched) == [f"{n}" for n in range(1, 1 + count)]


def test_the_response_limit_goes_over_all_partitions() -> None:
    _, client = dialogue("t", 4)
    size = len(batch("x"))
    for index in range(4):
        for _ in range(3):
            client.produce("t", index, batch("x"))
    asked = client.fetch_request(
        {"t": [wanted(index, 0) for index in range(4)]}, FETCH_VERSION, max_bytes=4 * size
    )
    response = client.ask(asked, FETCH_VERSION)
    counts = [len(values_of(partition)) for partition in all_fetched(response)]
    assert counts == [3, 1, 0, 0]
    assert [p.high_watermark for p in all_fetched(response)] == [3, 3, 3, 3]


def test_only_the_first_partition_with_data_may_break_the_limit() -> None:
    _, client = dialogue("t", 3)
    for index in (1, 2):
        client.produce("t", index, batch("x" * 1000))
    asked = {"t": [wanted(index, 0, 10) for index in range(3)]}
    response = client.ask(client.fetch_request(asked, FETCH_VERSION), FETCH_VERSION)
    assert [len(values_of(partition)) for partition in all_fetched(response)] == [0, 1, 0]


def test_the_brokers_own_limit() -> None:
    _, client = dialogue(flags={"fetch_max_bytes": "2000"})
    for _ in range(5):
        client.produce("t", 0, batch("x" * 700))
    assert len(values_of(client.fetch("t", 0, 0))) == 2


def test_the_same_partition_asked_twice_is_answered_twice() -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a"))
    client.produce("t", 0, batch("b"))
    asked = {"t": [wanted(0, 0), wanted(0, 1)]}
    response = client.ask(client.fetch_request(asked, FETCH_VERSION), FETCH_VERSION)
    assert [values_of(partition) for partition in all_fetched(response)] == [["a", "b"], ["b"]]


# -- waiting -----------------------------------------------------------------------------------


def start_waiting(
    broker: SimulatedBroker, *, topics: dict[str, list[FetchPartition]] | None = None, **fields: int
) -> Client:
    """A client whose fetch waits."""
    client = Client(broker)
    fields.setdefault("max_wait_ms", 500)
    fields.setdefault("min_bytes", 1)
    asked = client.fetch_request(topics or {"t": [wanted(0, 0)]}, FETCH_VERSION, **fields)
    client.transport.feed(client.frame(asked, FETCH_VERSION))
    broker.settle()
    assert client.transport.take() == []
    return client


def answer_of(client: Client) -> FetchResponse:
    (answer,) = client.answers(FetchRequest, FETCH_VERSION)
    assert isinstance(answer, FetchResponse)
    return answer


def test_max_wait_ends_an_empty_wait() -> None:
    broker, _ = dialogue()
    client = start_waiting(broker)
    broker.advance(499)
    assert client.transport.take() == []
    broker.advance(1)
    assert values_of(only_fetched(answer_of(client))) == []
    assert not broker.broker.waiting_fetches


def test_an_append_wakes_all_that_wait() -> None:
    broker, producer = dialogue()
    waiting = [start_waiting(broker) for _ in range(5)]
    producer.produce("t", 0, batch("a"))
    for client in waiting:
        assert values_of(only_fetched(answer_of(client))) == ["a"]
    assert not broker.broker.waiting_fetches


def test_min_bytes_counts_over_partitions_and_appends() -> None:
    broker, producer = dialogue("t", 3)
    size = len(batch("x"))
    producer.produce("t", 2, batch("x"))
    client = start_waiting(
        broker, topics={"t": [wanted(n, 0) for n in range(3)]}, min_bytes=3 * size
    )
    producer.produce("t", 0, batch("x"))
    assert client.transport.take() == []
    producer.produce("t", 1, batch("x"))
    assert [values_of(p) for p in all_fetched(answer_of(client))] == [["x"]] * 3


def test_too_little_is_sent_when_the_time_is_over() -> None:
    broker, producer = dialogue()
    client = start_waiting(broker, min_bytes=10_000)
    producer.produce("t", 0, batch("a"))
    producer.produce("t", 0, batch("b"))
    assert client.transport.take() == []
    broker.advance(500)
    assert values_of(only_fetched(answer_of(client))) == ["a", "b"]


def test_another_partition_wakes_nobody() -> None:
    broker, producer = dialogue("t", 2)
    client = start_waiting(broker)
    producer.produce("t", 1, batch("a"))
    assert client.transport.take() == []


def test_a_duplicate_wakes_nobody() -> None:
    broker, producer = dialogue()
    sent = batch("a", producer=(1, 0, 0))
    producer.produce("t", 0, sent)
    client = start_waiting(broker, topics={"t": [wanted(0, 1)]})
    assert producer.produce("t", 0, sent).base_offset == 0
    assert client.transport.take() == []
    out_of_order = producer.produce("t", 0, batch("a", producer=(1, 0, 9)))
    assert out_of_order.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.transport.take() == []


def test_min_bytes_0_or_max_wait_0_do_not_wait() -> None:
    _, client = dialogue()
    assert values_of(client.fetch("t", 0, 0, max_wait_ms=500, min_bytes=0)) == []
    assert values_of(client.fetch("t", 0, 0, max_wait_ms=0, min_bytes=100)) == []
    assert values_of(client.fetch("t", 0, 0, max_wait_ms=-1, min_bytes=100)) == []


def test_a_fetch_of_nothing_does_not_wait() -> None:
    _, client = dialogue()
    asked = client.fetch_request({}, FETCH_VERSION, max_wait_ms=500, min_bytes=1)
    assert client.ask(asked, FETCH_VERSION).responses == []


def test_an_error_beside_an_empty_partition_is_told_at_once() -> None:
    _, client = dialogue()
    asked = {"t": [wanted(0, 0), wanted(5, 0)]}
    response = client.ask(
        client.fetch_request(asked, FETCH_VERSION, max_wait_ms=500, min_bytes=1), FETCH_VERSION
    )
    codes = [partition.error_code for partition in all_fetched(response)]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_end_of_an_older_segment_is_not_waited_on() -> None:
    """One answer reads of one segment: what it lacks to `min_bytes` is there, in the next one."""
    _, client = dialogue(internal_segment_bytes="400")
    for n in range(9):
        client.produce("t", 0, batch(f"{n}" * 100))
    seen: list[str] = []
    while len(seen) < 8:
        fetched = client.fetch("t", 0, len(seen), max_wait_ms=500, min_bytes=100_000)
        assert values_of(fetched)
        seen += values_of(fetched)
    assert seen[:8] == [f"{n}" * 100 for n in range(8)]


def test_a_topic_deleted_under_a_waiting_fetch() -> None:
    broker, producer = dialogue()
    client = start_waiting(broker)
    producer.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    fetched = only_fetched(answer_of(client))
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_directory_that_fails_under_a_waiting_fetch() -> None:
    broker, producer = dialogue("t", 2)
    client = start_waiting(broker)
    broker.disk.plan(Fault("write", path_part="/t-1/"))
    producer.produce("t", 1, batch("a"))
    assert only_fetched(answer_of(client)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_fetch_that_waits_on_one_partition_twice_is_answered_once() -> None:
    broker, producer = dialogue()
    client = start_waiting(broker, topics={"t": [wanted(0, 0), wanted(0, 0)]})
    producer.produce("t", 0, batch("a"))
    assert [values_of(p) for p in all_fetched(answer_of(client))] == [["a"], ["a"]]


# -- isolation ---------------------------------------------------------------------------------


def append_transactional(broker: SimulatedBroker) -> None:
    """Transactions are not served yet; the log knows them already."""
    open_batch = build_batch(
        [(b"k", b"open", (), NOW_MS)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    partition_of(broker).append(open_batch, NOW_MS)


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_stops_at_the_last_stable_offset(version: int) -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    append_transactional(broker)
    client.produce("t", 0, batch("b"))
    fetched = client.fetch("t", 0, 0, version=version, isolation_level=READ_COMMITTED)
    assert values_of(fetched) == ["a"]
    assert (fetched.high_watermark, fetched.last_stable_offset) == (3, 1)
    assert fetched.aborted_transactions == []
    at_stable_end = client.fetch("t", 0, 1, version=version, isolation_level=READ_COMMITTED)
    assert (at_stable_end.error_code, values_of(at_stable_end)) == (0, [])
    behind_it = client.fetch("t", 0, 2, version=version, isolation_level=READ_COMMITTED)
    assert (behind_it.error_code, values_of(behind_it)) == (0, [])
    everything = client.fetch("t", 0, 0, version=version)
    assert values_of(everything) == ["a", "open", "b"]
    assert everything.aborted_transactions is None


# -- names, ids, epochs ------------------------------------------------------------------------


def test_topic_ids_since_version_13() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    unknown = FetchRequest(
        topics=[FetchTopic(topic_id=bytes(range(16)), partitions=[wanted(0, 0)])]
    )
    for version in range(13, 19):
        assert only_fetched(client.ask(unknown, version)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        missing = client.fetch("t", 4, 0, version=version)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    old_id = client.topic_id("t")
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    broker.create_topic("t")
    stale = FetchRequest(topics=[FetchTopic(topic_id=old_id, partitions=[wanted(0, 0)])])
    assert only_fetched(client.ask(stale, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.fetch("t", 0, 0, version=13).error_code == 0


@pytest.mark.parametrize("version", range(9, 19))
def test_leader_epochs_fence(version: int) -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    broker.reboot()
    broker.start()  # not a clean stop: a new leader epoch
    client = Client(broker)
    epoch = partition_of(broker).leader_epoch
    assert epoch == 1
    fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    for current, error in ((-1, 0), (1, 0), (0, int(fenced)), (2, int(unknown))):
        fetched = client.fetch("t", 0, 0, version=version, current_leader_epoch=current)
        assert fetched.error_code == error


@pytest.mark.parametrize("version", range(12, 19))
def test_divergence_is_told_with_the_end_of_the_epoch(version: int) -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    client.produce("t", 0, batch("b"))
    broker.reboot()
    broker.start()
    client = Client(broker)
    client.produce("t", 0, batch("c"))
    for epoch, offset in ((0, 1), (0, 2), (1, 3)):
        fine = client.fetch("t", 0, offset, version=version, last_fetched_epoch=epoch)
        assert fine.diverging_epoch.end_offset == -1
    diverged = client.fetch("t", 0, 3, version=version, last_fetched_epoch=0, max_wait_ms=500)
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 2)
    assert (diverged.error_code, values_of(diverged)) == (0, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replica_is_sent_away(version: int) -> None:
    _, client = dialogue()
    topics = client.fetch_request({"t": [wanted(0, 0)]}, version).topics
    request = FetchRequest(topics=topics)
    if version < 15:
        request.replica_id = 2
    else:
        request.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    fetched = only_fetched(client.ask(request, version))
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- segments and disks ------------------------------------------------------------------------


def test_reading_goes_on_over_segments_and_restarts() -> None:
    broker, client = dialogue(segment_bytes="1048576", index_interval_bytes="100")
    expected = [f"{n}-" + "x" * 100_000 for n in range(40)]
    for value in expected:
        client.produce("t", 0, batch(value))
    assert [(r.value or b"").decode() for r in client.read_all("t", 0)] == expected
    broker.stop()
    broker.start()
    assert [(r.value or b"").decode() for r in Client(broker).read_all("t", 0)] == expected


def test_a_read_that_fails_answers_with_56_and_serves_other_directories() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 2)
    client = Client(broker)
    for index in range(2):
        client.produce("t", index, batch("x"))
    broker.stop()
    broker.start()
    client = Client(broker)
    here = next(p for p in ("/a", "/b") if broker.disk.is_directory(f"{p}/t-0"))
    broker.disk.plan(Fault("read", code=errno.EIO, path_part=f"{here}/t-0/", is_sticky=True))
    assert client.fetch("t", 0, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_of(client.fetch("t", 1, 0)) == ["x"]
    assert client.produce("t", 1, batch("y")).error_code == 0
    assert client.produce("t", 0, batch("y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_batches_carry_offsets_and_epochs_of_the_log() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a", "b"))
    broker.reboot()
    broker.start()
    client = Client(broker)
    client.produce("t", 0, batch("c"))
    headers = [header for header, _ in batches_of(client.fetch("t", 0, 0))]
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 0), (2, 1)]
