"""Produce requests and responses by hand, versions 3 to 13.

Owns: the layouts below. Must not know: partitions, logs. Records stay where they are in the
frame: what comes out are slices of the caller's memoryview.

    request    transactional_id nullable string | acks int16 | timeout_ms int32 | topics:
                 name string (uuid since 13) | partitions: index int32 | records nullable bytes
    response   topics: name or uuid | partitions: index int32 | error_code int16
                 | base_offset int64 | log_append_time_ms int64 | log_start_offset int64 (5+)
                 | record_errors array (8+) | error_message nullable string (8+)
               | throttle_time_ms int32

Versions from 9 on are flexible. The tagged fields of 10+ (where the leader is now) are not
written, and unknown ones are skipped.
"""

from struct import Struct
from struct import error as StructError

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.decoder_compiler import skip_tagged_fields
from headrace.wire.kafka.varint import encode_unsigned, finish_unsigned

VERSION_MIN, VERSION_MAX = 3, 13
FLEXIBLE_SINCE = 9
TOPIC_ID_SINCE = 13

Topic = str | bytes  # a topic's name, or its id from version 13 on
ProducedTopic = tuple[Topic, list[tuple[int, memoryview | None]]]
# index, error_code, base_offset, log_append_time_ms, log_start_offset, error_message
PartitionAnswer = tuple[int, int, int, int, int, str | None]

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_INDEX_LENGTH = Struct(">ii")
_HEAD = Struct(">ii")

_ANSWER_3 = Struct(">ihqq")
_ANSWER_5 = Struct(">ihqqq")

# An answer without a message: no record errors, and no message's length.
_ANSWER_8_PLAIN = Struct(">ihqqqih")

# An answer without a message: null, and no tagged fields.
_ANSWER_9_PLAIN = Struct(">ihqqqBxx")


class ProduceFrame:
    """A parsed Produce request."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[ProducedTopic]
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


def parse_produce(view: memoryview, position: int, version: int) -> ProduceFrame:
    """The request whose body begins at `position`; `ProtocolError` if malformed."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _parse_flexible(view, position, version >= TOPIC_ID_SINCE)
        return _parse_classic(view, position)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"Produce request v{version} is cut short") from error


def _parse_flexible(view: memoryview, p: int, has_topic_id: bool) -> ProduceFrame:
    end = len(view)
    transactional_id = None
    n = view[p]
    p += 1
    if n:
        if n > 127:
            n, p = finish_unsigned(view, p, n)
        q = p + n - 1
        if q > end or n > 32768:
            raise ProtocolError("transactional id is longer than its frame")
        transactional_id = str(view[p:q], "utf-8", "replace")
        p = q
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, p)
    p += 6
    topic_count = view[p]
    p += 1
    if topic_count > 127:
        topic_count, p = finish_unsigned(view, p, topic_count)
    if topic_count == 0 or topic_count - 1 > end - p:
        raise ProtocolError(f"{topic_count - 1} topics in {end - p} bytes")
    topics: list[ProducedTopic] = []
    for _ in range(topic_count - 1):
        topic: Topic
        if has_topic_id:
            q = p + 16
            topic = bytes(view[p:q])
        else:
            n = view[p]
            p += 1
            if n > 127:
                n, p = finish_unsigned(view, p, n)
            q = p + n - 1
            if n == 0 or q > end or n > 32768:
                raise ProtocolError("topic name is null or longer than its frame")
            topic = str(view[p:q], "utf-8", "replace")
        p = q
        partition_count = view[p]
        p += 1
        if partition_count > 127:
            partition_count, p = finish_unsigned(view, p, partition_count)
        if partition_count == 0 or (partition_count - 1) * 6 > end - p:
            raise ProtocolError(f"{partition_count - 1} partitions in {end - p} bytes")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            (index,) = _INT32.unpack_from(view, p)
            n = view[p + 4]
            p += 5
            if n > 127:
                n, p = finish_unsigned(view, p, n)
            if n:
                q = p + n - 1
                if q > end:
                    raise ProtocolError(f"records of {n - 1} bytes in {end - p}")
                partitions.append((index, view[p:q]))
                p = q
            else:
                partitions.append((index, None))
            p = skip_tagged_fields(view, p, end) if view[p] else p + 1
        p = skip_tagged_fields(view, p, end) if view[p] else p + 1
        topics.append((topic, partitions))
    if view[p]:
        skip_tagged_fields(view, p, end)
    return ProduceFrame(transactional_id, acks, timeout_ms, topics)


