"""One socket of the data transfer and its handler: bytes in, parts out.

Owns: the receive buffer, the send queue, how a stream ends.
Must not know: who accepted or connected the socket (`runtime.transfer`), what the bytes mean.

Reading is `recv_into` a large shared buffer; what the handler leaves is kept aside if it is
little, in the buffer if it is much. Bytes that are foreseen go where a `Lander` says instead, and
are read when many are there (`read_mark`).
Sending is tried at once; what the socket does not take is queued (views are copied then) and file
regions go by `os.sendfile`.

Invariants: parts leave in order; `on_closed` comes exactly once; a paused stream reads nothing.
"""

import asyncio
import errno
import itertools
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.base.events import EventLog
from headrace.base.limits import SENDFILE_BYTES_MIN
from headrace.base.storage import FileRegion
from headrace.datanode.streams import Lander, Part, Spread, StreamHandler
from headrace.runtime.buffers import BufferPool
from headrace.runtime.read_mark import ReadMark
from headrace.runtime.tcp import FilePart
from headrace.wire.hadoop.packets import PACKET_BYTES_MAX

SWEEP_INTERVAL_S: Final = 1.0
_KEPT_ASIDE_BYTES_MAX: Final = 64 * 1024
_VIEW_BYTES_MAX: Final = PACKET_BYTES_MAX + 64 * 1024
_PARTS_PER_CALL: Final = 256
_SENDFILE_BYTES_PER_CALL: Final = 4 * 1024 * 1024


def _native_receive() -> Callable[[int, bytearray, int, memoryview, int, int], int] | None:
    """None: not compiled."""
    try:
        from headrace.runtime import spread_read
    except ImportError:
        return None
    return spread_read.receive


_receive_natively: Final = _native_receive()


class StreamOwner(Protocol):
    """What a stream needs of its port: the loop, buffers, the time, counters."""

    loop: asyncio.AbstractEventLoop
    log: EventLog
    pool: BufferPool
    pooled_bytes: int
    tick: int
    bytes_received: int
    bytes_sent: int
    protocol_errors: int
    handler_failures: int
    streams: "set[TransferStream]"

    def forget(self, stream: "TransferStream", reason: str) -> None: ...


