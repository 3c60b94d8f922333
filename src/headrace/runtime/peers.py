"""Requests to other nodes: connections that are opened when needed and given up when silent.

Owns: sockets to peers, correlation ids, the request time-out, the rest after a failed connect.
Must not know: what is asked (any Kafka request in its newest version), who leads.
It is `quorum.peers.Peers` over real sockets.

One connection per peer and lane. A server answers a connection's requests in order, so what may
wait long (a fetch, a forwarded change) must not stand before what is urgent (votes, heartbeats):
`_LANES` tells which request goes where.

Invariants:
- `on_answer` is called exactly once for every `send`, never from inside it;
- a request ends within its time-out, whatever the peer does. A peer that let one pass loses the
  connection: what stands behind it would be late as well;
- a refused connection is told at once; the next attempt comes after a rest that doubles from
  `RECONNECT_MS_MIN` to `RECONNECT_MS_MAX`, and what is sent meanwhile fails at once;
- at most `IN_FLIGHT_REQUESTS_MAX` requests are open on a connection, more fail at once.
"""

import asyncio
import contextlib
import os
import struct
from collections.abc import Callable, Iterator
from typing import cast

from headrace.base.clock import Clock
from headrace.base.errors import ProtocolError
from headrace.base.events import EventLog
from headrace.base.limits import FRAME_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.served import response_class_of

Address = tuple[str, int]
OnAnswer = Callable[[Message | None, bool], None]

RECONNECT_MS_MIN = 20
RECONNECT_MS_MAX = 320
CONNECT_TIMEOUT_MS = 1_000

SCRATCH_BYTES = 64 * 1024
SPARE_BYTES_MAX = 16 * 1024 * 1024
"""A response buffer that a connection keeps between two answers."""

_SIZE = struct.Struct(">i")
_FETCH, _VOTE, _LIFE, _FORWARD = "fetch", "vote", "life", "forward"
_LANES = {
    1: _FETCH,
    59: _FETCH,
    52: _VOTE,
    53: _VOTE,
    54: _VOTE,
    62: _LIFE,
    63: _LIFE,
    70: _LIFE,
}


class PeerConnections:
    """`resolve` tells where a node id is reached, None where nobody knows (yet)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        resolve: Callable[[int], Address | None],
        log: EventLog,
        *,
        client_id: str,
        request_timeout_ms: int,
        forward_timeout_ms: int | None = None,
    ) -> None:
        """`request_timeout_ms` is the quorum's; a forwarded change may need longer to commit."""
        self._loop = loop
        self._clock = clock
        self._resolve = resolve
        self._log = log
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._forward_timeout_ms = forward_timeout_ms or request_timeout_ms
        self._connections: dict[tuple[Address, str], _PeerConnection] = {}
        self._closed = False

    def send(
        self,
        target_id: int,
        request: Message,
        on_answer: OnAnswer,
    ) -> None:
        address = None if self._closed else self._resolve(target_id)
        if address is None:
            self._loop.call_soon(on_answer, None, False)
            return
        lane = _LANES.get(request.API_KEY, _FORWARD)
        connection = self._connections.get((address, lane))
        if connection is None:
            connection = _PeerConnection(self._loop, self._clock, address, self._log)
            self._connections[address, lane] = connection
        in_quorum = lane in (_FETCH, _VOTE)
        timeout_ms = self._request_timeout_ms if in_quorum else self._forward_timeout_ms
        connection.send(request, self._client_id, timeout_ms, on_answer)

    @property
    def in_flight(self) -> int:
        return sum(connection.in_flight for connection in self._connections.values())

    def failing(self) -> dict[str, str]:
        """Addresses that could not be reached at the last attempt, and why."""
        return {
            f"{host}:{port}": connection.failure
            for ((host, port), _), connection in self._connections.items()
            if connection.failure
        }

    def close(self) -> None:
        """Every open request ends without an answer; nothing is sent any more."""
        self._closed = True
        for connection in self._connections.values():
            connection.close("stopping")
        self._connections.clear()


class _Pending:
    __slots__ = ("on_answer", "response_class", "timer", "version")

    def __init__(self, request: Message, on_answer: OnAnswer) -> None:
        self.on_answer = on_answer
        self.response_class = response_class_of(type(request))
        self.version = request.VERSIONS[1]
        self.timer: asyncio.TimerHandle | None = None


class ResponseFrames:
    """Cuts what a peer sends into frames, without copying those that matter.

        scratch   the beginning of a frame, and small frames whole: copied, they are small
        large     a buffer of its own for a frame that is not in the scratch yet: the rest of it is
                  received right behind its beginning, and handed out as it is

    Messages keep views of what they were read from (a follower writes records from there). A large
    buffer is used again only if nobody has a view of it any more.
    """

    __slots__ = ("_end", "_frame_bytes", "_large", "_scratch", "_spare")

    def __init__(self) -> None:
        self._scratch = bytearray(SCRATCH_BYTES)
        self._large: bytearray | None = None
        self._spare: bytearray | None = None
        self._frame_bytes = 0
        """Of the frame in the large buffer, with its size."""
        self._end = 0
        """Of what was received, in the large buffer or else in the scratch."""

    def clear(self) -> None:
        self._large = None
        self._end = 0

    def room(self) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._end : self._frame_bytes]
        return memoryview(self._scratch)[self._end :]

    def received(self, byte_count: int) -> Iterator[bytes | memoryview]:
        """Whole frames, without their sizes. Raises ProtocolError for one that can't be."""
        self._end += byte_count
        large = self._large
        if large is None:
            yield from self._cut_scratch()
        elif self._end == self._frame_bytes:
            self._large, self._end = None, 0
            yield memoryview(large)[4 : self._frame_bytes]
            self._maybe_keep(large)

    def _cut_scratch(self) -> Iterator[bytes]:
        scratch, start = self._scratch, 0
        while self._end - start >= 4:
            (size,) = _SIZE.unpack_from(scratch, start)
            if not 4 <= size <= FRAME_BYTES_MAX:
                raise ProtocolError(f"a response of {size} bytes")
            stop = start + 4 + size
            if stop > self._end:
                break
            yield bytes(memoryview(scratch)[start + 4 : stop])
            start = stop
        begun = self._end - start
        if begun >= 4 and 4 + size > SCRATCH_BYTES // 2:
            large = self._take(4 + size)
            large[:begun] = memoryview(scratch)[start : self._end]
            self._large, self._frame_bytes = large, 4 + size
        elif start:
            scratch[:begun] = scratch[start : self._end]
        self._end = begun

    def _take(self, byte_count: int) -> bytearray:
        spare, self._spare = self._spare, None
        if spare is not None and len(spare) >= byte_count:
            try:
                spare.append(0)  # refused as long as somebody has a view of it
            except BufferError:
                return bytearray(byte_count)
            spare.pop()
            return spare
        return bytearray(byte_count)

    def _maybe_keep(self, buffer: bytearray) -> None:
        if len(self._spare or b"") < len(buffer) <= SPARE_BYTES_MAX:
            self._spare = buffer


