"""Metadata responses from encoded topics: bytes that were made once and are sent many times.

Owns: the byte form of a Metadata topic in every version, by hand. Must not know: who leads, what
is cached.

    response   throttle int32 (3+) | brokers | cluster_id (2+) | controller_id (1+) | topic count
               | topics | cluster operations int32 (8–10) | error int16 (13+) | tags (9+)
    topic      error int16 | name | topic_id uuid (10+) | is_internal (1+) | partition count
               | partitions                                                   = its start and rows
               | operations int32 (8+) | tags (9+)                            = its end
    partition  error int16 | index int32 | leader int32 | leader_epoch int32 (7+)
               | replicas | isr | offline replicas (5+) | tags (9+)

A topic's end is apart from its start, because operations depend on who asks.

Invariant: the bytes are those of the codec, in every version (a test compares them).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from headrace.wire.kafka.codec import encode
from headrace.wire.kafka.messages.metadata import MetadataResponse
from headrace.wire.kafka.varint import encode_unsigned

_INTERNAL_SINCE = 1
_OFFLINE_SINCE = 5
_LEADER_EPOCH_SINCE = 7
_OPERATIONS_SINCE = 8
_FLEXIBLE_SINCE = 9
_TOPIC_ID_SINCE = 10
_CLUSTER_OPERATIONS_UNTIL = 10
_ERROR_SINCE = 13

LAST_TOPIC_LAYOUT = 10
"""From this version on topics look the same."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class TopicLayout:
    """How topics look in one version."""

    def __init__(self, version: int) -> None:
        self._is_flexible = version >= _FLEXIBLE_SINCE
        self._has_internal = version >= _INTERNAL_SINCE
        self._has_offline = version >= _OFFLINE_SINCE
        self._has_leader_epoch = version >= _LEADER_EPOCH_SINCE
        self._has_operations = version >= _OPERATIONS_SINCE
        self._has_topic_id = version >= _TOPIC_ID_SINCE
        self._structs: dict[tuple[int, int, int], Struct] = {}
        self._prefixes: dict[tuple[int, int, int], tuple[bytes, ...]] = {}

    def topic_start(
        self, error: int, name: str | None, topic_id: bytes, is_internal: bool, count: int
    ) -> bytes:
        """A topic up to its first partition."""
        start = _INT16.pack(error) + self._string(name)
        if self._has_topic_id:
            start += topic_id
        if self._has_internal:
            start += b"\x01" if is_internal else b"\x00"
        return start + self.count(count)

    def topic_end(self, operations: int) -> bytes:
        end = _INT32.pack(operations) if self._has_operations else b""
        return end + b"\x00" if self._is_flexible else end

    def partition(
        self,
        error: int,
        index: int,
        leader: int,
        leader_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        offline: Sequence[int],
    ) -> bytes:
        counts = (len(replicas), len(isr), len(offline))
        struct = self._structs.get(counts) or self._new_struct(counts)
        values: list[Any] = [error, index, leader]
        if self._has_leader_epoch:
            values.append(leader_epoch)
        prefixes = self._prefixes[counts]
        values += (prefixes[0], *replicas, prefixes[1], *isr)
        if self._has_offline:
            values += (prefixes[2], *offline)
        return struct.pack(*values)

    def _new_struct(self, counts: tuple[int, int, int]) -> Struct:
        """A partition's whole layout, which depends on how many replicas are in which state."""
        prefixes = self._prefixes[counts] = tuple(self.count(count) for count in counts)
        arrays = [f"{len(prefix)}s{count}i" for prefix, count in zip(prefixes, counts, strict=True)]
        if not self._has_offline:
            arrays.pop()
        start = ">hiii" if self._has_leader_epoch else ">hii"
        end = "x" if self._is_flexible else ""
        struct = self._structs[counts] = Struct(start + "".join(arrays) + end)
        return struct

    def count(self, count: int) -> bytes:
        return encode_unsigned(count + 1) if self._is_flexible else _INT32.pack(count)

    def _string(self, text: str | None) -> bytes:
        if text is None:
            return b"\x00" if self._is_flexible else _INT16.pack(-1)
        data = text.encode()
        length = encode_unsigned(len(data) + 1) if self._is_flexible else _INT16.pack(len(data))
        return length + data


class EncodedMetadataResponse(MetadataResponse):
    """A Metadata response whose topics are bytes already; `topics` stays empty."""

    __slots__ = ("encoded_topics", "topic_count")

    def __init__(self, *, encoded_topics: bytes, topic_count: int, **fields: Any) -> None:
        super().__init__(**fields)
        self.encoded_topics = encoded_topics
        self.topic_count = topic_count

    def encode_into(self, version: int, out: bytearray) -> None:
        """What the codec calls instead of an encoder of its own."""
        rest = MetadataResponse(
            throttle_time_ms=self.throttle_time_ms,
            brokers=self.brokers,
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            cluster_authorized_operations=self.cluster_authorized_operations,
            error_code=self.error_code,
        )
        data = encode(rest, version)
        is_flexible = version >= _FLEXIBLE_SINCE
        end = 1 if is_flexible else 0
        if _OPERATIONS_SINCE <= version <= _CLUSTER_OPERATIONS_UNTIL:
            end += _INT32.size
        if version >= _ERROR_SINCE:
            end += _INT16.size
        topics_at = len(data) - end - (1 if is_flexible else _INT32.size)
        out += data[:topics_at]
        out += (
            encode_unsigned(self.topic_count + 1) if is_flexible else _INT32.pack(self.topic_count)
        )
        out += self.encoded_topics
        if end:
            out += data[-end:]
