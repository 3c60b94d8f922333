"""Fetch requests and responses by hand, versions 4 to 18.

Owns: the layouts below. Must not know: sessions, partitions, files. A response is a list of parts,
header bytes between the caller's own record regions, so that the regions go out by sendfile.

    request    [tagged 12+: cluster_id 0, replica_state 1] replica_id int32 (to 14)
               | max_wait_ms int32 | min_bytes int32 | max_bytes int32 | isolation_level int8
               | session_id int32 | session_epoch int32 (7+) | topics: name string (uuid since 13)
                 | partitions: partition int32 | current_leader_epoch int32 (9+)
                 | fetch_offset int64 | last_fetched_epoch int32 (12+) | log_start_offset int64 (5+)
                 | partition_max_bytes int32
               | forgotten topics: name or uuid | partitions int32 (7+) | rack_id string (11+)
    response   throttle_time_ms int32 | error_code int16 | session_id int32 (7+) | topics: name or
               uuid | partitions: index int32 | error_code int16 | high_watermark int64
                 | last_stable_offset int64 | log_start_offset int64 (5+)
                 | aborted: producer_id int64, first_offset int64
                 | preferred_read_replica int32 (11+) | records
                 [tagged 12+: diverging_epoch 0, current_leader 1]

Versions from 12 on are flexible. A partition's tagged fields (directory id, high watermark) are
of use to quorum replicas alone, which go through the compiled codec; here they are skipped.
"""

from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.decoder_compiler import skip_tagged_fields
from headrace.wire.kafka.varint import decode_unsigned, encode_unsigned

VERSION_MIN, VERSION_MAX = 4, 18
SESSION_SINCE = 7
RACK_SINCE = 11
FLEXIBLE_SINCE = 12
TOPIC_ID_SINCE = 13
REPLICA_STATE_SINCE = 15

Topic = str | bytes  # a topic's name, or its id from version 13 on
# partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset,
# partition_max_bytes
FetchPartition = tuple[int, int, int, int, int, int]

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_WAIT_TO_ISOLATION = Struct(">iiib")
_SESSION = Struct(">ii")
_REPLICA_STATE = Struct(">iq")
_UUID_BYTES = 16

_PARTITION_4 = Struct(">iqi")
_PARTITION_5 = Struct(">iqqi")
_PARTITION_9 = Struct(">iiqqi")
_PARTITION_12 = Struct(">iiqiqi")

_CLUSTER_ID_TAG = 0
_REPLICA_STATE_TAG = 1

_HEAD = Struct(">iii")
_HEAD_7 = Struct(">iiihi")
_HEAD_12 = Struct(">iixihi")
_ANSWER_4 = Struct(">ihqq")
_ANSWER_5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_ABORTED_12 = Struct(">qqx")
_DIVERGING_EPOCH = Struct(">BBiqx")
_CURRENT_LEADER = Struct(">BBiix")