def _parse_classic(view: memoryview, p: int) -> ProduceFrame:
    end = len(view)
    transactional_id = None
    (n,) = _INT16.unpack_from(view, p)
    p += 2
    if n >= 0:
        q = p + n
        if q > end:
            raise ProtocolError("transactional id is longer than its frame")
        transactional_id = str(view[p:q], "utf-8", "replace")
        p = q
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(view, p)
    p += 10
    if not 0 <= topic_count * 6 <= end - p:
        raise ProtocolError(f"{topic_count} topics in {end - p} bytes")
    topics: list[ProducedTopic] = []
    for _ in range(topic_count):
        (n,) = _INT16.unpack_from(view, p)
        p += 2
        q = p + n
        if n < 0 or q > end:
            raise ProtocolError("topic name is null or longer than its frame")
        topic = str(view[p:q], "utf-8", "replace")
        (partition_count,) = _INT32.unpack_from(view, q)
        p = q + 4
        if not 0 <= partition_count * 8 <= end - p:
            raise ProtocolError(f"{partition_count} partitions in {end - p} bytes")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, n = _INDEX_LENGTH.unpack_from(view, p)
            p += 8
            if n >= 0:
                q = p + n
                if q > end:
                    raise ProtocolError(f"records of {n} bytes in {end - p}")
                partitions.append((index, view[p:q]))
                p = q
            else:
                partitions.append((index, None))
        topics.append((topic, partitions))
    return ProduceFrame(transactional_id, acks, timeout_ms, topics)


class RecordErrors(str):
    """Why a batch was refused, and which of its records are the reason: (index, message)."""

    records: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, message: str, records: tuple[tuple[int, str], ...]) -> "RecordErrors":
        made = cls(message)
        made.records = records
        return made


def _flexible_records(message: str) -> bytes:
    records = message.records if isinstance(message, RecordErrors) else ()
    out = encode_unsigned(len(records) + 1)
    for index, reason in records:
        text = reason.encode()
        out += _INT32.pack(index) + encode_unsigned(len(text) + 1) + text + b"\0"
    return out


def _classic_records(message: str) -> bytes:
    records = message.records if isinstance(message, RecordErrors) else ()
    out = _INT32.pack(len(records))
    for index, reason in records:
        text = reason.encode()
        out += _INT32.pack(index) + _INT16.pack(len(text)) + text
    return out


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: list[tuple[Topic, list[PartitionAnswer]]],
    throttle_time_ms: int = 0,
) -> bytes:
    """A whole response frame, size included."""
    if version >= FLEXIBLE_SINCE:
        return _encode_flexible(correlation_id, topics, throttle_time_ms)
    return _encode_classic(version, correlation_id, topics, throttle_time_ms)


def _encode_flexible(
    correlation_id: int, topics: list[tuple[Topic, list[PartitionAnswer]]], throttle_time_ms: int
) -> bytes:
    out = bytearray(_HEAD.pack(0, correlation_id))
    out += b"\0"
    out += encode_unsigned(len(topics) + 1)
    for topic, partitions in topics:
        if type(topic) is bytes:
            out += topic
        else:
            name = topic.encode()  # type: ignore[union-attr]
            out += encode_unsigned(len(name) + 1)
            out += name
        out += encode_unsigned(len(partitions) + 1)
        for index, error_code, base_offset, append_time_ms, start_offset, message in partitions:
            if message is None:
                out += _ANSWER_9_PLAIN.pack(
                    index, error_code, base_offset, append_time_ms, start_offset, 1
                )
            else:
                out += _ANSWER_5.pack(index, error_code, base_offset, append_time_ms, start_offset)
                out += _flexible_records(message)
                text = message.encode()
                out += encode_unsigned(len(text) + 1)
                out += text
                out += b"\0"
        out += b"\0"
    out += _INT32.pack(throttle_time_ms)
    out += b"\0"
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _encode_classic(
    version: int,
    correlation_id: int,
    topics: list[tuple[Topic, list[PartitionAnswer]]],
    throttle_time_ms: int,
) -> bytes:
    out = bytearray(_HEAD.pack(0, correlation_id))
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        name = topic.encode()  # type: ignore[union-attr]
        out += _INT16.pack(len(name)) + name
        out += _INT32.pack(len(partitions))
        for index, error_code, base_offset, append_time_ms, start_offset, message in partitions:
            if version >= 8:
                if message is None:
                    out += _ANSWER_8_PLAIN.pack(
                        index, error_code, base_offset, append_time_ms, start_offset, 0, -1
                    )
                    continue
                text = message.encode()
                out += _ANSWER_5.pack(index, error_code, base_offset, append_time_ms, start_offset)
                out += _classic_records(message) + _INT16.pack(len(text)) + text
            elif version >= 5:
                out += _ANSWER_5.pack(index, error_code, base_offset, append_time_ms, start_offset)
            else:
                out += _ANSWER_3.pack(index, error_code, base_offset, append_time_ms)
    out += _INT32.pack(throttle_time_ms)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
