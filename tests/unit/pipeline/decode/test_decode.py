"""The compiled decoder against the plain one: all codecs, nulls, gaps, transactions, bad bytes."""

import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.pipeline.decode.reference import decoded, rows_by_reference, rows_of

from headrace.pipeline.columns import RAW_SCHEMA
from headrace.pipeline.decode.walk import InvalidBatch, walk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.control_records import ControlRecordType, encode_control_key
from headrace.wire.kafka.record_batch import stamp_append_time, stamp_crc
from headrace.wire.kafka.records import Record, build_batch, read_records

ALL = 1 << 40
MILLISECONDS = st.integers(-1, 4_102_444_800_000)
DATA = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
HEADER_LISTS = st.lists(st.tuples(st.text(max_size=8), DATA), max_size=3)
RECORDS = st.lists(st.tuples(DATA, DATA, HEADER_LISTS, MILLISECONDS), min_size=1, max_size=6)
CODECS = st.sampled_from(list(Compression))


def batches_of(contents: list[tuple[Any, Compression, int]]) -> bytes:
    """Batches one behind the other, each with holes of `gap` offsets between its records."""
    out, offset = b"", 0
    for records, codec, gap in contents:
        kept = [
            Record(offset + index * gap, timestamp, key, value, headers)
            for index, (key, value, headers, timestamp) in enumerate(records)
        ]
        last_delta = len(kept) * gap + 1
        out += build_batch(
            kept,
            base_offset=offset,
            compression=codec,
            keep_offsets=True,
            last_offset_delta=last_delta,
        )
        offset += last_delta + 1
    return out


CONTENTS = st.lists(st.tuples(RECORDS, CODECS, st.integers(1, 3)), min_size=1, max_size=5)
PROPERTY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PROPERTY
@given(CONTENTS, st.integers(0, 20), st.integers(0, 60))
def test_every_row_of_the_range_is_what_the_plain_decoder_reads(
    contents: Any, start: int, length: int
) -> None:
    data = batches_of(contents)
    expected = rows_by_reference(data, start, start + length, partition=3)
    assert rows_of(decoded(data, start, start + length, partition=3)) == expected


@PROPERTY
@given(CONTENTS, st.integers(1, 8))
def test_portions_cut_between_batches_and_lose_nothing(contents: Any, rows_max: int) -> None:
    data = batches_of(contents)
    made = decoded(data, 0, ALL, rows_max=rows_max)
    assert rows_of(made) == rows_by_reference(data, 0, ALL)
    largest = max(len(records) for records, _, _ in contents)
    assert all(batch.num_rows <= max(rows_max, largest) for batch in made)


def test_columns_are_those_of_the_contract() -> None:
    data = build_batch([(None, b"", [("h", None), ("h", b"")], 1)])
    (batch,) = decoded(data, 0, ALL)
    assert batch.schema.equals(RAW_SCHEMA)
    (row,) = batch.to_pylist()
    assert (row["key"], row["value"]) == (None, b"")
    assert row["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": b""}]


def test_a_batch_that_compaction_emptied_has_no_rows_and_is_passed() -> None:
    """Compaction keeps the header of a producer's last batch, to remember its sequence."""
    empty = build_batch([], base_offset=2, last_offset_delta=3)
    data = build_batch(SEVERAL[:2]) + empty + build_batch(SEVERAL[:1], base_offset=6)
    assert [row["offset"] for row in rows_of(decoded(data, 0, ALL))] == [0, 1, 6]
    walked = walk(memoryview(data), 0, ALL)
    assert (walked.next_offset, walked.gap_at) == (7, -1)


def test_log_append_time_is_the_time_of_every_record_of_its_batch() -> None:
    batch = build_batch([(b"a", b"1", [], 5), (b"b", b"2", [], 6)])
    stamp_append_time(batch, 0, 77_000)
    rows = rows_of(decoded(batch, 0, ALL))
    assert rows == rows_by_reference(bytes(batch), 0, ALL)
    assert [(row["timestampType"], row["timestamp"].timestamp()) for row in rows] == [(1, 77.0)] * 2


def test_a_time_beyond_microseconds_is_cut_and_not_wrapped() -> None:
    data = build_batch([(b"a", b"1", [], 2**62), (b"b", b"2", [], -(2**62))])
    (batch,) = decoded(data, 0, ALL)
    limit = (2**63 - 1) // 1000 * 1000
    assert batch.column("timestamp").cast("int64").to_pylist() == [limit, -limit]


