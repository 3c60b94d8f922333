"""Batches that are wrong only to one who walks their records.

Our broker reads headers unless told otherwise, so this module's broker is told otherwise. Rows:
name, batch, the error of ours, the error of Apache Kafka 4.3.0 where that differs. Every compressed
row is small on the wire: what it claims to be must cost nothing.
"""

import gzip
import struct
import time
from dataclasses import dataclass

import cramjam
import pytest
from tests.wire.batches import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Batch,
    gzip_bomb,
    lz4_frame,
    record,
    sized,
    varint,
)
from tests.wire.conftest import Target
from tests.wire.raw import Connection, request, response
from tests.wire.serving import assert_serves, produce, produce_body

SETTINGS = {"headrace.produce.validate.records": "true"}

NONE = 0
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87
UNKNOWN_SERVER_ERROR = -1
"""Kafka's answer to whatever its codecs throw; never ours (KAFKA-14034)."""
BROKEN = {CORRUPT_MESSAGE, INVALID_RECORD}

INT32_MAX = 2**31 - 1
SNAPPY_JAVA_MAGIC = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def body(tail: bytes) -> bytes:
    """A record whose content after its length is `tail`."""
    return varint(len(tail)) + tail


def headers(encoded: bytes) -> bytes:
    return record(headers=encoded)


def packed(codec: int, data: bytes, count: int = 1) -> bytes:
    return Batch(attributes=codec, records=data, count=count).encode()


def plain(data: bytes, count: int = 1) -> bytes:
    return Batch(records=data, count=count).encode()


ONE = record(b"one record, good and whole, long enough to be worth compressing " * 4)
ZSTD_FRAME = bytes(cramjam.zstd.compress(ONE))
SNAPPY_BLOCK = bytes(cramjam.snappy.compress_raw(ONE))
SNAPPY_JAVA = SNAPPY_JAVA_MAGIC + struct.pack(">i", len(SNAPPY_BLOCK)) + SNAPPY_BLOCK
GZIP_STREAM = gzip.compress(ONE)
# A frame header alone: single segment, eight bytes of content size.
ZSTD_OF_2_60_BYTES = ZSTD_FRAME[:4] + b"\xe0" + struct.pack("<Q", 1 << 60)
LEADING = b"\x00" + varint(0) + varint(0)  # attributes, timestamp delta, offset delta


@dataclass(frozen=True)
class Row:
    name: str
    records: bytes
    ours: int | set[int]
    kafka: int | None = None

    def expected(self, target: Target) -> set[int]:
        wanted = self.kafka if target.is_control and self.kafka is not None else self.ours
        return wanted if isinstance(wanted, set) else {wanted}


PLAIN_ROWS = [
    Row("good headers", plain(headers(varint(1) + sized(b"k") + sized(b"v"))), NONE),
    Row("null header value", plain(headers(varint(1) + sized(b"k") + sized(None))), NONE),
    Row("null key and value", plain(record(None)), NONE),
    Row("header count -1", plain(headers(varint(-1))), INVALID_RECORD),
    Row("header count 2^31-1", plain(headers(varint(INT32_MAX))), INVALID_RECORD),
    Row("null header key", plain(headers(varint(1) + sized(None) + sized(b"v"))), INVALID_RECORD),
    Row(
        "header value length -2",
        plain(headers(varint(1) + sized(b"k") + varint(-2))),
        BROKEN | {NONE},
    ),
    Row("key longer than its record", plain(body(LEADING + varint(9999) + b"k")), INVALID_RECORD),
    Row("key length 2^31-1", plain(body(LEADING + varint(INT32_MAX) + b"k")), INVALID_RECORD),
    Row("value longer than its record", plain(body(LEADING + varint(-1) + varint(99))), BROKEN),
    Row("record length 0", plain(varint(0)), INVALID_RECORD),
    Row("record length -1", plain(varint(-1) + bytes(8)), INVALID_RECORD),
    Row("record length beyond the batch", plain(varint(500) + bytes(20)), INVALID_RECORD),
    Row("record length 2^31-1", plain(varint(INT32_MAX) + bytes(20)), INVALID_RECORD),
    Row(
        "varint of 10 bytes",
        plain(b"\xff" * 9 + b"\x01" + bytes(20)),
        INVALID_RECORD,
        UNKNOWN_SERVER_ERROR,
    ),
    Row("varint that never ends", plain(b"\xff" * 40), INVALID_RECORD, UNKNOWN_SERVER_ERROR),
    Row("bytes left in the record", plain(body(ONE[2:] + b"left")), INVALID_RECORD),
    Row("bytes left in the batch", plain(ONE + b"left over"), INVALID_RECORD),
    Row("2 records told, 1 there", Batch(records=ONE, count=2).encode(), INVALID_RECORD),
    Row("2^31-1 records told, 1 there", plain(ONE, INT32_MAX), INVALID_RECORD),
    Row("1 record told, 2 there", plain(ONE + ONE), INVALID_RECORD),
    Row("offset deltas 0, 0", plain(ONE + ONE, 2), INVALID_RECORD, NONE),
    Row("offset delta 5 of the only record", plain(record(offset_delta=5)), INVALID_RECORD, NONE),
    Row("offset delta -1", plain(record(offset_delta=-1)), INVALID_RECORD, NONE),
]

