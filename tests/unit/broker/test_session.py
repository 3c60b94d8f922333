"""A connection's conversation: order, pipelining, shapes and what ends it."""

import random
import struct
from typing import Any

import pytest
from tests.unit.broker.dialogue import (
    Client,
    all_fetched,
    batch,
    dialogue,
    only_fetched,
    only_produced,
    values_of,
    wanted,
)

from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.promise import Promise
from headrace.broker.api import k00_produce
from headrace.broker.append import check_batch
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.metadata import MetadataRequest
from headrace.wire.kafka.messages.produce import ProduceRequest

VERSIONS = range(3, 14)


def correlation_ids(frames: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", frame)[0] for frame in frames]


# -- order -------------------------------------------------------------------------------------


def test_a_waiting_fetch_holds_back_the_answers_behind_it() -> None:
    broker, client = dialogue()
    waiting = client.fetch_request({"t": [wanted(0, 0)]}, 12, max_wait_ms=500, min_bytes=1)
    feed = client.transport.feed
    feed(client.frame(waiting, 12))
    feed(client.frame(ApiVersionsRequest(), 0))
    feed(client.frame(MetadataRequest(topics=None), 12))
    assert client.transport.take() == []
    broker.advance(499)
    assert client.transport.take() == []
    broker.advance(1)
    assert correlation_ids(client.transport.take()) == [1, 2, 3]
    assert client.transport.send_count == 1


def test_a_produce_of_the_same_connection_wakes_the_fetch_before_it() -> None:
    _, client = dialogue()
    waiting = client.fetch_request({"t": [wanted(0, 0)]}, 12, max_wait_ms=500, min_bytes=1)
    client.transport.feed(client.frame(waiting, 12))
    client.transport.feed(client.produce_frame("t", 0, batch("a")))
    fetched, produced = client.transport.take()
    assert values_of(only_fetched(client.read(fetched, FetchRequest, 12))) == ["a"]
    assert only_produced(client.read(produced, ProduceRequest, 11)).base_offset == 0


def test_a_fetch_behind_a_produce_of_one_read_sees_it() -> None:
    _, client = dialogue()
    fetch = client.fetch_request({"t": [wanted(0, 0)]}, 12)
    client.transport.feed(
        client.produce_frame("t", 0, batch("a"))
        + client.frame(fetch, 12)
        + client.produce_frame("t", 0, batch("b"))
    )
    produced, fetched, second = client.transport.take()
    assert only_produced(client.read(produced, ProduceRequest, 11)).base_offset == 0
    assert values_of(only_fetched(client.read(fetched, FetchRequest, 12))) == ["a"]
    assert only_produced(client.read(second, ProduceRequest, 11)).base_offset == 1


def test_any_request_behind_a_produce_of_one_read_comes_after_its_commit() -> None:
    broker, client = dialogue()
    deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    client.transport.feed(
        client.produce_frame("t", 0, batch("a"))
        + client.frame(deletion, 5)
        + client.produce_frame("t", 0, batch("b"))
    )
    broker.settle()
    first, deleted, second = client.transport.take()
    assert only_produced(client.read(first, ProduceRequest, 11)).error_code == 0
    assert client.read(deleted, DeleteTopicsRequest, 5).responses[0].error_code == 0
    answer = only_produced(client.read(second, ProduceRequest, 11))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_produce_that_waits_for_its_sync_holds_back_what_follows() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("slow", flush_messages="1")
    broker.create_topic("fast")
    client = Client(broker)
    disk.defer_syncs = True
    client.transport.feed(
        client.produce_frame("slow", 0, batch("a")) + client.produce_frame("fast", 0, batch("b"))
    )
    assert client.transport.take() == []
    assert Client(broker).fetch("fast", 0, 0).high_watermark == 1
    broker.settle()
    assert correlation_ids(client.transport.take()) == [1, 2]


@pytest.mark.parametrize("piece", [1, 3, 7, 64, 1000])
def test_frames_in_pieces_give_the_same_answers(piece: int) -> None:
    _, client = dialogue("t", 2)
    stream = b"".join(
        client.produce_frame("t", n % 2, batch(f"{n}"), version=3 + n % 11) for n in range(22)
    )
    for position in range(0, len(stream), piece):
        client.transport.feed(stream[position : position + piece])
    assert correlation_ids(client.transport.take()) == list(range(1, 23))
    assert [r.value for r in client.read_all("t", 0)] == [b"%d" % n for n in range(0, 22, 2)]
    assert [r.value for r in client.read_all("t", 1)] == [b"%d" % n for n in range(1, 22, 2)]


# -- one write for many ------------------------------------------------------------------------


def test_the_produces_of_one_read_are_one_write_and_one_send() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("first"))
    writes, sends = broker.disk.write_count, client.transport.send_count
    client.transport.feed(b"".join(client.produce_frame("t", 0, batch(f"{n}")) for n in range(40)))
    assert broker.disk.write_count == writes + 1
    assert client.transport.send_count == sends + 1
    offsets = [only_produced(a).base_offset for a in client.answers(ProduceRequest, 11)]
    assert offsets == list(range(1, 41))


