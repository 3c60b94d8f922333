"""Answers in the order of their requests: what every server's session is made on.

Owns: the places of answers on one connection, when they leave, how many may be owed.
Must not know: what a request is, or who answers it.

A request takes a slot as it comes. An answer that is ready early waits for those before it; the
ready ones at the head of the queue leave together, at the end of the read that brought them or
when the last of them is settled.

Invariants: answers leave in the order of their slots; nothing is sent inside a read, nor after
the connection is closed.
"""

from collections import deque

from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.network import Part, Transport
from headrace.base.promise import Promise


class Slot:
    """The place of one answer. `parts` is None until it is ready."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class OrderedAnswers:
    """The half of a `Session` that looks at answers; a subclass looks at requests."""

    __slots__ = ("_closed", "_in_flight_max", "_in_read", "_slots", "_transport", "_was_full")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._slots: deque[Slot] = deque()
        self._in_read = False
        self._was_full = False
        self._closed = False
        self._in_flight_max = IN_FLIGHT_REQUESTS_MAX
        """0 while the peer is muted: nothing of it is looked at."""

    @property
    def ready(self) -> bool:
        if len(self._slots) < self._in_flight_max:
            return True
        self._was_full = True
        return False

    @property
    def busy(self) -> bool:
        return bool(self._slots)

    def on_unexpected(self, error: BaseException) -> None:
        """An answer failed with something that is no answer; the connection is closed next."""
        raise NotImplementedError

    def _answer_later(self, slot: Slot, parts: Promise[list[Part]]) -> None:
        def on_settled(settled: Promise[list[Part]]) -> None:
            if settled.error is not None:
                self.on_unexpected(settled.error)
                self._transport.close(f"internal error: {settled.error!r}")
                return
            slot.parts = settled.value()
            self._send_ready()

        parts.then(on_settled)

    def _send_ready(self) -> None:
        """Send the answers at the head of the queue that are ready, all at once."""
        if self._in_read or self._closed:
            return
        slots = self._slots
        parts: list[Part] = []
        while slots and slots[0].parts is not None:
            parts += slots.popleft().parts  # type: ignore[arg-type]
        if parts:
            self._transport.send(parts)
        if self._was_full and len(slots) < IN_FLIGHT_REQUESTS_MAX // 2:
            self._was_full = False
            self._transport.resume()

    def mute(self) -> None:
        self._in_flight_max = 0

    def unmute(self) -> None:
        self._in_flight_max = IN_FLIGHT_REQUESTS_MAX
        if not self._closed:
            self._transport.resume()

    def on_closed(self) -> None:
        self._closed = True
        self._slots.clear()