class TransferStream:
    """One socket and its handler."""

    __slots__ = (
        "_after_sending",
        "_closed",
        "_end",
        "_ended",
        "_fd",
        "_handler",
        "_is_unshown",
        "_lander",
        "_loop",
        "_mark",
        "_out",
        "_paused",
        "_port",
        "_reading",
        "_rest",
        "_socket",
        "_start",
        "_view",
        "_writing",
        "active_tick",
        "peer",
    )

    def __init__(
        self, port: StreamOwner, sock: socket.socket, peer: str, handler: StreamHandler
    ) -> None:
        self._port = port
        self._loop = port.loop
        self._socket = sock
        self._fd = sock.fileno()
        self._handler = handler
        self._lander: Lander | None = None
        self._mark = ReadMark(port.loop, sock)
        self.peer = peer
        self._view: memoryview | None = None
        self._start = self._end = 0
        self._rest = b""
        self._is_unshown = False
        """What is here is to be shown before anything is read behind it."""
        self._out: deque[bytes | bytearray | memoryview | FilePart] = deque()
        self._reading = False
        self._writing = False
        self._paused = False
        self._closed = False
        self._ended = False
        self._after_sending: str | None = None
        self.active_tick = port.tick

    def begin(self) -> None:
        self._guarded(lambda: self._handler.on_connected(self))
        if not self._closed and not self._paused:
            self._start_reading()

    @property
    def backlogged(self) -> bool:
        return bool(self._out)

    @property
    def closed(self) -> bool:
        return self._closed or self._after_sending is not None

    # -- receiving ---------------------------------------------------------------------

    def _start_reading(self) -> None:
        if not self._reading and not self._closed and not self._ended:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def pause(self) -> None:
        """The reader stays until something comes: most pauses are over before."""
        self._paused = True
        self._mark.on_pause()

    def resume(self) -> None:
        self._paused = False
        self._mark.on_resume()
        if self._closed:
            return
        if self._rest or self._view is not None:
            # Bytes are here already: show them again before more is read.
            self._is_unshown = True
            self._loop.call_soon(self._show_again)
        else:
            self._start_reading()

    def _show_again(self) -> None:
        if self._closed or self._paused or not self._is_unshown:
            return
        self._is_unshown = False
        self._take_buffer()
        self._hand_over()
        if not self._closed and not self._paused:
            self._start_reading()

    def _take_buffer(self) -> memoryview:
        view = self._view
        if view is None:
            view = self._view = self._port.pool.take()
            rest = self._rest
            self._start, self._end = 0, len(rest)
            if rest:
                view[: len(rest)] = rest
                self._rest = b""
        return view

    def land(self, lander: Lander) -> None:
        self._lander = lander

    def _on_readable(self) -> None:
        lander = self._lander
        if self._paused:
            self._stop_reading()
        elif self._is_unshown:
            # 1. a writer's last packet waits here; 2. it closes its half; 3. the stream goes on,
            # and the loop looks at the socket first: the end must not be told before the packet.
            self._show_again()
        elif lander is not None:
            self._guarded(lambda: self._land(lander))
        else:
            self._read()

    def _read(self) -> None:
        view = self._take_buffer()
        end = self._end
        count = self._receive(lambda: self._socket.recv_into(view[end:]))
        if count:
            self._end += count
            self._hand_over()
        elif not self._closed and not self._ended:
            self._settle_buffer()

    def _receive_spread(self, spread: Spread) -> int:
        if _receive_natively is None:
            return self._socket.recvmsg_into(spread.views())[0]
        return _receive_natively(
            self._fd,
            spread.slots,
            spread.slot_bytes,
            spread.pieces,
            spread.piece_bytes,
            spread.filled,
        )

    def _receive(self, receive: Callable[[], int]) -> int:
        """How many bytes came; none also at the end, and after a failure, which are seen to."""
        try:
            count = receive()
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._shut(error.strerror or "receive failed")
            return 0
        if count == 0:
            self._on_end()
            return 0
        self._port.bytes_received += count
        self.active_tick = self._port.tick
        return count

    def _land(self, lander: Lander) -> None:
        """A read to where the lander wants it; what is here already goes there as well."""
        view = self._view
        first = memoryview(self._rest) if view is None else view[self._start : self._end]
        spread = lander.landing(first) if self._after_sending is None else None
        if spread is None:
            self._stop_landing()
            self._read()
            return
        self._rest = b""
        self._release_buffer()
        count = self._receive(lambda: self._receive_spread(spread))
        if not count:
            return
        self._mark.on_read(count)
        rest = lander.on_landed(count)
        if rest and not self._closed:
            self._stop_landing()
            self._rest = rest
            self._is_unshown = True
            self._show_again()

    def _stop_landing(self) -> None:
        self._lander = None
        self._mark.lower()

    def _on_end(self) -> None:
        """The peer has closed its half: it may still want what we have to say."""
        self._stop_reading()
        self._ended = True
        goes_on = self._after_sending is not None and bool(self._out)

        def ask() -> None:
            nonlocal goes_on
            goes_on = self._handler.on_end()

        if self._after_sending is None:
            self._guarded(ask)
        if not goes_on:
            self._shut("closed by peer")
        elif not self._closed and self._view is not None:
            self._settle_buffer()

    def _hand_over(self) -> None:
        view = self._view
        assert view is not None
        if self._after_sending is not None:
            self._start = self._end  # nobody listens any more
        else:
            start = self._start
            try:
                self._start = start + self._handler.on_data(view[start : self._end])
            except Exception as error:
                self._on_failure(error)
        if not self._closed:
            self._settle_buffer()

    def _settle_buffer(self) -> None:
        """Keep, move or give back the receive buffer."""
        view, start, end = self._view, self._start, self._end
        assert view is not None
        left = end - start
        if left <= _KEPT_ASIDE_BYTES_MAX and self._handler.wanted_bytes <= len(view):
            self._rest = bytes(view[start:end])
            self._release_buffer()
            return
        wanted = max(self._handler.wanted_bytes, left + 1)
        if wanted > _VIEW_BYTES_MAX:
            if not self._paused:
                self._shut(f"{left} bytes and still no whole message")
            return
        if wanted > len(view):
            larger = memoryview(bytearray(wanted + _KEPT_ASIDE_BYTES_MAX))
            larger[:left] = view[start:end]
            self._release_buffer()
            self._view, self._start, self._end = larger, 0, left
        elif start:
            view[:left] = view[start:end]
            self._start, self._end = 0, left

    def _release_buffer(self) -> None:
        view, self._view = self._view, None
        if view is not None and len(view) == self._port.pooled_bytes:
            self._port.pool.give(view)

    # -- sending -----------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        out = self._out
        waiting = bool(out)
        for part in parts:
            if isinstance(part, FileRegion):
                out.append(self._queued(part))
            else:
                out.append(part)
        if not waiting:
            self._flush()
        if out:
            # A view is valid only now: what is left of it is copied.
            for index, left in enumerate(out):
                if isinstance(left, memoryview):
                    out[index] = bytes(left)

    @staticmethod
    def _queued(region: FileRegion) -> "bytes | FilePart":
        if region.length >= SENDFILE_BYTES_MIN:
            return FilePart(region)
        try:
            return region.file.read(region.position, region.length)
        except HeadraceError:
            return FilePart(region)  # fails again, where it costs the stream and no more

    def _flush(self) -> None:
        try:
            drained = self._send_queued()
        except OSError as error:
            self._shut(error.strerror or "send failed")
            return
        if drained:
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self._fd)
            if self._after_sending is not None:
                self._shut(self._after_sending)
        elif not self._writing and not self._closed:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        self._flush()
        if not self._closed and not self._out and self._after_sending is None:
            self._guarded(self._handler.on_drained)

    def _send_queued(self) -> bool:
        out, port = self._out, self._port
        while out:
            part = out[0]
            if isinstance(part, FilePart):
                count = min(part.remaining, _SENDFILE_BYTES_PER_CALL)
                try:
                    sent = os.sendfile(self._fd, part.file.fileno(), part.position, count)
                except (BlockingIOError, InterruptedError):
                    return False
                if sent == 0:
                    raise OSError(errno.EIO, f"{part.file.path} ended before the packet did")
                part.position += sent
                part.remaining -= sent
                if part.remaining == 0:
                    out.popleft()
                elif sent < count:
                    port.bytes_sent += sent
                    self.active_tick = port.tick
                    return False  # no room: to be told so would cost a call and an exception
            else:
                try:
                    sent = self._send_bytes(part)
                except (BlockingIOError, InterruptedError):
                    return False
                if not self._pop_sent(sent):
                    port.bytes_sent += sent
                    self.active_tick = port.tick
                    return False
            port.bytes_sent += sent
            self.active_tick = port.tick
        return True

    def _send_bytes(self, first: bytes | bytearray | memoryview) -> int:
        """Those at the front of the queue, up to the next piece of a file."""
        out = self._out
        if len(out) == 1 or isinstance(out[1], FilePart):
            return self._socket.send(first, socket.MSG_MORE if len(out) > 1 else 0)
        parts = []
        for part in itertools.islice(out, _PARTS_PER_CALL):
            if isinstance(part, FilePart):
                break
            parts.append(part)
        return self._socket.sendmsg(parts, (), socket.MSG_MORE if len(parts) < len(out) else 0)

    def _pop_sent(self, sent: int) -> bool:
        """So many bytes have left; False if they ended within a part."""
        out = self._out
        while out and not isinstance(part := out[0], FilePart):
            if sent < len(part):
                if sent:
                    out[0] = memoryview(part)[sent:]
                return not sent
            sent -= len(part)
            out.popleft()
        return True

    # -- ending ------------------------------------------------------------------------

    def close(self, reason: str, *, after_sending: bool = False) -> None:
        if self._closed or (self._after_sending is not None and after_sending):
            return
        if after_sending and self._out:
            self._after_sending = reason
            if self._paused:
                self._paused = False
                self._start_reading()  # to see the peer's end
            return
        self._shut(reason)

    def _shut(self, reason: str) -> None:
        if not self._closed:
            self.fall_silent()
            self.tell_closed(reason)

    def fall_silent(self) -> None:
        """Close the socket and tell nobody yet."""
        if self._closed:
            return
        self._closed = True
        self._stop_reading()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._out.clear()
        self._rest = b""
        self._lander = None
        self._mark.forget()
        if self._view is not None:
            # A view may still be looked at further up the stack: given back when that is done.
            self._loop.call_soon(self._release_buffer)
        self._end_politely()

    def tell_closed(self, reason: str) -> None:
        if self in self._port.streams:
            self._port.forget(self, reason)
            self._handler.on_closed(reason)

    def _end_politely(self) -> None:
        """Unread bytes would turn the close into a reset, and the peer lose our last words."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            for _ in range(64):
                if not self._socket.recv(256 * 1024):
                    break
        except OSError:
            pass
        self._socket.close()

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._on_failure(error)

    def _on_failure(self, error: Exception) -> None:
        """The peer's fault or the handler's: it costs the stream and no more."""
        if isinstance(error, ProtocolError):
            self._port.protocol_errors += 1
            self._port.log.warning("protocol_error", peer=self.peer, error=error)
            self._shut(str(error))
        else:
            self._port.handler_failures += 1
            self._port.log.error("handler_failed", peer=self.peer, error=repr(error))
            self._shut(f"internal error: {error!r}")

    def sweep(self, tick: int) -> None:
        still_ms = (tick - self.active_tick) * SWEEP_INTERVAL_S * 1000
        if still_ms > self._handler.idle_timeout_ms:
            self._shut("idle")
