"""Receive buffers: a few large ones shared by all connections, and a budget for the rest.

Most reads end on a frame's end, so one hot buffer serves thousands of connections: it is
taken for a read and given back after it. Only a connection in the middle of a large frame
keeps one. Small or slow partial frames move to a private buffer that grows with the bytes
that really came, never with the size that a peer claims.
"""

import mmap

from headrace.base.limits import (
    PRIVATE_BUFFER_BYTES_MIN,
    RECEIVE_BUFFER_BYTES,
    REQUEST_BUFFERS_BYTES_MAX,
)


class BufferPool:
    """Large receive buffers, last in first out, and the account of private ones."""

    __slots__ = ("_free", "private_bytes")

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self.private_bytes = 0

    def take(self) -> memoryview:
        if self._free:
            return self._free.pop()
        # An anonymous mapping: its pages cost memory only once they are touched.
        return memoryview(mmap.mmap(-1, RECEIVE_BUFFER_BYTES))

    def give(self, buffer: memoryview) -> None:
        if len(self._free) < 4:
            self._free.append(buffer)

    def may_reserve(self, byte_count: int) -> bool:
        return self.private_bytes + byte_count <= REQUEST_BUFFERS_BYTES_MAX

    def private(self, byte_count: int) -> memoryview:
        self.private_bytes += byte_count
        return memoryview(bytearray(byte_count))

    def release_private(self, buffer: memoryview) -> None:
        self.private_bytes -= len(buffer)


def private_size(frame_bytes: int, received_bytes: int) -> int:
    """How large a private buffer for a frame should be, given what has come of it."""
    return min(frame_bytes, max(PRIVATE_BUFFER_BYTES_MIN, 2 * received_bytes))