def test_each_partition_of_a_read_is_written_once() -> None:
    broker, client = dialogue("t", 4)
    for index in range(4):
        client.produce("t", index, batch("first"))
    writes = broker.disk.write_count
    client.transport.feed(
        b"".join(client.produce_frame("t", n % 4, batch(f"{n}")) for n in range(40))
    )
    assert broker.disk.write_count == writes + 4
    values = [r.value for r in Client(broker).read_all("t", 1, 1)]
    assert values == [b"%d" % n for n in range(1, 40, 4)]


def test_a_read_that_fills_segments_rolls_in_between() -> None:
    broker, client = dialogue(segment_bytes="1048576", max_message_bytes="600000")
    client.transport.feed(
        b"".join(client.produce_frame("t", 0, batch(f"{n}" * 250_000)) for n in range(9))
    )
    offsets = [only_produced(a).base_offset for a in client.answers(ProduceRequest, 11)]
    assert offsets == list(range(9))
    assert [(r.value or b"")[:1] for r in client.read_all("t", 0)] == [b"%d" % n for n in range(9)]
    segments = [name for name in broker.disk.tree() if "/t-0/" in name and name.endswith(".log")]
    assert len(segments) >= 3


def test_a_write_that_fails_refuses_all_produces_of_the_read() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("first"))
    broker.disk.plan(Fault("write", path_part="/t-0/"))
    client.transport.feed(b"".join(client.produce_frame("t", 0, batch(f"{n}")) for n in range(5)))
    codes = [only_produced(a).error_code for a in client.answers(ProduceRequest, 11)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
    assert client.closed is None


# -- acks=0 ------------------------------------------------------------------------------------


def test_acks_0_has_no_answer_and_does_not_disturb_the_order() -> None:
    _, client = dialogue()
    for _ in range(2):
        client.transport.feed(
            client.produce_frame("t", 0, batch("a"), acks=0)
            + client.produce_frame("t", 0, batch("b"), acks=1)
            + client.produce_frame("t", 0, batch("c"), acks=0)
        )
    assert correlation_ids(client.transport.take()) == [2, 5]
    assert len(client.read_all("t", 0)) == 6


@pytest.mark.parametrize("known_shape", [False, True])
def test_a_failed_acks_0_closes_the_connection(known_shape: bool) -> None:
    _, client = dialogue()
    if known_shape:
        client.transport.feed(client.produce_frame("t", 0, batch("good"), acks=0))
    broken = bytearray(batch("bad"))
    broken[-1] ^= 1
    client.transport.feed(client.produce_frame("t", 0, bytes(broken), acks=0))
    assert client.closed is not None
    assert "acks=0" in client.closed


def test_what_came_before_a_failed_acks_0_is_stored() -> None:
    broker, client = dialogue()
    client.transport.feed(
        client.produce_frame("t", 0, batch("a"), acks=0)
        + client.produce_frame("t", 9, batch("b"), acks=0)
    )
    assert client.closed is not None
    assert [r.value for r in Client(broker).read_all("t", 0)] == [b"a"]


# -- shapes ------------------------------------------------------------------------------------


def conversation(version: int) -> list[tuple[int, bytes]]:
    """Partition and batch of requests that meet every outcome."""
    broken = bytearray(batch("broken"))
    broken[-2] ^= 0x55
    sent: list[tuple[int, bytes]] = []
    for n in range(3):
        sent += [
            (0, batch(f"a{n}", f"b{n}")),
            (1, batch(f"c{n}", producer=(4, 0, n))),
            (1, batch(f"c{n}", producer=(4, 0, n))),
            (1, batch("gap", producer=(4, 0, n + 7))),
            (0, bytes(broken)),
            (0, batch(f"gzip{n}" * 20, compression=Compression.GZIP)),
            (2, batch("no such partition")),
            (0, batch("y" * 3000)),
            (0, b""),
            (0, batch("early")[:40]),
        ]
    if version >= 7:
        sent.append((0, batch("z" * 99, compression=Compression.ZSTD)))
    return sent


@pytest.mark.parametrize("version", VERSIONS)
def test_shaped_and_parsed_requests_are_answered_and_stored_alike(version: int) -> None:
    answers: list[list[bytes]] = []
    logs: list[dict[str, bytes]] = []
    for by_shape in (True, False):
        broker, client = dialogue("t", 2, max_message_bytes="2000", segment_bytes="1048576")
        if not by_shape:
            client.transport._session._shapes = _Forgetful()  # type: ignore[attr-defined]
        topic_id = client.topic_id("t")
        taken: list[bytes] = []
        for index, records in conversation(version):
            client.transport.feed(client.produce_frame("t", index, records, version=version))
            taken += [a.replace(topic_id, b"the topic's id..") for a in client.transport.take()]
        answers.append(taken)
        tree = broker.disk.tree()
        logs.append({path: data for path, data in tree.items() if path.endswith(".log")})
    assert len(answers[0]) == len(conversation(version))
    assert answers[0] == answers[1]
    for path in ("/data/t-0/", "/data/t-1/"):
        name = f"{path}00000000000000000000.log"
        assert logs[0][name]
        assert logs[0][name] == logs[1][name]


class _Forgetful(dict[bytes, Any]):
    def __setitem__(self, key: bytes, value: Any) -> None:
        pass


def test_many_partitions_are_more_than_the_shapes_kept() -> None:
    _, client = dialogue("t", 150)
    for turn in range(2):
        for index in range(150):
            answer = client.produce("t", index, batch(f"{turn}"))
            assert (answer.error_code, answer.base_offset) == (0, turn)
    session = client.transport._session
    assert len(session._shapes) <= 64  # type: ignore[attr-defined]


def test_one_connection_with_several_versions_and_topics() -> None:
    broker, client = dialogue("t", 2)
    broker.create_topic("another-name", 2)
    rng = random.Random(3)
    expected = {("t", 0): 0, ("t", 1): 0, ("another-name", 0): 0, ("another-name", 1): 0}
    for _ in range(300):
        topic, index = rng.choice(list(expected))
        answer = client.produce(topic, index, batch("v"), version=rng.choice(VERSIONS))
        assert (answer.index, answer.error_code) == (index, 0)
        assert answer.base_offset == expected[topic, index]
        expected[topic, index] += 1


# -- bounds and ends ---------------------------------------------------------------------------


def test_too_many_requests_in_flight_are_kept_back_until_half_are_answered() -> None:
    broker, client = dialogue()
    waiting = client.fetch_request({"t": [wanted(0, 0)]}, 12, max_wait_ms=500, min_bytes=1)
    count = IN_FLIGHT_REQUESTS_MAX + 50
    stream = client.frame(waiting, 12) + b"".join(
        client.frame(ApiVersionsRequest(), 0) for _ in range(count - 1)
    )
    client.transport.feed(stream)
    before = broker.broker.metrics.requests[18]
    assert before == IN_FLIGHT_REQUESTS_MAX - 1
    broker.advance(500)
    assert correlation_ids(client.transport.take()) == list(range(1, count + 1))


def test_a_closed_connection_stops_waiting() -> None:
    broker, client = dialogue()
    timers = broker.timers.pending_count
    waiting = client.fetch_request({"t": [wanted(0, 0)]}, 12, max_wait_ms=500, min_bytes=1)
    client.transport.feed(client.frame(waiting, 12))
    assert len(broker.broker.waiting_fetches) == 1
    assert broker.timers.pending_count == timers + 1
    client.transport.close("gone")
    assert len(broker.broker.waiting_fetches) == 0
    assert broker.timers.pending_count == timers
    Client(broker).produce("t", 0, batch("a"))
    broker.advance(1000)
    assert client.transport.take() == []


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\0\0\0\x04\0\0\0\x03", "too few"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "api key 999"),
        (struct.pack(">ihhih", 10, 3, 99, 1, -1), "Metadata v99"),
        (struct.pack(">ihhih", 10, 0, 99, 1, -1), "Produce v99"),
        (struct.pack(">ihhih", 10, 0, 8, 1, 500), "client id"),
        (struct.pack(">ihhih", 10, 1, 11, 1, 500), "client id"),
    ],
)
def test_a_broken_frame_ends_the_connection_and_not_what_came_before(
    frame: bytes, reason: str
) -> None:
    broker, client = dialogue()
    client.transport.feed(client.produce_frame("t", 0, batch("a")) + frame)
    assert reason in (client.closed or "")
    assert len(client.transport.take()) == 1
    assert [r.value for r in Client(broker).read_all("t", 0)] == [b"a"]


