"""One connection and its quotas: what it used is counted, it is told to wait, and is muted.

Owns: the throttle times of answers on their way, the mute of the connection.
Must not know: how rates are kept (`quotas`), what a request does.

A connection above a quota is answered as ever, with the time to wait in the answer, and nothing
more of it is read until that time has passed (KIP-219). What nodes send each other is not counted.
"""

import struct
from typing import TYPE_CHECKING, Any

from headrace.base.answers import OrderedAnswers, Slot
from headrace.base.network import Part
from headrace.base.promise import Promise
from headrace.base.storage import FileRegion
from headrace.broker.context import ANONYMOUS
from headrace.broker.quotas import ClientLimits

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

NODE_CLIENTS = "headrace-node-"
"""How client ids of nodes begin."""
USER = ANONYMOUS.removeprefix("User:")

_INT32 = struct.Struct(">i")
_PRODUCE_FLEXIBLE_SINCE = 9
_FETCH_FLEXIBLE_SINCE = 12


class Throttling:
    """Made for a connection when it first meets a quota."""

    __slots__ = ("_answers", "_broker", "_muted_until_ms", "_told", "client_id")

    def __init__(self, broker: "Broker", answers: OrderedAnswers) -> None:
        self._broker = broker
        self._answers = answers
        self._muted_until_ms = 0
        self._told: dict[Slot, tuple[int, int]] = {}
        """Of produces and fetches that are to be answered: version and throttle time."""
        self.client_id = ""

    @property
    def limits(self) -> ClientLimits | None:
        if self.client_id.startswith(NODE_CLIENTS):
            return None
        return self._broker.quotas.of(USER, self.client_id)

    def on_produced(
        self, byte_count: int, version: int, slot: Slot | None, handled_ms: int
    ) -> None:
        """`slot` is that of the answer, None if there will be none; `handled_ms` what the time
        of its handling costs already."""
        limits = self.limits
        if limits is None:
            return
        throttle_ms = limits.on_produced(byte_count, self._broker.clock.monotonic_ms())
        if throttle_ms > 0:
            self.mute(throttle_ms)
        throttle_ms = max(throttle_ms, handled_ms)
        if throttle_ms > 0 and slot is not None:
            self._told[slot] = (version, throttle_ms)

    def on_handled(self, took_ms: int) -> int:
        """The loop's time that a request took; how long to wait for it."""
        limits = self.limits
        if limits is None or not limits.times_requests:
            return 0
        throttle_ms = limits.on_requested(took_ms, self._broker.clock.monotonic_ms())
        if throttle_ms > 0:
            self.mute(throttle_ms)
        return throttle_ms

    def of_produce(
        self, slot: Slot, later: Promise[list[Part]] | None
    ) -> Promise[list[Part]] | None:
        """Put the throttle time into a produce's answer, which is ready or will be."""
        told = self._told.pop(slot, None)
        if told is None:
            return later
        version, throttle_ms = told
        if later is not None:
            return later.map(lambda parts: in_produce(parts, version, throttle_ms))
        assert slot.parts is not None
        slot.parts = in_produce(slot.parts, version, throttle_ms)
        return None

    def tell_fetch(self, slot: Slot, version: int, handled_ms: int) -> None:
        """What the handling of a fetch costs, in its answer that is ready or will be."""
        if slot.parts is None:
            self._told[slot] = (version, handled_ms)
        else:
            slot.parts = in_fetch(slot.parts, version, handled_ms)

    def of_fetch(self, slot: Slot, parts: list[Part], version: int) -> list[Part]:
        """Count a fetch's answer, and tell it how long to wait."""
        _, handled_ms = self._told.pop(slot, (version, 0))
        limits = self.limits
        if limits is None:
            return parts
        throttle_ms = limits.on_consumed(size_of(parts), self._broker.clock.monotonic_ms())
        if throttle_ms > 0:
            self.mute(throttle_ms)
        throttle_ms = max(throttle_ms, handled_ms)
        return in_fetch(parts, version, throttle_ms) if throttle_ms > 0 else parts

    def of_message(self, message: Any, throttle_ms: int) -> Any:
        """The same for any other answer; a handler may have set a time of its own."""
        record_bytes = getattr(message, "record_bytes", 0)
        if record_bytes and self.limits is not None:
            now_ms = self._broker.clock.monotonic_ms()
            consumed_ms = self.limits.on_consumed(record_bytes, now_ms)
            if consumed_ms > 0:
                self.mute(consumed_ms)
                throttle_ms = max(throttle_ms, consumed_ms)
        own_ms = getattr(message, "throttle_time_ms", None)
        if own_ms is not None:
            if own_ms > 0:
                self.mute(own_ms)
            if throttle_ms > own_ms:
                message.throttle_time_ms = throttle_ms
        return message

    def mute(self, throttle_ms: int) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        self._broker.quotas.note_throttled(throttle_ms)
        until_ms = now_ms + throttle_ms
        if until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        self._answers.mute()
        self._broker.timers.call_later(throttle_ms, self._maybe_unmute)

    def _maybe_unmute(self) -> None:
        if self._broker.clock.monotonic_ms() >= self._muted_until_ms:
            self._answers.unmute()


def size_of(parts: list[Part]) -> int:
    return sum(part.length if isinstance(part, FileRegion) else len(part) for part in parts)


def in_produce(parts: list[Part], version: int, throttle_ms: int) -> list[Part]:
    """The throttle time ends the answer, but for its tagged fields."""
    answer = bytearray(_bytes(parts[-1]))
    at = len(answer) - (5 if version >= _PRODUCE_FLEXIBLE_SINCE else 4)
    _INT32.pack_into(answer, at, throttle_ms)
    return [*parts[:-1], bytes(answer)]


def in_fetch(parts: list[Part], version: int, throttle_ms: int) -> list[Part]:
    """The throttle time stands behind the header: size, correlation id, perhaps tagged fields.

    One that is there and longer stays.
    """
    answer = bytearray(_bytes(parts[0]))
    at = 9 if version >= _FETCH_FLEXIBLE_SINCE else 8
    (present_ms,) = _INT32.unpack_from(answer, at)
    _INT32.pack_into(answer, at, max(present_ms, throttle_ms))
    return [bytes(answer), *parts[1:]]


def _bytes(part: Part) -> bytes | bytearray:
    assert not isinstance(part, FileRegion)
    return part
