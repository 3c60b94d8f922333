"""Fetch of one partition straight into a buffer that its owner uses again and again.

Owns: one connection to one leader, for large fetches: the response is received into memory that
the caller gives, and nothing of it is copied afterwards. A request can be sent before the answer
to the last one is looked at. Must not know: who leads, retries, records.

    answer = connection.fetch(target, buffer)     # send, wait, decode the response's head
    answer.records                                # a view of `buffer`

Invariant: a view in an answer is good until its buffer is received into again.
"""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from headrace.client.connection import RESPONSE_BYTES_MAX, Connection
from headrace.client.errors import raise_for
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

NAMED_TOPICS_VERSION_MAX = 12
"""From version 13 on topics are named by id."""

BUFFER_STEP_BYTES = 2 * 1024 * 1024

_SIZE = Struct(">i")


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """Where to read on, and how much at once."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    isolation_level: int = READ_COMMITTED
    bytes_max: int = 32 * 1024 * 1024
    wait_ms: int = 500


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One partition of a Fetch response."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of each aborted transaction."""
    records: memoryview


class ReceiveBuffer:
    """Memory for one response. It grows to what a response needs, and is kept.

    Memory that no byte was received into is reserved, not used: the system gives pages when they
    are written.
    """

    def __init__(self, size: int) -> None:
        self._memory = bytearray()
        self.reserve(size)

    @property
    def size(self) -> int:
        return len(self._memory)

    def reserve(self, size: int) -> None:
        if size > len(self._memory):
            # In steps, so that responses that grow by little do not each take new memory.
            self._memory = bytearray(-(-size // BUFFER_STEP_BYTES) * BUFFER_STEP_BYTES)

    def view(self, size: int) -> memoryview:
        return memoryview(self._memory)[:size]


class FetchConnection(Connection):
    """A connection that receives Fetch responses into given buffers."""

    def fetch(self, target: FetchTarget, buffer: ReceiveBuffer) -> RawAnswer:
        """One Fetch; `ServerError` if the request as a whole is refused."""
        version_max = None if any(target.topic_id) else NAMED_TOPICS_VERSION_MAX
        version = self.version_of(FetchRequest, 0, version_max)
        correlation_id = self._send(_request(target), version)
        frame = self._receive_into(buffer, self.timeout_ms + target.wait_ms)
        response = self._decode(FetchResponse, frame, version, correlation_id)
        raise_for(response.error_code, f"fetch from {self.address}")
        for partition in _partitions(response):
            if partition.partition_index == target.partition:
                return _answer(partition)
        raise self._broken(f"its answer leaves partition {target.partition} out")

    def interrupt(self) -> None:
        """From another thread: whoever waits here for an answer is told that it broke."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _receive_into(self, buffer: ReceiveBuffer, timeout_ms: int) -> memoryview:
        try:
            self._socket.settimeout(timeout_ms / 1000)
            head = bytearray(_SIZE.size)
            self._fill(memoryview(head))
            (size,) = _SIZE.unpack(head)
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                raise self._broken(f"it sent a frame of {size} bytes; is it a Kafka listener?")
            buffer.reserve(size)
            view = buffer.view(size)
            self._fill(view)
            return view
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise self._broken(reason) from error

    def _fill(self, view: memoryview) -> None:
        filled, size = 0, len(view)
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise self._broken("it closed the connection")
            filled += count


def _request(target: FetchTarget) -> FetchRequest:
    partition = FetchPartition(
        partition=target.partition,
        current_leader_epoch=target.leader_epoch,
        fetch_offset=target.offset,
        partition_max_bytes=target.bytes_max,
    )
    topic = FetchTopic(topic=target.topic, topic_id=target.topic_id, partitions=[partition])
    return FetchRequest(
        max_wait_ms=target.wait_ms,
        min_bytes=1,
        max_bytes=target.bytes_max,
        isolation_level=target.isolation_level,
        topics=[topic],
    )


def _partitions(response: FetchResponse) -> Iterator[PartitionData]:
    for topic in response.responses:
        yield from topic.partitions


def _answer(partition: PartitionData) -> RawAnswer:
    return RawAnswer(
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted=tuple(
            (each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()
        ),
        records=memoryview(partition.records or b""),
    )
