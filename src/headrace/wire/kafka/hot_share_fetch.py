"""ShareFetch responses by hand, versions 1 and 2.

Owns: the layout below. Must not know: sessions, share-partitions, files. A response is a list of
parts, header bytes between the caller's own record regions, so that the regions go out by sendfile.

    response   throttle_time_ms int32 | error_code int16 | error_message | lock_timeout_ms int32
               | topics: uuid | partitions: index int32 | error_code int16 | error_message
                 | acknowledge_error_code int16 | acknowledge_error_message
                 | current_leader: leader_id int32, leader_epoch int32 | records
                 | acquired: first_offset int64, last_offset int64, delivery_count int16
               | node_endpoints: node_id int32 | host | port int32 | rack

Both versions are flexible and have the same layout.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

from headrace.wire.kafka.varint import encode_unsigned

_HEAD = Struct(">iixih")
"""size, correlation id, no tags, throttle time, error code"""
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_INDEX = Struct(">ih")
_LEADER = Struct(">iix")
_ACQUIRED = Struct(">qqhx")

_NO_LEADER = _LEADER.pack(0, 0)


class ShareFetchedPartition(NamedTuple):
    """A partition's part of a response. `records` is whatever the caller sends later."""

    partition_index: int
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)
    records: Any = None
    records_length: int = 0
    acquired: Sequence[tuple[int, int, int]] = ()  # (first offset, last offset, delivery count)


class Endpoint(NamedTuple):
    """Where a leader is that clients are sent to."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_share_fetch_response(
    correlation_id: int,
    error_code: int,
    error_message: str | None,
    lock_timeout_ms: int,
    topics: Sequence[tuple[bytes, Sequence[ShareFetchedPartition]]],
    endpoints: Sequence[Endpoint] = (),
    throttle_time_ms: int = 0,
) -> list[Any]:
    out = bytearray(_HEAD.pack(0, correlation_id, throttle_time_ms, error_code))
    parts: list[Any] = [out]
    size = -4  # does not count itself
    out += _string(error_message)
    out += _INT32.pack(lock_timeout_ms)
    out += encode_unsigned(len(topics) + 1)
    for topic_id, partitions in topics:
        out += topic_id
        out += encode_unsigned(len(partitions) + 1)
        for row in partitions:
            _put_head(out, row)
            out += encode_unsigned(row.records_length + 1)
            if row.records_length:
                size += len(out) + row.records_length
                out = bytearray()
                parts += [row.records, out]
            _put_acquired(out, row)
        out.append(0)
    out += encode_unsigned(len(endpoints) + 1)
    for endpoint in endpoints:
        out += _INT32.pack(endpoint.node_id)
        out += _string(endpoint.host)
        out += _INT32.pack(endpoint.port)
        out += _string(endpoint.rack)
        out.append(0)
    out.append(0)
    _INT32.pack_into(parts[0], 0, size + len(out))
    return parts


def _put_head(out: bytearray, row: ShareFetchedPartition) -> None:
    out += _INDEX.pack(row.partition_index, row.error_code)
    out += _string(row.error_message)
    out += _INT16.pack(row.acknowledge_error_code)
    out += _string(row.acknowledge_error_message)
    out += _NO_LEADER if row.current_leader is None else _LEADER.pack(*row.current_leader)


def _put_acquired(out: bytearray, row: ShareFetchedPartition) -> None:
    out += encode_unsigned(len(row.acquired) + 1)
    for acquired in row.acquired:
        out += _ACQUIRED.pack(*acquired)
    out.append(0)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return encode_unsigned(len(encoded) + 1) + encoded
