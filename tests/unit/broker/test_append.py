"""What is checked of a produced batch, one field wrong at a time."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.dialogue import NOW_MS, batch

from headrace.base.topic_config import TopicConfig
from headrace.broker.append import BatchRefused, check_batch, check_records, maybe_recompress
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import HEADER, BatchHeader, crc_of, read_header
from headrace.wire.kafka.records import is_crc_valid, read_records

CONFIG = TopicConfig()
FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def changed(whole: bytes, *, seal: bool = True, **fields: Any) -> memoryview:
    """The batch with other header fields, and a CRC that fits unless told otherwise."""
    values = dict(zip(FIELDS, HEADER.unpack_from(whole), strict=True))
    values.update(fields)
    data = bytearray(whole)
    HEADER.pack_into(data, 0, *(values[name] for name in FIELDS))
    if seal:
        struct.pack_into(">I", data, 17, crc_of(data, 0, len(data)))
    return memoryview(data)


def check(
    records: memoryview | bytes,
    config: TopicConfig = CONFIG,
    *,
    version: int = 11,
    transactional: bool = False,
) -> BatchHeader:
    return check_batch(memoryview(records), config, version, transactional, NOW_MS)


def refusal(
    records: memoryview | bytes,
    config: TopicConfig = CONFIG,
    *,
    version: int = 11,
    transactional: bool = False,
) -> ErrorCode:
    with pytest.raises(BatchRefused) as caught:
        check(records, config, version=version, transactional=transactional)
    assert caught.value.message.endswith(".")
    return caught.value.code


WHOLE = batch("a", "b", "c")


def test_a_good_batch_gives_its_header() -> None:
    assert repr(check(WHOLE)) == repr(read_header(WHOLE))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"base_offset": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 3}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1, "last_offset_delta": -2}, ErrorCode.INVALID_RECORD),
        ({"magic": 0}, ErrorCode.INVALID_RECORD),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE),
        ({"magic": -1}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": len(WHOLE) - 13}, ErrorCode.INVALID_RECORD),
        ({"batch_length": len(WHOLE) - 11}, ErrorCode.INVALID_RECORD),
        ({"batch_length": 2**31 - 1}, ErrorCode.INVALID_RECORD),
        ({"batch_length": 0}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": -12}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 48}, ErrorCode.CORRUPT_MESSAGE),
        ({"attributes": 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": 7}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 1, "producer_epoch": -1, "base_sequence": 0}, ErrorCode.INVALID_RECORD),
    ],
)
def test_one_wrong_field(fields: dict[str, Any], code: ErrorCode) -> None:
    assert refusal(changed(WHOLE, **fields)) == code


@pytest.mark.parametrize("position", range(21, len(WHOLE)))
def test_every_flipped_byte_that_the_crc_covers(position: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= 0x40
    assert refusal(bytes(damaged)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", range(61))
def test_too_few_bytes_for_a_header(size: int) -> None:
    assert refusal(WHOLE[:size]) == ErrorCode.CORRUPT_MESSAGE


def test_short_messages_of_old_formats_are_named() -> None:
    old = bytearray(30)
    old[16] = 1
    assert refusal(bytes(old)) == ErrorCode.INVALID_RECORD


def test_two_batches_where_one_is_expected() -> None:
    assert refusal(WHOLE + WHOLE) == ErrorCode.INVALID_RECORD


def test_control_and_transactional() -> None:
    both = changed(WHOLE, attributes=0x30)
    assert refusal(both, transactional=True) == ErrorCode.INVALID_RECORD
    transactional = changed(WHOLE, attributes=0x10)
    check(transactional, transactional=True)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refusal(transactional, transactional=False) == refused


def test_zstd_by_version() -> None:
    zstd = batch("a", compression=Compression.ZSTD)
    assert refusal(zstd, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(zstd, version=7)


def test_the_size_is_judged_before_the_crc() -> None:
    small = replace(CONFIG, max_message_bytes=len(WHOLE) - 1)
    assert refusal(changed(WHOLE, seal=False, crc=1), small) == ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_are_judged_by_the_oldest_and_the_newest() -> None:
    config = replace(
        CONFIG, message_timestamp_after_max_ms=100, message_timestamp_before_max_ms=100
    )
    check(batch("a", timestamp_ms=NOW_MS + 100), config)
    assert refusal(batch("a", "b", timestamp_ms=NOW_MS + 100), config) == (
        ErrorCode.INVALID_TIMESTAMP
    )
    assert refusal(batch("a", "b", timestamp_ms=NOW_MS - 101), config) == (
        ErrorCode.INVALID_TIMESTAMP
    )
    # No timestamp at all is nobody's past.
    check(batch("a", timestamp_ms=-1), config)
    check(batch("a", timestamp_ms=5), replace(config, message_timestamp_type="LogAppendTime"))


def test_records_are_walked_only_when_asked() -> None:
    check_records(memoryview(WHOLE), CONFIG, validate=True)
    garbage = bytearray(WHOLE)
    garbage[61:] = b"\xff" * (len(garbage) - 61)
    check_records(memoryview(garbage), CONFIG, validate=False)
    with pytest.raises(BatchRefused) as caught:
        check_records(memoryview(garbage), CONFIG, validate=True)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_compacted_topic_wants_keys() -> None:
    compacted = replace(CONFIG, cleanup_policy=("compact",))
    check_records(memoryview(WHOLE), compacted, validate=False)
    with pytest.raises(BatchRefused) as caught:
        check_records(memoryview(batch("a", key=None)), compacted, validate=False)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_recompression_keeps_everything_but_the_codec() -> None:
    whole = memoryview(batch("a" * 99, "b" * 99, producer=(7, 1, 5)))
    header = read_header(whole)
    assert maybe_recompress(whole, header, CONFIG) is whole
    same = replace(CONFIG, compression_type="uncompressed")
    assert maybe_recompress(whole, header, same) is whole
    for name in ("gzip", "snappy", "lz4", "zstd"):
        packed = maybe_recompress(whole, header, replace(CONFIG, compression_type=name))
        assert is_crc_valid(packed)
        assert read_header(packed).compression == Compression[name.upper()]
        assert list(read_records(packed)) == list(read_records(whole))
        assert check(packed).base_sequence == 5


def test_what_can_not_be_unpacked_is_refused() -> None:
    broken = bytearray(batch("a" * 99, compression=Compression.LZ4))
    broken[61:65] = b"nope"
    wanted = replace(CONFIG, compression_type="gzip")
    with pytest.raises(BatchRefused) as caught:
        maybe_recompress(memoryview(broken), read_header(broken), wanted)
    assert caught.value.code == ErrorCode.INVALID_RECORD