PACKED_ROWS = [
    Row("gzip", packed(GZIP, GZIP_STREAM), NONE),
    Row("gzip garbage", packed(GZIP, b"\x1f\x8b garbage garbage"), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("gzip of nothing", packed(GZIP, gzip.compress(b"")), BROKEN),
    Row("gzip that ends early", packed(GZIP, GZIP_STREAM[:-12]), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("gzip of 1 of 2 records", packed(GZIP, GZIP_STREAM, 2), INVALID_RECORD),
    Row("gzip of 1 of 2^31-1 records", packed(GZIP, GZIP_STREAM, INT32_MAX), INVALID_RECORD),
    Row("gzip of records that lie", packed(GZIP, gzip.compress(b"\x7f" * 50)), BROKEN),
    Row("gzip, told as zstd", packed(ZSTD, GZIP_STREAM), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("no bytes of gzip", packed(GZIP, b""), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("snappy, raw", packed(SNAPPY, SNAPPY_BLOCK), NONE),
    Row("snappy, as Java frames it", packed(SNAPPY, SNAPPY_JAVA), NONE),
    Row(
        "snappy of 2^32-1 bytes",
        packed(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(9)),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row(
        "snappy block of 2^31-1 bytes",
        packed(SNAPPY, SNAPPY_JAVA_MAGIC + struct.pack(">i", INT32_MAX) + b"x"),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row(
        "snappy block of -1 bytes",
        packed(SNAPPY, SNAPPY_JAVA_MAGIC + struct.pack(">i", -1) + b"x"),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row("snappy that ends early", packed(SNAPPY, SNAPPY_BLOCK[:-3]), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("lz4 without content size", packed(LZ4, lz4_frame(ONE)), NONE),
    Row("lz4 with content size", packed(LZ4, lz4_frame(ONE, content_size=len(ONE))), NONE),
    Row("lz4 of 2^62 bytes", packed(LZ4, lz4_frame(ONE, content_size=1 << 62)), BROKEN | {NONE}),
    Row(
        "lz4 block of 2^31-1",
        packed(LZ4, lz4_frame(ONE, block_size=INT32_MAX)),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row(
        "lz4 with a wrong header checksum",
        packed(LZ4, lz4_frame(ONE, checksum_off_by=1)),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row("lz4 of version 0", packed(LZ4, lz4_frame(ONE, flags=0x20)), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("lz4 magic alone", packed(LZ4, lz4_frame(ONE)[:4]), BROKEN, UNKNOWN_SERVER_ERROR),
    Row(
        "lz4 with a wrong magic",
        packed(LZ4, b"\x00" + lz4_frame(ONE)[1:]),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row("lz4 that ends early", packed(LZ4, lz4_frame(ONE)[:-20]), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("zstd", packed(ZSTD, ZSTD_FRAME), NONE),
    Row(
        "zstd garbage",
        packed(ZSTD, ZSTD_FRAME[:4] + b"garbage garbage"),
        BROKEN,
        UNKNOWN_SERVER_ERROR,
    ),
    Row("zstd that ends early", packed(ZSTD, ZSTD_FRAME[:-5]), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("zstd of 2^60 bytes", packed(ZSTD, ZSTD_OF_2_60_BYTES), BROKEN, UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize("row", PLAIN_ROWS + PACKED_ROWS, ids=lambda row: row.name)
def test_records(target: Target, row: Row) -> None:
    with Connection(target.address) as connection:
        started_s = time.monotonic()
        error = int(produce(connection, row.records).error_code)
        took_s = time.monotonic() - started_s
    assert error in row.expected(target)
    assert took_s < 2, "a lie about a size must not cost time"
    assert_serves(target.address)


def test_a_gzip_bomb_cannot_hurt(target: Target) -> None:
    """200 kB that unpack to 200 MB. Kafka unpacks it all; ours stops at a limit and says so."""
    bomb = packed(GZIP, gzip_bomb(200_000_000))
    assert len(bomb) < 300_000
    before_bytes = target.rss_bytes()
    with Connection(target.address) as connection:
        started_s = time.monotonic()
        error = int(produce(connection, bomb).error_code)
        took_s = time.monotonic() - started_s
    if target.is_control:
        assert error == NONE
        return
    assert error in {MESSAGE_TOO_LARGE, *BROKEN}
    assert took_s < 5, "unpacking stops at the limit"
    assert target.rss_bytes() - before_bytes < 64 << 20
    assert_serves(target.address)


def test_many_bombs_at_once(target: Target) -> None:
    if target.is_control:
        pytest.skip("Kafka unpacks each of them")
    bomb = packed(GZIP, gzip_bomb(100_000_000))
    before_bytes = target.rss_bytes()
    connections = [Connection(target.address) for _ in range(10)]
    try:
        for connection in connections:
            connection.send(request("produce", 9, **produce_body(bomb)))
        for connection in connections:
            answer = response("produce", 9, connection.read_frame())
            assert answer.responses[0].partition_responses[0].error_code != NONE
    finally:
        for connection in connections:
            connection.socket.close()
    assert target.rss_bytes() - before_bytes < 64 << 20
    assert_serves(target.address)


def test_mutations_of_a_good_batch_never_reach_the_log(target: Target) -> None:
    """One byte wrong anywhere below the CRC is refused; offsets show that nothing went in."""
    batch = packed(GZIP, GZIP_STREAM)
    with Connection(target.address) as connection:
        first = produce(connection, batch).base_offset
        for position in range(21, len(batch), 7):
            wrong = bytearray(batch)
            wrong[position] ^= 0x40
            assert produce(connection, bytes(wrong)).error_code == CORRUPT_MESSAGE
        assert produce(connection, batch).base_offset == first + 1