class _PeerConnection(asyncio.BufferedProtocol):
    """idle --send--> connecting --made--> open --lost--> idle (resting, if it never opened)"""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, address: Address, log: EventLog
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._address = address
        self._log = log
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        self._pending: dict[int, _Pending] = {}
        self._correlation_id = 0
        self._frames = ResponseFrames()
        self._rest_ms = 0
        self._rest_until_ms = 0
        self._was_refused = False
        self.failure = ""

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    # -- sending -----------------------------------------------------------------------

    def send(self, request: Message, client_id: str, timeout_ms: int, on_answer: OnAnswer) -> None:
        if len(self._pending) >= IN_FLIGHT_REQUESTS_MAX:
            self._loop.call_soon(on_answer, None, False)
            return
        if self._transport is not None and self._transport.is_closing():
            # It was lost, and uvloop tells a turn later; a write to it would be taken for a bug.
            self.close("closed by the peer")
        if self._transport is None and self._clock.monotonic_ms() < self._rest_until_ms:
            self._loop.call_soon(on_answer, None, self._was_refused)
            return
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        correlation_id = self._correlation_id
        pending = _Pending(request, on_answer)
        frame = encode_request(request, pending.version, correlation_id, client_id)
        pending.timer = self._loop.call_later(timeout_ms / 1000, self._on_timeout, correlation_id)
        self._pending[correlation_id] = pending
        if self._transport is not None:
            self._write(self._transport, frame)
            return
        self._unsent.append(frame)
        if self._connecting is None:
            self._connecting = self._loop.create_task(
                self._connect(), name=f"connect {self._address[0]}:{self._address[1]}"
            )

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        """uvloop closes a transport without a word when its connecting is given up in the moment in
        which it succeeds; to write to it is an error then, and not one of ours."""
        try:
            transport.write(data)
        except RuntimeError:
            self.close("closed while it was opened")

    async def _connect(self) -> None:
        host, port = self._address
        refused = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                await self._loop.create_connection(lambda: self, host, port)
            return
        except TimeoutError:
            reason = "no answer to the connection attempt"
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            reason = os.strerror(error.errno) if error.errno else str(error)
        finally:
            self._connecting = None
        self._transport = None  # made in the last moment, and closed with the attempt
        self._on_unreachable(reason, refused=refused)

    def _on_unreachable(self, reason: str, *, refused: bool) -> None:
        self._rest_ms = min(max(2 * self._rest_ms, RECONNECT_MS_MIN), RECONNECT_MS_MAX)
        self._rest_until_ms = self._clock.monotonic_ms() + self._rest_ms
        self._was_refused = refused
        self._fail_all(reason, refused=refused)

    # -- what asyncio tells ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by behaviour, not by class.
        self._transport = cast(asyncio.Transport, transport)
        self._frames.clear()
        self._rest_ms = 0
        self._was_refused = False
        self.failure = ""
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._write(self._transport, b"".join(unsent))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._on_frame(frame)
        except ProtocolError as error:
            self.close(str(error))

    def _on_frame(self, frame: bytes | memoryview) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            raise ProtocolError(f"an answer to request {correlation_id}, which is not open")
        assert pending.timer is not None
        pending.timer.cancel()
        try:
            _, response = decode_response(pending.response_class, frame, pending.version)
        except ProtocolError:
            self._loop.call_soon(pending.on_answer, None, False)
            raise
        pending.on_answer(response, False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail_all(str(exc) if exc else "closed by the peer", refused=False)

    # -- ending ------------------------------------------------------------------------

    def _on_timeout(self, correlation_id: int) -> None:
        if correlation_id in self._pending:
            self.close("no answer in time")

    def close(self, reason: str) -> None:
        """Fail what is open; the next `send` opens a new connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            with contextlib.suppress(RuntimeError):  # closed already
                transport.set_protocol(_Deaf())
                transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._fail_all(reason, refused=False)

    def _fail_all(self, reason: str, *, refused: bool) -> None:
        if reason != self.failure:
            self._log.debug(
                "peer_lost", peer=f"{self._address[0]}:{self._address[1]}", reason=reason
            )
        self.failure = reason
        self._unsent.clear()
        pending, self._pending = self._pending, {}
        for each in pending.values():
            assert each.timer is not None
            each.timer.cancel()
            self._loop.call_soon(each.on_answer, None, refused)


class _Deaf(asyncio.Protocol):
    """For a transport that was given up: what still comes is nobody's."""