def test_header_keys_that_are_not_utf8_are_shown_with_replacements() -> None:
    data = build_batch([(b"a", b"1", [("AAAA", b"x"), ("é", None)], 5)])
    at = bytes(data).index(b"AAAA")
    data[at : at + 4] = b"A\xff\xfeA"
    stamp_crc(data)
    rows = rows_of(decoded(data, 0, ALL))
    assert rows == rows_by_reference(bytes(data), 0, ALL)
    assert [header["key"] for header in rows[0]["headers"]] == ["A��A", "é"]


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    record = (encode_control_key(kind), b"\0" * 6, [], 9)
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
    )


def data_of(offset: int, producer_id: int, *, is_transactional: bool = True) -> bytes:
    record = (b"%d" % producer_id, b"%d" % offset, [], 9)
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=is_transactional,
        )
    )


ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def test_aborted_transactions_and_markers_are_left_out() -> None:
    data = b"".join(
        [
            data_of(0, 7),  # aborted
            data_of(1, 8),  # committed, between
            data_of(2, 7),  # aborted
            data_of(3, -1, is_transactional=False),
            marker(4, 7, ABORT),
            data_of(5, 7),  # the producer's next one, committed
            marker(6, 8, COMMIT),
            marker(7, 7, COMMIT),
            data_of(8, 8),  # aborted later than this buffer ends
        ]
    )
    rows = rows_of(decoded(data, 0, ALL, [(8, 8), (7, 0)]))
    assert [row["offset"] for row in rows] == [1, 3, 5]
    assert rows == rows_by_reference(data, 0, ALL, [(7, 0), (8, 8)])


def test_under_read_uncommitted_only_the_markers_are_left_out() -> None:
    data = data_of(0, 7) + marker(1, 7, ABORT) + data_of(2, 7)
    assert [row["offset"] for row in rows_of(decoded(data, 0, ALL))] == [0, 2]


@pytest.mark.parametrize("seed", range(40))
def test_random_transactions_agree_with_the_plain_reader(seed: int) -> None:
    dice = random.Random(seed)
    data, aborted, opened = b"", [], dict[int, int]()
    for offset in range(60):
        producer_id = dice.randrange(4)
        kind = dice.random()
        if producer_id in opened and kind < 0.3:
            is_abort = dice.random() < 0.5
            data += marker(offset, producer_id, ABORT if is_abort else COMMIT)
            first = opened.pop(producer_id)
            if is_abort:
                aborted.append((producer_id, first))
        elif kind < 0.8:
            opened.setdefault(producer_id, offset)
            data += data_of(offset, producer_id)
        else:
            data += data_of(offset, 99, is_transactional=False)
    start = dice.randrange(60)
    relevant = [(who, first) for who, first in aborted]
    expected = rows_by_reference(data, start, 60, relevant)
    assert rows_of(decoded(data, start, 60, relevant)) == expected


def outcome(data: bytes) -> str:
    """What decoding says; anything but rows or one declared error fails the test."""
    try:
        batches = decoded(data, 0, ALL)
    except InvalidBatch:
        return "invalid"
    return f"{sum(batch.num_rows for batch in batches)} rows"


SEVERAL = [
    (b"key", b"value" * 5, [("name", b"content"), ("none", None)], 1_000),
    (None, b"x" * 200, [], 1_001),
    (b"", None, [("", b"")], 999),
]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda each: each.name)
def test_a_batch_that_is_cut_anywhere_is_not_decoded(codec: Compression) -> None:
    whole = bytes(build_batch(SEVERAL, compression=codec))
    assert outcome(whole) == "3 rows"
    for length in range(len(whole)):
        assert outcome(whole[:length]) == "0 rows", length


@pytest.mark.parametrize("codec", list(Compression), ids=lambda each: each.name)
def test_any_flipped_bit_is_found_by_the_checksum_or_harmless(codec: Compression) -> None:
    whole = bytes(build_batch(SEVERAL, compression=codec))
    for at in range(21, len(whole)):
        bad = bytearray(whole)
        bad[at] ^= 1 << at % 8
        assert outcome(bytes(bad)) == "invalid", at


