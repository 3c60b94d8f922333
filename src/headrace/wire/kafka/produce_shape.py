"""What stays the same from one Produce request to the next of one producer.

A producer that writes to one partition sends the same bytes again and again; only the
correlation id and the records differ:

    api_key i16 | version i16 | correlation id i32 | ………… same bytes ………… | records | end
                                                   └ client id, acks, time-out, topic, index

So a request is recognised by comparing those bytes, instead of parsing them, and its answer is
made from the last one by writing four numbers into it. Requests of any other form (several
partitions, tagged fields) have no shape and take the way through `hot_produce`.
"""

from struct import Struct

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.hot_produce import (
    FLEXIBLE_SINCE,
    ProduceFrame,
    Topic,
    encode_produce_response,
)
from headrace.wire.kafka.varint import decode_unsigned, encode_unsigned

SHAPE_STARTS_AT = 8
"""Behind api_key, version and correlation id."""

_LOG_START_SINCE = 5
_INT32 = Struct(">i")
_OFFSET_AND_TIME = Struct(">qq")
_OFFSET_TIME_START = Struct(">qqq")
_MARK = 0x7E5A_3C96_1D2B_4F08
"""A base offset that no name or number beside it looks like: where it lands, offsets go."""
_NO_TAGS = b"\0\0\0"


class ProduceShape:
    """The form of requests to one partition, and of their answers."""

    __slots__ = (
        "_answer",
        "_answer_at",
        "_flexible",
        "_numbers",
        "acks",
        "ends_at",
        "index",
        "same",
        "timeout_ms",
        "topic",
        "transactional",
        "version",
    )

    def __init__(self, version: int, frame: ProduceFrame, same: bytes) -> None:
        topic, partitions = frame.topics[0]
        self.version = version
        self.acks = frame.acks
        self.timeout_ms = frame.timeout_ms
        self.transactional = frame.transactional_id is not None
        self.topic: Topic = topic
        self.index = partitions[0][0]
        self.same = same
        self.ends_at = SHAPE_STARTS_AT + len(same)
        self._flexible = version >= FLEXIBLE_SINCE
        row = (self.index, 0, _MARK, 0, 0, None)
        self._answer = encode_produce_response(version, 0, [(topic, [row])])
        self._answer_at = self._answer.index(_MARK.to_bytes(8, "big"))
        has_start = version >= _LOG_START_SINCE
        self._numbers = _OFFSET_TIME_START if has_start else _OFFSET_AND_TIME

    def records_of(self, view: memoryview) -> memoryview | None:
        """The records of a request of this shape; None where its end is not the usual one."""
        position = self.ends_at
        if self._flexible:
            try:
                length, position = decode_unsigned(view, position)
            except (ProtocolError, IndexError):
                return None
            end = position + length - 1
            if length == 0 or view[end:] != _NO_TAGS:
                return None
            return view[position:end]
        if len(view) < position + 4:
            return None
        (length,) = _INT32.unpack_from(view, position)
        position += 4
        if length < 0 or position + length != len(view):
            return None
        return view[position:]

    def answer(
        self, correlation_id: int, base_offset: int, append_time_ms: int, log_start_offset: int
    ) -> bytearray:
        """The whole response frame for a batch that was taken."""
        out = bytearray(self._answer)
        _INT32.pack_into(out, 4, correlation_id)
        if self._numbers is _OFFSET_TIME_START:
            _OFFSET_TIME_START.pack_into(
                out, self._answer_at, base_offset, append_time_ms, log_start_offset
            )
        else:
            _OFFSET_AND_TIME.pack_into(out, self._answer_at, base_offset, append_time_ms)
        return out


def shape_of(view: memoryview, version: int, frame: ProduceFrame) -> ProduceShape | None:
    """The shape of a request that was just parsed, if it has one."""
    if len(frame.topics) != 1 or len(frame.topics[0][1]) != 1:
        return None
    records = frame.topics[0][1][0][1]
    if records is None:
        return None
    if version >= FLEXIBLE_SINCE:
        prefix = encode_unsigned(len(records) + 1)
        tail = _NO_TAGS
    else:
        prefix = _INT32.pack(len(records))
        tail = b""
    end = len(view) - len(tail) - len(records) - len(prefix)
    if end <= SHAPE_STARTS_AT or view[end : end + len(prefix)] != prefix:
        return None
    if view[len(view) - len(tail) :] != tail:
        return None
    return ProduceShape(version, frame, bytes(view[SHAPE_STARTS_AT:end]))
