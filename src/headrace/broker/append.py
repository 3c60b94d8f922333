"""What a broker checks of a produced batch before it stores it.

The header, its arithmetic and the CRC: nothing that needs a walk over records. Records are
walked only where a topic asks for it (compaction, another codec) or the operator does
(`headrace.produce.validate.records`).

    base_offset i64 | batch_length i32 | leader_epoch i32 | magic i8 | crc u32 | attributes i16
    | last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 | producer_id i64
    | producer_epoch i16 | base_sequence i32 | record_count i32 | records …

Answers are Kafka 4.3's, byte for byte probed, except that nothing here is ever answered with
UNKNOWN_SERVER_ERROR: a Java client takes that for "send it again" (KAFKA-14034).
"""

from headrace.base.config import LONG_MAX
from headrace.base.crc32c import crc32c
from headrace.base.topic_config import TopicConfig
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_produce import RecordErrors
from headrace.wire.kafka.record_batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from headrace.wire.kafka.records import InvalidRecord, MissingKeys, recompress, validate_records

_ZSTD_SINCE_VERSION = 7
RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two lengths and the count of headers: a byte each."""


class BatchRefused(Exception):
    """The batch is not stored; `code` and `message` go to the producer."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_batch(
    records: memoryview, config: TopicConfig, version: int, transactional: bool, now_ms: int
) -> BatchHeader:
    """The batch's header, if it may be stored as it is."""
    size = len(records)
    if size < HEADER_BYTES:
        raise _too_short(records)
    header = BatchHeader(*HEADER.unpack_from(records))
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic)
    if header.batch_length + LENGTH_OVERHEAD_BYTES != size:
        raise _wrong_length(header.batch_length, size)
    if size > config.max_message_bytes:
        raise BatchRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {size} bytes; the topic's max.message.bytes is "
            f"{config.max_message_bytes}.",
        )
    if crc32c(records[ATTRIBUTES_AT:]) != header.crc:
        raise BatchRefused(ErrorCode.CORRUPT_MESSAGE, "The batch's CRC-32C does not match.")
    record_count = header.record_count
    if record_count <= 0 or header.last_offset_delta != record_count - 1 or header.base_offset != 0:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"Base offset {header.base_offset}, last offset delta {header.last_offset_delta} and "
            f"record count {record_count} do not fit a produced batch.",
        )
    attributes = header.attributes
    if not attributes & COMPRESSION_MASK and record_count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"{record_count} records can't be in {size - HEADER_BYTES} bytes.",
        )
    if attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        _check_special(attributes, transactional)
    if attributes & COMPRESSION_MASK:
        _check_codec(attributes & COMPRESSION_MASK, version)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"Producer id {header.producer_id} with sequence {header.base_sequence} and epoch "
            f"{header.producer_epoch}.",
        )
    if (
        header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != LONG_MAX
    ) and not config.log_append_time:
        _check_timestamps(header.base_timestamp, header.max_timestamp, config, now_ms)
    return header


def check_records(records: memoryview, config: TopicConfig, validate: bool) -> None:
    """Walk over the records where the topic or the operator asks for it."""
    if not (validate or config.compacted):
        return
    try:
        validate_records(records, require_keys=config.compacted)
    except MissingKeys as error:
        raise BatchRefused(ErrorCode.INVALID_RECORD, _missing_keys(error.indexes)) from error
    except InvalidRecord as error:
        raise BatchRefused(ErrorCode.INVALID_RECORD, str(error)) from error


def _missing_keys(indexes: list[int]) -> RecordErrors:
    reason = "Compacted topic cannot accept message without key."
    return RecordErrors.of(
        f"{len(indexes)} records have no key, and the topic is compacted by key.",
        tuple((index, reason) for index in indexes),
    )


def maybe_recompress(records: memoryview, header: BatchHeader, config: TopicConfig) -> memoryview:
    """The same batch in the topic's codec; the very same bytes where it has that codec."""
    if config.compression_type == "producer":
        return records
    codec, level = _wanted_codec(config)
    if header.attributes & COMPRESSION_MASK == codec:
        return records
    try:
        return memoryview(recompress(records, codec, level))
    except InvalidRecord as error:
        raise BatchRefused(ErrorCode.INVALID_RECORD, str(error)) from error


def _wanted_codec(config: TopicConfig) -> tuple[Compression, int | None]:
    match config.compression_type:
        case "gzip":
            return Compression.GZIP, config.compression_gzip_level
        case "snappy":
            return Compression.SNAPPY, None
        case "lz4":
            return Compression.LZ4, config.compression_lz4_level
        case "zstd":
            return Compression.ZSTD, config.compression_zstd_level
        case _:
            return Compression.NONE, None


def _too_short(records: memoryview) -> BatchRefused:
    if len(records) > MAGIC_AT and records[MAGIC_AT] in (0, 1):
        return _wrong_magic(records[MAGIC_AT])
    return BatchRefused(
        ErrorCode.CORRUPT_MESSAGE, f"{len(records)} bytes are too few for a record batch."
    )


def _wrong_magic(magic: int) -> BatchRefused:
    if magic in (0, 1):
        return BatchRefused(
            ErrorCode.INVALID_RECORD, f"Message format v{magic} is no longer taken; send v2."
        )
    return BatchRefused(ErrorCode.CORRUPT_MESSAGE, f"Unknown record batch magic {magic}.")


def _wrong_length(batch_length: int, size: int) -> BatchRefused:
    if batch_length + LENGTH_OVERHEAD_BYTES < HEADER_BYTES:
        return BatchRefused(ErrorCode.CORRUPT_MESSAGE, f"Batch length {batch_length} is too small.")
    return BatchRefused(
        ErrorCode.INVALID_RECORD,
        f"Exactly one whole batch is expected per partition; it says "
        f"{batch_length + LENGTH_OVERHEAD_BYTES} bytes and {size} came.",
    )


def _check_special(attributes: int, transactional: bool) -> None:
    if attributes & CONTROL_BIT:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "Clients may not write control batches.")
    if not transactional:
        raise BatchRefused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "A transactional batch came without a transactional id.",
        )


def _check_codec(codec: int, version: int) -> None:
    if codec > Compression.ZSTD:
        raise BatchRefused(ErrorCode.INVALID_RECORD, f"Unknown compression codec {codec}.")
    if codec == Compression.ZSTD and version < _ZSTD_SINCE_VERSION:
        raise BatchRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce v{_ZSTD_SINCE_VERSION} or later.",
        )


def _check_timestamps(
    base_timestamp: int, max_timestamp: int, config: TopicConfig, now_ms: int
) -> None:
    if max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        raise BatchRefused(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {max_timestamp} is more than message.timestamp.after.max.ms="
            f"{config.message_timestamp_after_max_ms} in the future.",
        )
    oldest = min(base_timestamp, max_timestamp)
    if oldest >= 0 and now_ms - oldest > config.message_timestamp_before_max_ms:
        raise BatchRefused(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {oldest} is more than message.timestamp.before.max.ms="
            f"{config.message_timestamp_before_max_ms} in the past.",
        )
