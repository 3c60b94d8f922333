"""The network as a seam: real in `runtime.tcp`, simulated in `testing.network`.

A `Session` is one peer's conversation, without sockets: frames in, parts out. A `Transport`
is what carries it. Both live on the loop's thread.

    bytes -> Transport splits frames -> Session.on_frame* -> Session.on_read_end
                                        Session -> Transport.send(parts)

Frames of one read are handed over together and ended by `on_read_end`, so that a session may
do their work at once (one write for many appends, one send for many answers).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.base.storage import FileRegion

Part = bytes | bytearray | FileRegion
"""What a response is made of: bytes, or a piece of a file that is sent without reading it."""


class Transport(Protocol):
    @property
    def peer(self) -> str:
        """`host:port` of the other side, for logs."""
        ...

    def send(self, parts: Sequence[Part]) -> None:
        """Queue parts in order and send what the peer takes now."""
        ...

    def close(self, reason: str) -> None:
        """Close at once; `Session.on_closed` follows. A second call does nothing."""
        ...

    def resume(self) -> None:
        """The session is ready again: hand over frames that were kept back."""
        ...


class Session(Protocol):
    @property
    def ready(self) -> bool:
        """False while the session wants no further frame (too many in flight)."""
        ...

    @property
    def busy(self) -> bool:
        """True while an answer is owed."""
        ...

    def on_frame(self, frame: memoryview) -> None:
        """One whole frame, without its size. Writable, valid until `on_read_end` returns.

        Raises ProtocolError to have the connection closed.
        """
        ...

    def on_read_end(self) -> None: ...

    def on_closed(self) -> None: ...


class PreambleSession(Session, Protocol):
    """A session whose connections open with bytes of fixed number, before the first frame."""

    @property
    def is_open(self) -> bool:
        """False until all that opens a connection has come."""
        ...

    def on_preamble(self, opening: bytes) -> None: ...


SessionFactory = Callable[[Transport], Session]