def test_api_versions_from_the_future_is_answered_in_version_0() -> None:
    _, client = dialogue()
    client.transport.feed(struct.pack(">ihhih", 10, 18, 99, 77, -1))
    (frame,) = client.transport.take()
    correlation_id, answer = decode_response(ApiVersionsResponse, frame, 0)
    assert correlation_id == 77
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.closed is None


def test_a_handler_that_fails_later_closes_its_connection_alone() -> None:
    broker, client = dialogue()
    other = Client(broker)
    promise: Promise[int] = Promise()
    broker.broker.producer_ids.next = lambda: promise  # type: ignore[method-assign]
    client.transport.feed(client.frame(InitProducerIdRequest(transactional_id=None), 4))
    promise.reject(RuntimeError("a bug"))
    assert "a bug" in (client.closed or "")
    assert broker.broker.metrics.handler_failures == 1
    assert any("handler_failed" in line for line in broker.events)
    assert other.produce("t", 0, batch("a")).error_code == 0


def test_an_answer_for_a_closed_connection_is_dropped() -> None:
    broker, client = dialogue()
    promise: Promise[int] = Promise()
    broker.broker.producer_ids.next = lambda: promise  # type: ignore[method-assign]
    client.transport.feed(client.frame(InitProducerIdRequest(transactional_id=None), 4))
    client.transport.close("gone")
    promise.resolve(5)
    assert client.transport.take() == []


