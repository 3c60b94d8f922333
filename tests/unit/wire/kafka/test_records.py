"""Records: batches that Java wrote, round trips under every codec, and malformed ones."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    read_header,
    stamp_crc,
)
from headrace.wire.kafka.records import (
    InvalidRecord,
    Record,
    build_batch,
    is_crc_valid,
    read_batches,
    read_records,
    recompress,
    validate_records,
)
from headrace.wire.kafka.varint import encode_signed

# Two records, as the Java client of Kafka 4.3.0 writes them under each codec.
JAVA_BATCHES = {
    Compression.NONE: (
        "000000000000000000000060ffffffff0207ff0ae100000000000100000000000003e80000000000"
        "0003edffffffffffffffffffffffffffff000000023c000000026b2e68656c6c6f2068656c6c6f20"
        "68656c6c6f2068656c6c6f001e000a020102620402680104c3a90278"
    ),
    Compression.GZIP: (
        "000000000000000000000065ffffffff023ed5ab8600010000000100000000000003e80000000000"
        "0003edffffffffffffffffffffffffffff000000021f8b08000000000000ffb361606060cad6cb48"
        "cdc9c957c02019e418b89818999258983218590eaf64aa0000be8943a82f000000"
    ),
    Compression.SNAPPY: (
        "000000000000000000000069ffffffff02c1bef99600020000000100000000000003e80000000000"
        "0003edffffffffffffffffffffffffffff0000000282534e41505059000000000100000001000000"
        "242f303c000000026b2e68656c6c6f2042060040001e000a020102620402680104c3a90278"
    ),
    Compression.LZ4: (
        "000000000000000000000063ffffffff02bcc8151600030000000100000000000003e80000000000"
        "0003edffffffffffffffffffffffffffff0000000204224d1860408223000000dd3c000000026b2e"
        "68656c6c6f200600f002001e000a020102620402680104c3a9027800000000"
    ),
    Compression.ZSTD: (
        "000000000000000000000061ffffffff027e655c7900040000000100000000000003e80000000000"
        "0003edffffffffffffffffffffffffffff0000000228b52ffd0058240100f03c000000026b2e6865"
        "6c6c6f20001e000a020102620402680104c3a90278010099cb17010000"
    ),
}
JAVA_RECORDS = [
    Record(0, 1000, b"k", b"hello hello hello hello", []),
    Record(1, 1005, None, b"b", [("h", None), ("é", b"x")]),
]

BYTES = st.none() | st.binary(max_size=50)
RECORDS = st.lists(
    st.tuples(
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3),
        st.integers(0, 2**50),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(payload: bytes, count: int, last_offset_delta: int | None = None) -> bytearray:
    """A batch with a right header and CRC around any payload."""
    header = read_header(build_batch([(None, b"", [], 0)]))
    header.record_count = count
    header.last_offset_delta = count - 1 if last_offset_delta is None else last_offset_delta
    header.batch_length = HEADER_BYTES - 12 + len(payload)
    batch = bytearray(header.pack() + payload)
    stamp_crc(batch)
    return batch


def record_of(body: bytes) -> bytes:
    return encode_signed(len(body)) + body


@pytest.mark.parametrize("codec", list(Compression))
def test_javas_batches_are_read(codec: Compression) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[codec])
    assert is_crc_valid(batch)
    assert read_header(batch).compression == codec
    assert list(read_records(batch)) == JAVA_RECORDS
    validate_records(batch)


def test_uncompressed_batches_are_javas_byte_for_byte() -> None:
    assert build_batch(JAVA_RECORDS).hex() == JAVA_BATCHES[Compression.NONE]


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4])
def test_framed_codecs_are_javas_byte_for_byte(codec: Compression) -> None:
    assert build_batch(JAVA_RECORDS, compression=codec).hex() == JAVA_BATCHES[codec]


@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**40))
@settings(deadline=None)
def test_round_trip(records: list[Any], codec: Compression, base_offset: int) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        compression=codec,
        producer_id=5,
        producer_epoch=2,
        base_sequence=7,
        is_transactional=True,
        leader_epoch=3,
    )
    header = read_header(batch)
    assert is_crc_valid(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 7)
    assert header.is_transactional
    assert not header.is_control
    assert header.partition_leader_epoch == 3
    assert header.max_timestamp == max(r[3] for r in records)
    assert header.next_offset == base_offset + len(records)
    assert list(read_records(batch)) == [
        Record(base_offset + i, timestamp, key, value, headers)
        for i, (key, value, headers, timestamp) in enumerate(records)
    ]
    validate_records(batch)


@given(RECORDS, st.sampled_from(Compression), st.sampled_from(Compression))
@settings(deadline=None, max_examples=50)
def test_recompress_keeps_the_records(
    records: list[Any], before: Compression, after: Compression
) -> None:
    batch = build_batch(records, compression=before, base_offset=9)
    again = recompress(batch, after, None)
    assert read_header(again).compression == after
    assert is_crc_valid(again)
    assert list(read_records(again)) == list(read_records(batch))


def test_offsets_with_gaps_are_kept_for_compaction() -> None:
    records = [Record(103, 7, b"a", b"1"), Record(108, 9, b"b", None)]
    batch = build_batch(records, base_offset=100, keep_offsets=True, last_offset_delta=11)
    assert [r.offset for r in read_records(batch)] == [103, 108]
    assert read_header(batch).last_offset == 111


def test_a_batch_may_outlive_its_records() -> None:
    batch = build_batch([], base_offset=100, keep_offsets=True, last_offset_delta=11)
    assert list(read_records(batch)) == []
    assert read_header(batch).next_offset == 112
    with pytest.raises(ValueError, match="needs a record"):
        build_batch([])


def test_batches_in_a_row_and_one_cut_off() -> None:
    first, second = build_batch(JAVA_RECORDS), build_batch(JAVA_RECORDS, base_offset=2)
    whole = bytes(first + second)
    assert [h.base_offset for h, _ in read_batches(whole)] == [0, 2]
    for cut in (1, 60, len(second) - 1):
        assert [bytes(b) for _, b in read_batches(whole[:-cut])] == [bytes(first)]
    with pytest.raises(InvalidRecord, match="no batch of format 2 at byte"):
        list(read_batches(bytes(first) + bytes(100)))


RECORD = record_of(b"\0\0\0\1\1\0")


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (batch_of(RECORD, 2), "records in"),
        (batch_of(RECORD, -1), "records in"),
        (batch_of(RECORD, 2**31 - 1), "records in"),
        (batch_of(RECORD * 3, 2), "behind the last record"),
        (batch_of(RECORD + b"xyz", 1), "behind the last record"),
        (batch_of(record_of(b"\0\0\0\1\1\0!"), 1), "length is not that of its fields"),
        (batch_of(record_of(b"\0\0\0" + encode_signed(50) + b"\1\0"), 1), "field of 50 bytes"),
        (batch_of(record_of(b"\0\0\0\1\1" + encode_signed(-1)), 1), "-1 headers"),
        (batch_of(record_of(b"\0\0\0\1\1" + encode_signed(2**31 - 1)), 1), "headers in"),
        (batch_of(record_of(b"\0\0\0\1\1\2\1\1"), 1), "header without a key"),
        (batch_of(encode_signed(-7) + bytes(9), 1), "record of -7 bytes"),
        (batch_of(encode_signed(2**30) + bytes(9), 1), "record of 1073741824 bytes"),
        (batch_of(b"\x80" * 6 + bytes(9), 1), "longer than 5 bytes"),
        (batch_of(record_of(b"\0" + b"\x80" * 11 + bytes(9)), 1), "longer than 10 bytes"),
    ],
)
def test_malformed_records(batch: bytearray, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        list(read_records(batch))


def test_a_batch_larger_than_its_buffer_and_one_of_another_format() -> None:
    batch = build_batch(JAVA_RECORDS)
    with pytest.raises(InvalidRecord, match=r"batch of \d+ bytes in"):
        list(read_records(batch[:-1]))
    batch[16] = 1
    with pytest.raises(InvalidRecord, match="format 1"):
        list(read_records(batch))


def test_unknown_codec_and_broken_compression() -> None:
    batch = build_batch(JAVA_RECORDS)
    batch[22] |= 7
    with pytest.raises(InvalidRecord, match="codec 7"):
        list(read_records(batch))
    for codec in (1, 2, 3, 4):
        batch[22] = codec
        with pytest.raises(InvalidRecord):
            list(read_records(batch))


def test_a_bomb_fails_at_the_limit() -> None:
    for codec in list(Compression)[1:]:
        batch = build_batch([(None, bytes(5_000_000), [], 0)], compression=codec)
        with pytest.raises(InvalidRecord, match="unfolds to more than"):
            list(read_records(batch, limit_bytes=100_000))


def test_validation_wants_consecutive_offsets_and_the_headers_count() -> None:
    gap = build_batch([Record(0, 0, b"a"), Record(2, 0, b"b")], keep_offsets=True)
    with pytest.raises(InvalidRecord, match="2 records with a last offset delta of 2"):
        validate_records(gap)
    wrong = build_batch(
        [Record(0, 0, b"a"), Record(2, 0, b"b")], keep_offsets=True, last_offset_delta=1
    )
    with pytest.raises(InvalidRecord, match="wrong offset delta"):
        validate_records(wrong)
    with pytest.raises(InvalidRecord, match="0 records"):
        validate_records(build_batch([], last_offset_delta=0))


def test_validation_for_a_compacted_topic_wants_keys() -> None:
    validate_records(build_batch([(b"", b"v", [], 0)]), require_keys=True)
    with pytest.raises(InvalidRecord, match="no key"):
        validate_records(build_batch([(None, b"v", [], 0)]), require_keys=True)


@given(st.binary(max_size=120), st.integers(0, 5), st.integers(0, 5))
def test_any_payload_is_records_or_an_error(payload: bytes, count: int, codec: int) -> None:
    batch = batch_of(payload, count)
    batch[22] = codec
    with suppress(InvalidRecord):
        assert len(list(read_records(batch, limit_bytes=10_000))) == count


@given(RECORDS, st.sampled_from(Compression), st.data())
@settings(deadline=None)
def test_one_flipped_bit_is_seen_by_the_crc(
    records: list[Any], codec: Compression, data: st.DataObject
) -> None:
    batch = build_batch(records, compression=codec)
    bit = data.draw(st.integers(8 * 17, 8 * len(batch) - 1))
    batch[bit // 8] ^= 1 << (bit % 8)
    assert not is_crc_valid(batch)


def test_headers_of_a_record_keep_their_order_and_doubles() -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"")]
    (record,) = read_records(build_batch([(None, None, headers, -1)]))
    assert record == Record(0, -1, None, None, headers)
    assert isinstance(read_header(build_batch([record])), BatchHeader)
