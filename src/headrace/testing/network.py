"""A network in memory: the real sessions, fed with bytes in whatever pieces a test likes.

Owns: `SimulatedTransport`, the twin of `runtime.tcp.TcpConnection`. It splits frames as TCP does,
keeps back what a session does not want yet, and reads file regions when they are sent.
"""

import struct
from collections.abc import Sequence

from headrace.base.errors import ProtocolError
from headrace.base.limits import FRAME_BYTES_MAX
from headrace.base.network import Part, Session, SessionFactory
from headrace.base.storage import FileRegion

_SIZE = struct.Struct(">i")


class SimulatedTransport:
    """One connection: `feed` is what the peer sends, `take` what it receives."""

    def __init__(self, session_factory: SessionFactory, peer: str = "client:1") -> None:
        self.peer = peer
        self.close_reason: str | None = None
        self.sent = bytearray()
        self.send_count = 0
        self._waiting = bytearray()
        self._session: Session = session_factory(self)

    # The peer's side.

    def feed(self, data: bytes) -> None:
        """Bytes arrive by one read."""
        if self.close_reason is not None:
            return
        self._waiting += data
        self._consume()

    def take(self) -> list[bytes]:
        """The whole frames received since the last call, without their sizes."""
        frames: list[bytes] = []
        position = 0
        while len(self.sent) - position >= 4:
            (size,) = _SIZE.unpack_from(self.sent, position)
            if len(self.sent) - position - 4 < size:
                break
            frames.append(bytes(self.sent[position + 4 : position + 4 + size]))
            position += 4 + size
        del self.sent[:position]
        return frames

    # The session's side: base.network.Transport.

    def send(self, parts: Sequence[Part]) -> None:
        self.send_count += 1
        for part in parts:
            if isinstance(part, FileRegion):
                data = part.file.read(part.position, part.length)
                assert len(data) == part.length, "a region must not end before its length"
                self.sent += data
            else:
                self.sent += part

    def close(self, reason: str) -> None:
        if self.close_reason is None:
            self.close_reason = reason
            self._session.on_closed()

    def resume(self) -> None:
        self._consume()

    def _consume(self) -> None:
        # As on the real network a frame's bytes may be written to until the read ends.
        buffer, self._waiting = self._waiting, bytearray()
        view = memoryview(buffer)
        position = 0
        failure: str | None = None
        try:
            while len(view) - position >= 4 and self._session.ready:
                (size,) = _SIZE.unpack_from(view, position)
                if not 0 < size <= FRAME_BYTES_MAX:
                    raise ProtocolError(f"frame size {size}")
                if len(view) - position - 4 < size:
                    break
                self._session.on_frame(view[position + 4 : position + 4 + size])
                position += 4 + size
        except ProtocolError as error:
            failure = str(error)
        self._session.on_read_end()
        self._waiting = bytearray(view[position:]) + self._waiting
        if failure is not None:
            self.close(failure)