def test_a_bug_in_the_middle_of_staging_leaves_nothing_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or this happens: 1. two partitions, the second meets a bug; 2. the first is staged with
    bytes of the receive buffer; 3. the buffer is used again; 4. somebody else's commit writes it.
    """
    broker, client = dialogue("t", 2)
    calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("a bug")
        return check_batch(*arguments)

    monkeypatch.setattr(k00_produce, "check_batch", failing)
    request = client.produce_request("t", {0: batch("a"), 1: batch("b")})
    with pytest.raises(RuntimeError):
        client.transport.feed(client.frame(request, 11))
    client.transport._session.on_read_end()
    client.transport.close("internal error")
    assert broker.broker.staged == []
    other = Client(broker)
    assert other.produce("t", 0, batch("c")).error_code == 0
    values = [r.value for r in other.read_all("t", 0)]
    assert values in ([b"c"], [b"a", b"c"])


def test_a_bug_in_one_who_waits_keeps_no_other_partition_from_its_commit() -> None:
    broker, client = dialogue("t", 3)

    class Broken:
        def on_appended(self, byte_count: int) -> None:
            raise RuntimeError(f"a bug at {byte_count} bytes")

        def on_gone(self) -> None: ...

    first = broker.broker.partitions.find("t", 0)
    assert first is not None
    waiter = Broken()
    first.wait(waiter)
    request = client.produce_request("t", {n: batch(f"{n}") for n in range(3)})
    with pytest.raises(RuntimeError):
        client.transport.feed(client.frame(request, 11))
    first.forget(waiter)
    other = Client(broker)
    for index in range(3):
        assert [r.value for r in other.read_all("t", index)] == [b"%d" % index]
        assert other.produce("t", index, batch("next")).base_offset == 1
        assert len(other.read_all("t", index)) == 2


def test_stopping_answers_all_that_wait() -> None:
    broker, client = dialogue("t", 2)
    client.produce("t", 1, batch("a"))
    waiting = client.fetch_request(
        {"t": [wanted(0, 0), wanted(1, 0)]}, 12, max_wait_ms=60_000, min_bytes=10_000
    )
    client.transport.feed(client.frame(waiting, 12))
    broker.broker.prepare_stop()
    (answer,) = client.answers(FetchRequest, 12)
    assert [values_of(partition) for partition in all_fetched(answer)] == [[], ["a"]]
    client.transport.feed(client.frame(waiting, 12))
    assert len(client.transport.take()) == 1
