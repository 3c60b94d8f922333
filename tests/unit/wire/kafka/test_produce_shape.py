"""Requests recognised by their shape are read and answered as parsing would have it."""

import random
from collections.abc import Iterator

import pytest

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.frames import decode_request_header, encode_request
from headrace.wire.kafka.hot import encode_produce_response, parse_produce
from headrace.wire.kafka.hot_produce import ProduceFrame
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.produce_shape import SHAPE_STARTS_AT, ProduceShape, shape_of

VERSIONS = range(3, 14)
FLEXIBLE = range(9, 14)
CLASSIC = range(3, 9)
TOPIC_ID = bytes(range(100, 116))


def frame(
    version: int,
    records: bytes | None = b"r" * 70,
    *,
    topic: str = "orders",
    index: int = 3,
    acks: int = -1,
    client_id: str = "me",
    correlation_id: int = 7,
    transactional_id: str | None = None,
) -> memoryview:
    """A request without its size."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1500,
        transactional_id=transactional_id,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=TOPIC_ID if version >= 13 else bytes(16),
                partition_data=[PartitionProduceData(index=index, records=records)],
            )
        ],
    )
    return memoryview(encode_request(request, version, correlation_id, client_id))[4:]


def parsed(view: memoryview, version: int) -> ProduceFrame:
    return parse_produce(view, decode_request_header(view)[1], version)


def shape(view: memoryview, version: int) -> ProduceShape:
    found = shape_of(view, version, parsed(view, version))
    assert found is not None
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [61, 62, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151])
def test_records_of_any_size_are_found(version: int, size: int) -> None:
    known = shape(frame(version), version)
    records = random.Random(size).randbytes(size)
    view = frame(version, records, correlation_id=99)
    assert bytes(view[SHAPE_STARTS_AT : known.ends_at]) == known.same
    found = known.records_of(view)
    assert found is not None
    assert bytes(found) == records


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_shape_knows(version: int) -> None:
    known = shape(frame(version, acks=1, transactional_id="tx"), version)
    assert known.topic == (TOPIC_ID if version >= 13 else "orders")
    assert (known.index, known.acks, known.version, known.transactional) == (3, 1, version, True)
    assert not shape(frame(version), version).transactional


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_encoded_one(version: int) -> None:
    known = shape(frame(version), version)
    for numbers in [(0, -1, 0), (2**40, 1_700_000_000_000, 5), (2**63 - 1, 2**62, 2**61)]:
        base_offset, append_time_ms, log_start_offset = numbers
        row = (3, 0, base_offset, append_time_ms, log_start_offset, None)
        expected = encode_produce_response(version, 12345, [(known.topic, [row])])
        assert bytes(known.answer(12345, *numbers)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_do_not_share_their_bytes(version: int) -> None:
    known = shape(frame(version), version)
    first = known.answer(1, 10, -1, 0)
    kept = bytes(first)
    known.answer(2, 11, -1, 0)
    assert bytes(first) == kept


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_that_differs_makes_another_shape(version: int) -> None:
    known = shape(frame(version), version)
    others = [
        frame(version, index=4),
        frame(version, acks=1),
        frame(version, client_id="you"),
        frame(version, transactional_id="tx"),
    ]
    if version < 13:
        others.append(frame(version, topic="payees"))
    for other in others:
        assert shape(other, version).same != known.same
        assert bytes(other[SHAPE_STARTS_AT : known.ends_at]) != known.same


def two_partitions(version: int) -> memoryview:
    data = [PartitionProduceData(index=i, records=b"r" * 70) for i in (0, 1)]
    topic = TopicProduceData(name="orders", topic_id=bytes(16), partition_data=data)
    if version >= 13:
        topic.topic_id = TOPIC_ID
    request = ProduceRequest(acks=1, topic_data=[topic])
    return memoryview(encode_request(request, version, 1, "me"))[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_shape_for_several_partitions_none_or_null(version: int) -> None:
    for view in (two_partitions(version), frame(version, None)):
        assert shape_of(view, version, parsed(view, version)) is None
    request = ProduceRequest(acks=1, topic_data=[])
    view = memoryview(encode_request(request, version, 1, "me"))[4:]
    assert shape_of(view, version, parsed(view, version)) is None


def tagged_tails(records: bytes) -> Iterator[bytes]:
    """Ends of a flexible request that hold tagged fields in one of the three places."""
    tag = b"\x01\x63\x02ab"
    for place in range(3):
        tails = [b"\0"] * 3
        tails[place] = tag
        yield records + b"".join(tails)


@pytest.mark.parametrize("version", FLEXIBLE)
def test_tagged_fields_have_no_shape_and_fall_back(version: int) -> None:
    records = b"r" * 70
    plain = bytes(frame(version, records))
    known = shape(memoryview(plain), version)
    for tail in tagged_tails(records):
        view = memoryview(plain[: -len(records) - 3] + tail)
        assert bytes(parsed(view, version).topics[0][1][0][1] or b"") == records
        assert shape_of(view, version, parsed(view, version)) is None
        assert known.records_of(view) is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_length_that_takes_more_bytes_than_it_needs_is_left_to_the_parser(version: int) -> None:
    records = b"r" * 70
    plain = bytes(frame(version, records))
    start = len(plain) - 3 - len(records) - 1
    padded = memoryview(plain[:start] + b"\xc7\x00" + records + b"\0\0\0")
    assert bytes(parsed(padded, version).topics[0][1][0][1] or b"") == records
    assert shape_of(padded, version, parsed(padded, version)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_refused_by_the_shape(version: int) -> None:
    whole = frame(version, b"r" * 200)
    known = shape(whole, version)
    for size in range(known.ends_at, len(whole)):
        assert known.records_of(whole[:size]) is None
    assert known.records_of(memoryview(bytes(whole) + b"\0")) is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_length_without_end_is_refused(version: int) -> None:
    known = shape(frame(version), version)
    head = bytes(frame(version))[: known.ends_at]
    for length in (b"", b"\x80", b"\xff" * 5, b"\xff" * 11, b"\0\0\0\0", b"\xff\xff\xff\xff\x0f"):
        assert known.records_of(memoryview(head + length)) is None


@pytest.mark.parametrize("version", CLASSIC)
def test_a_negative_length_is_refused(version: int) -> None:
    known = shape(frame(version), version)
    head = bytes(frame(version))[: known.ends_at]
    for length in (-1, -(2**31), 2**31 - 1):
        assert known.records_of(memoryview(head + length.to_bytes(4, "big", signed=True))) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_random_damage_never_reads_other_records_than_the_parser(version: int) -> None:
    rng = random.Random(version)
    plain = bytes(frame(version, rng.randbytes(90)))
    known = shape(memoryview(plain), version)
    for _ in range(500):
        damaged = bytearray(plain)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(known.ends_at, len(damaged))] = rng.randrange(256)
        if rng.random() < 0.3:
            del damaged[rng.randrange(known.ends_at, len(damaged)) :]
        view = memoryview(damaged)
        found = known.records_of(view)
        if found is None:
            continue
        try:
            by_parser = parsed(view, version).topics[0][1][0][1]
        except ProtocolError:
            raise AssertionError("the shape took what the parser refuses") from None
        assert by_parser is not None
        assert bytes(found) == bytes(by_parser)