@pytest.mark.parametrize("codec", list(Compression), ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(8))
def test_bad_bytes_under_a_right_checksum_never_leave_the_buffer(
    codec: Compression, seed: int
) -> None:
    """Random damage with the CRC made right again: rows or one declared error, nothing else, and
    rows only where the plain decoder reads the same."""
    dice = random.Random(seed * 10 + codec)
    whole = bytes(build_batch(SEVERAL, compression=codec))
    for _ in range(150):
        bad = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            bad[dice.randrange(61, len(bad))] = dice.choice(
                (0, 1, 127, 128, 255, dice.randrange(256))
            )
        stamp_crc(bad)
        if outcome(bytes(bad)) != "invalid":
            assert content_of(decoded(bad, 0, ALL)) == list(read_records(bad))


def content_of(batches: list[pa.RecordBatch]) -> list[Record]:
    return [
        Record(
            offset,
            timestamp // 1000,
            key,
            value,
            [(header["key"], header["value"]) for header in headers],
        )
        for batch in batches
        for offset, timestamp, key, value, headers in zip(
            batch.column("offset").to_pylist(),
            batch.column("timestamp").cast("int64").to_pylist(),
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            batch.column("headers").to_pylist(),
            strict=True,
        )
    ]


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        (57, ">i", 4),  # a record more than there are
        (57, ">i", 2),  # one less
        (57, ">i", 0),
        (57, ">i", -1),
        (57, ">i", 2**31 - 1),
        (23, ">i", 1),  # a last offset before that of the last record
    ],
)
def test_headers_that_contradict_the_records_are_refused(at: int, layout: str, value: int) -> None:
    bad = build_batch(SEVERAL)
    struct.pack_into(layout, bad, at, value)
    stamp_crc(bad)
    assert outcome(bytes(bad)) == "invalid"


def sections_of(body: bytes) -> bytes:
    """A batch whose records section is `body`, said to be one record."""
    batch = build_batch([(None, None, [], 0)])
    batch = batch[:61] + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    stamp_crc(batch)
    return bytes(batch)


@pytest.mark.parametrize(
    "body",
    [
        bytes.fromhex("0e 00 00 00 01 01 00 00"),  # a byte behind the record
        bytes.fromhex("7e 00 00 00 01 01 00"),  # longer than the section
        bytes.fromhex("01 00 00 00 01 01 00"),  # a negative length
        bytes.fromhex("0c 00 80 80 80 80 80 80 80 80 80 80"),  # a varlong of more than ten bytes
        bytes.fromhex("ff ff ff ff ff ff ff"),  # a varint of more than five bytes
        bytes.fromhex("0c 00 00 00 7e 01 00"),  # a key longer than the record
        bytes.fromhex("0c 00 00 00 01 7e 00"),  # a value longer than the record
        bytes.fromhex("0c 00 00 00 01 01 02"),  # a header that is not there
        bytes.fromhex("0c 00 00 00 01 01 01"),  # minus one headers
        bytes.fromhex("10 00 00 00 01 01 02 01 01"),  # a header without a key
        bytes.fromhex("10 00 00 00 01 01 02 00 7e"),  # a header value longer than the record
        bytes.fromhex("0c 00 00 01 01 01 00"),  # an offset before the batch's
        bytes.fromhex("14 00 00 00 01 01 fe ff ff ff 0f"),  # 2^31 headers
        bytes.fromhex("80 80 80 80 80 80 80"),
        bytes.fromhex("00") * 7,
    ],
    ids=lambda body: body.hex(),
)
def test_malformed_records_are_refused(body: bytes) -> None:
    assert outcome(sections_of(body)) == "invalid"


def test_the_smallest_record_is_read() -> None:
    assert outcome(sections_of(bytes.fromhex("0c 00 00 00 01 01 00"))) == "1 rows"


def test_other_formats_and_codecs_are_refused_by_name() -> None:
    old = build_batch(SEVERAL)
    old[16] = 1
    with pytest.raises(InvalidBatch, match="format 1"):
        decoded(old, 0, ALL)
    unknown = build_batch(SEVERAL)
    unknown[22] |= 5
    stamp_crc(unknown)
    with pytest.raises(InvalidBatch, match="codec 5"):
        decoded(unknown, 0, ALL)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_a_small_batch_that_unfolds_to_more_than_allowed_is_refused(codec: Compression) -> None:
    bomb = build_batch([(None, bytes(70 * 1024 * 1024), [], 0)], compression=codec)
    assert len(bomb) < 1024 * 1024
    with pytest.raises(InvalidBatch, match="unfolds to more"):
        decoded(bomb, 0, ALL)