class FetchFrame:
    """A parsed Fetch request."""

    __slots__ = (
        "cluster_id",
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.replica_id = -1
        self.replica_epoch = -1
        self.max_wait_ms = 0
        self.min_bytes = 0
        self.max_bytes = 0x7FFFFFFF
        self.isolation_level = 0
        self.session_id = 0
        self.session_epoch = -1
        self.topics: list[tuple[Topic, list[FetchPartition]]] = []
        self.forgotten: list[tuple[Topic, list[int]]] = []
        self.rack_id = ""


class FetchedPartition(NamedTuple):
    """A partition's part of a Fetch response. `records` is whatever the caller sends later:
    `records_length` bytes of it, or nothing."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] | None = None  # (producer id, first offset)
    preferred_read_replica: int = -1
    records: Any = None
    records_length: int = 0
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset)
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)


def parse_fetch(view: memoryview, position: int, version: int) -> FetchFrame:
    """The request whose body begins at `position`; `ProtocolError` if malformed."""
    try:
        return _parse(view, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"Fetch request v{version} is cut short") from error


def _parse(view: memoryview, p: int, version: int) -> FetchFrame:
    frame = FetchFrame()
    flexible = version >= FLEXIBLE_SINCE
    if version < REPLICA_STATE_SINCE:
        (frame.replica_id,) = _INT32.unpack_from(view, p)
        p += 4
    (
        frame.max_wait_ms,
        frame.min_bytes,
        frame.max_bytes,
        frame.isolation_level,
    ) = _WAIT_TO_ISOLATION.unpack_from(view, p)
    p += 13
    if version >= SESSION_SINCE:
        frame.session_id, frame.session_epoch = _SESSION.unpack_from(view, p)
        p += 8
    p = _parse_topics(view, p, version, frame)
    if version >= SESSION_SINCE:
        p = _parse_forgotten(view, p, version, frame)
    if version >= RACK_SINCE:
        frame.rack_id, p = _string(view, p, flexible)
    if flexible and view[p]:
        _parse_tagged(view, p, version, frame)
    return frame


def _parse_topics(view: memoryview, p: int, version: int, frame: FetchFrame) -> int:
    flexible = version >= FLEXIBLE_SINCE
    topic_count, p = _count(view, p, flexible, 2)
    for _ in range(topic_count):
        topic, p = _topic(view, p, version)
        partitions: list[Any]
        if flexible:
            count, p = _count(view, p, True, 33)
            partitions = []
            for _ in range(count):
                partitions.append(_PARTITION_12.unpack_from(view, p))
                p += 32
                p = skip_tagged_fields(view, p, len(view)) if view[p] else p + 1
            p = skip_tagged_fields(view, p, len(view)) if view[p] else p + 1
        else:
            partitions, p = _classic_partitions(view, p, version)
        frame.topics.append((topic, partitions))
    return p


def _classic_partitions(view: memoryview, p: int, version: int) -> tuple[list[FetchPartition], int]:
    if version >= 9:
        layout = _PARTITION_9
    else:
        layout = _PARTITION_5 if version >= 5 else _PARTITION_4
    count, p = _count(view, p, False, layout.size)
    end = p + count * layout.size
    rows = layout.iter_unpack(view[p:end])
    if version >= 9:
        return [(i, epoch, offset, -1, start, size) for i, epoch, offset, start, size in rows], end
    if version >= 5:
        return [(i, -1, offset, -1, start, size) for i, offset, start, size in rows], end
    return [(i, -1, offset, -1, -1, size) for i, offset, size in rows], end


def _parse_forgotten(view: memoryview, p: int, version: int, frame: FetchFrame) -> int:
    flexible = version >= FLEXIBLE_SINCE
    topic_count, p = _count(view, p, flexible, 2)
    for _ in range(topic_count):
        topic, p = _topic(view, p, version)
        count, p = _count(view, p, flexible, 4)
        end = p + 4 * count
        partitions = [index for (index,) in _INT32.iter_unpack(view[p:end])]
        p = end
        if flexible:
            p = skip_tagged_fields(view, p, len(view)) if view[p] else p + 1
        frame.forgotten.append((topic, partitions))
    return p


def _parse_tagged(view: memoryview, p: int, version: int, frame: FetchFrame) -> None:
    count, p = decode_unsigned(view, p)
    if 2 * count > len(view) - p:
        raise ProtocolError(f"{count} tagged fields in {len(view) - p} bytes")
    for _ in range(count):
        tag, p = decode_unsigned(view, p)
        size, p = decode_unsigned(view, p)
        end = p + size
        if end > len(view):
            raise ProtocolError("tagged field is longer than its message")
        if tag == _CLUSTER_ID_TAG:
            if view[p]:
                frame.cluster_id, p = _string(view, p, True)
            else:
                p += 1
            if p != end:
                raise ProtocolError("cluster id has a wrong size")
        elif tag == _REPLICA_STATE_TAG and version >= REPLICA_STATE_SINCE:
            frame.replica_id, frame.replica_epoch = _REPLICA_STATE.unpack_from(view, p)
            if skip_tagged_fields(view, p + _REPLICA_STATE.size, end) != end:
                raise ProtocolError("replica state has a wrong size")
        p = end


def _count(view: memoryview, p: int, flexible: bool, element_bytes_min: int) -> tuple[int, int]:
    """An array's count, which must be possible in the bytes that are left."""
    if flexible:
        count, p = decode_unsigned(view, p)
        count -= 1
    else:
        (count,) = _INT32.unpack_from(view, p)
        p += 4
    if not 0 <= count * element_bytes_min <= len(view) - p:
        raise ProtocolError(f"array of {count} in {len(view) - p} bytes")
    return count, p


def _string(view: memoryview, p: int, flexible: bool) -> tuple[str, int]:
    if flexible:
        length, p = decode_unsigned(view, p)
        length -= 1
    else:
        (length,) = _INT16.unpack_from(view, p)
        p += 2
    q = p + length
    if not 0 <= length <= 32767 or q > len(view):
        raise ProtocolError(f"string of {length} bytes in {len(view) - p}")
    return str(view[p:q], "utf-8", "replace"), q


def _topic(view: memoryview, p: int, version: int) -> tuple[Topic, int]:
    if version < TOPIC_ID_SINCE:
        return _string(view, p, version >= FLEXIBLE_SINCE)
    q = p + _UUID_BYTES
    if q > len(view):
        raise ProtocolError("topic id is cut short")
    return bytes(view[p:q]), q


def encode_fetch_response_head(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: list[tuple[Topic, list[FetchedPartition]]],
    throttle_time_ms: int = 0,
) -> list[Any]:
    """A whole response frame as parts: bytes, and in their places the callers' `records`.
    The size at its front counts them all."""
    if version >= FLEXIBLE_SINCE:
        return _encode_flexible(correlation_id, error_code, session_id, topics, throttle_time_ms)
    return _encode_classic(
        version, correlation_id, error_code, session_id, topics, throttle_time_ms
    )


def _encode_flexible(
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: list[tuple[Topic, list[FetchedPartition]]],
    throttle_time_ms: int,
) -> list[Any]:
    out = bytearray(_HEAD_12.pack(0, correlation_id, throttle_time_ms, error_code, session_id))
    parts: list[Any] = [out]
    size = 0
    out += encode_unsigned(len(topics) + 1)
    for topic, partitions in topics:
        if type(topic) is bytes:
            out += topic
        else:
            name = topic.encode()  # type: ignore[union-attr]
            out += encode_unsigned(len(name) + 1) + name
        out += encode_unsigned(len(partitions) + 1)
        for (
            index,
            partition_error,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            preferred_read_replica,
            records,
            records_length,
            diverging_epoch,
            current_leader,
        ) in partitions:
            out += _ANSWER_5.pack(
                index, partition_error, high_watermark, last_stable_offset, log_start_offset
            )
            if aborted is None:
                out += b"\0"
            else:
                out += encode_unsigned(len(aborted) + 1)
                for producer_id, first_offset in aborted:
                    out += _ABORTED_12.pack(producer_id, first_offset)
            out += _INT32.pack(preferred_read_replica)
            if records_length:
                out += encode_unsigned(records_length + 1)
                size += len(out) + records_length
                out = bytearray()
                parts += (records, out)
            else:
                out += b"\1"
            if diverging_epoch is None and current_leader is None:
                out += b"\0"
            else:
                out += _tagged(diverging_epoch, current_leader)
        out += b"\0"
    out += b"\0"
    return _sized(parts, size + len(out))


def _tagged(
    diverging_epoch: tuple[int, int] | None, current_leader: tuple[int, int] | None
) -> bytes:
    count = (diverging_epoch is not None) + (current_leader is not None)
    out = encode_unsigned(count)
    if diverging_epoch is not None:
        out += _DIVERGING_EPOCH.pack(0, 13, *diverging_epoch)
    if current_leader is not None:
        out += _CURRENT_LEADER.pack(1, 9, *current_leader)
    return out


def _encode_classic(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: list[tuple[Topic, list[FetchedPartition]]],
    throttle_time_ms: int,
) -> list[Any]:
    if version >= SESSION_SINCE:
        out = bytearray(_HEAD_7.pack(0, correlation_id, throttle_time_ms, error_code, session_id))
    else:
        out = bytearray(_HEAD.pack(0, correlation_id, throttle_time_ms))
    parts: list[Any] = [out]
    size = 0
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        name = topic.encode()  # type: ignore[union-attr]
        out += _INT16.pack(len(name)) + name
        out += _INT32.pack(len(partitions))
        for partition in partitions:
            out += _classic_answer(version, partition)
            records_length = partition[8]
            out += _INT32.pack(records_length)
            if records_length:
                size += len(out) + records_length
                out = bytearray()
                parts += (partition[7], out)
    return _sized(parts, size + len(out))


def _classic_answer(version: int, partition: FetchedPartition) -> bytes:
    aborted = partition[5]
    if version >= 5:
        out = _ANSWER_5.pack(*partition[:5])
    else:
        out = _ANSWER_4.pack(*partition[:4])
    out += _INT32.pack(-1 if aborted is None else len(aborted))
    out += b"".join(_ABORTED.pack(*transaction) for transaction in aborted or ())
    if version >= RACK_SINCE:
        out += _INT32.pack(partition[6])
    return out


def _sized(parts: list[Any], size: int) -> list[Any]:
    """Writes the frame's size into its first part, and freezes what is ours."""
    _INT32.pack_into(parts[0], 0, size - 4)
    parts[::2] = map(bytes, parts[::2])  # every second part is a region of the caller's
    if not parts[-1]:
        parts.pop()
    return parts
