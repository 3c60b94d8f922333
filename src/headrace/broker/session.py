"""One client's conversation with the broker: requests in, answers out in the same order.

Owns: the requests of this connection, and what waits on it; the order of answers is
`base.answers`.
Must not know: sockets (the Transport's), what a request does (the handlers').

Requests are handled as they come; an answer that is ready early waits for those before it.
Produce and Fetch are parsed and encoded by hand, everything else by the codec. The produces
of one read are staged one by one and committed together before any of them is answered.

    frame ─ header ─┬─ Produce ─ stage ───────────┐ on_read_end: commit, finish
                    ├─ Fetch ── read or wait ─────┤
                    └─ other ── handler, promise ─┴─ slots, in order ─ Transport.send
"""

import struct
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.base.answers import OrderedAnswers, Slot
from headrace.base.errors import ProtocolError
from headrace.base.network import Part, Transport
from headrace.base.promise import Promise
from headrace.broker.api.k00_produce import PendingProduce, PendingShaped
from headrace.broker.api.k01_fetch import Fetch
from headrace.broker.api.registry import BY_KEY, SERVED, endpoint
from headrace.broker.context import RequestContext
from headrace.broker.throttling import Throttling
from headrace.wire.kafka.codec import decode
from headrace.wire.kafka.frames import decode_request_header, encode_response
from headrace.wire.kafka.hot import ProduceFrame, parse_fetch, parse_produce
from headrace.wire.kafka.produce_shape import SHAPE_STARTS_AT, ProduceShape, shape_of

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_START = struct.Struct(">hhih")
"""api_key, api_version, correlation_id, length of client_id"""

_PRODUCE = 0
_FETCH = 1
_API_VERSIONS = 18
_PRODUCE_FLEXIBLE_SINCE = 9
_FETCH_FLEXIBLE_SINCE = 12
_ACKS = (-1, 0, 1)
_SHAPES_MAX = 64
"""A producer's partitions whose requests are recognised; more are parsed each time."""

_connection_ids = count(1)


class KafkaSession(OrderedAnswers):
    __slots__ = (
        "_broker",
        "_connection_id",
        "_fetches",
        "_is_limited",
        "_limited_since_ms",
        "_listener_name",
        "_now_ms",
        "_produces",
        "_shape_ends_at",
        "_shapes",
        "_software",
        "_throttling",
    )

    def __init__(self, broker: "Broker", transport: Transport, listener_name: str) -> None:
        super().__init__(transport)
        self._broker = broker
        self._connection_id = next(_connection_ids)
        self._listener_name = listener_name
        self._produces: list[PendingProduce | PendingShaped] = []
        self._shapes: dict[bytes, ProduceShape] = {}
        self._shape_ends_at = 0
        self._now_ms = 0
        self._fetches: set[Fetch] = set()
        self._software = ("", "")
        self._is_limited = False
        self._limited_since_ms = 0
        self._throttling: Throttling | None = None
        """From the first request on that comes while quotas are set."""
        if broker.quotas.has_addresses:
            self._on_connected()

    # -- requests ----------------------------------------------------------------------

    def on_frame(self, frame: memoryview) -> None:
        self._in_read = True
        if len(frame) < 10:
            raise ProtocolError(f"{len(frame)} bytes are too few for a request header")
        key, version, correlation_id, client_id_length = _START.unpack_from(frame)
        if self._broker.quotas.is_set and not self._is_limited:
            self._on_limited_frame(frame, key, version, client_id_length)
            return
        if key == _PRODUCE and self._on_shaped_produce(frame, version, correlation_id):
            return
        served = SERVED.get(key)
        if served is None:
            raise ProtocolError(f"api key {key} is not served")
        self._broker.metrics.requests[key] += 1
        if not served[0] <= version <= served[1]:
            if key != _API_VERSIONS:
                raise ProtocolError(f"{BY_KEY[key].name} v{version} is not served")
            self._on_unknown_api_versions(correlation_id)
        elif key == _PRODUCE:
            position = _body(frame, client_id_length, version >= _PRODUCE_FLEXIBLE_SINCE)
            self._on_produce(frame, position, version, correlation_id)
        elif key == _FETCH:
            position = _body(frame, client_id_length, version >= _FETCH_FLEXIBLE_SINCE)
            self._on_fetch(frame, position, version, correlation_id)
        else:
            self._on_other(frame)

    def _on_limited_frame(
        self, frame: memoryview, key: int, version: int, client_id_length: int
    ) -> None:
        """The same for a client that may have quotas: what it uses is counted."""
        throttling = self._throttling
        if throttling is None:
            throttling = self._throttling = Throttling(self._broker, self)
        end = _START.size + max(client_id_length, 0)
        throttling.client_id = bytes(frame[_START.size : end]).decode("utf-8", "replace")
        clock = self._broker.clock
        started_ms = self._limited_since_ms = clock.monotonic_ms()
        slot_count = len(self._slots)
        self._is_limited = True
        try:
            self.on_frame(frame)
        finally:
            self._is_limited = False
        if key in (_PRODUCE, _FETCH):
            # Nothing leaves inside a read: the answer, if there will be one, has the last slot.
            slot = self._slots[-1] if len(self._slots) > slot_count else None
            handled_ms = throttling.on_handled(clock.monotonic_ms() - started_ms)
            if key == _PRODUCE:
                throttling.on_produced(len(frame), version, slot, handled_ms)
            elif handled_ms > 0 and slot is not None:
                throttling.tell_fetch(slot, version, handled_ms)

    def _on_connected(self) -> None:
        """`connection_creation_rate`: a connection too many is let in, and not heard at first."""
        broker = self._broker
        address = self._transport.peer.rpartition(":")[0].strip("[]")
        throttle_ms = broker.quotas.on_connected(address, broker.clock.monotonic_ms())
        if throttle_ms > 0:
            self._throttling = Throttling(broker, self)
            self._throttling.mute(throttle_ms)

    def on_read_end(self) -> None:
        self._in_read = False
        self._now_ms = 0
        if self._produces or self._broker.staged:
            # Staged without a pending produce: its request met a bug half-way. Its bytes are
            # checked and lie in a buffer that is used again from here on: now or never.
            self._finish_produces()
        self._send_ready()

    def _on_produce(
        self, frame: memoryview, position: int, version: int, correlation_id: int
    ) -> None:
        broker = self._broker
        produce = parse_produce(frame, position, version)
        if produce.transactional_id is not None:
            self._on_transactional(produce, version, correlation_id)
            return
        pending = PendingProduce(produce, version, correlation_id)
        pending.stage(broker, produce, self._read_time_ms())
        if pending.acks:
            self._slots.append(pending)
        self._produces.append(pending)
        shape = shape_of(frame, version, produce)
        if shape is not None and shape.acks in _ACKS:
            if len(self._shapes) >= _SHAPES_MAX:
                self._shapes.clear()
            self._shapes[shape.same] = shape
            self._shape_ends_at = shape.ends_at

    def _on_transactional(self, produce: ProduceFrame, version: int, correlation_id: int) -> None:
        from headrace.broker.transactions.producing import PendingTransactional

        pending = PendingTransactional(self._broker, produce, version, correlation_id)
        pending.stage(self._broker, produce, self._read_time_ms())
        if pending.acks:
            self._slots.append(pending)
        self._produces.append(pending)

    def _on_shaped_produce(self, frame: memoryview, version: int, correlation_id: int) -> bool:
        """Take a request that looks like an earlier one; False if it doesn't."""
        shape = self._shapes.get(bytes(frame[SHAPE_STARTS_AT : self._shape_ends_at]))
        if shape is None or shape.version != version:
            return False
        broker = self._broker
        partition = broker.partitions.find(shape.topic, shape.index)
        records = shape.records_of(frame)
        if partition is None or records is None:
            return False
        broker.metrics.requests[_PRODUCE] += 1
        now_ms = self._now_ms or self._read_time_ms()
        pending = PendingShaped(broker, shape, partition, records, correlation_id, now_ms)
        if shape.acks:
            self._slots.append(pending)
        self._produces.append(pending)
        return True

    def _read_time_ms(self) -> int:
        """One look at the clock serves all requests of a read."""
        if not self._now_ms:
            self._now_ms = self._broker.clock.now_ms()
        return self._now_ms

    def _finish_produces(self) -> None:
        broker = self._broker
        broker.commit_staged()
        produces, self._produces = self._produces, []
        for pending in produces:
            if not pending.acks:
                if pending.failed():
                    self._transport.close("a produce with acks=0 failed")
                    return
                pending.finish_unanswered()
                continue
            later = pending.finish()
            if self._throttling is not None:
                later = self._throttling.of_produce(pending, later)
            if later is not None:
                self._answer_later(pending, later)

    def _on_fetch(
        self, frame: memoryview, position: int, version: int, correlation_id: int
    ) -> None:
        if self._produces:
            # A fetch behind a produce of the same read sees it, as it would one read later.
            self._finish_produces()
        asked = parse_fetch(frame, position, version)
        on_answered = self._on_limited_fetched if self._is_limited else self._on_fetched
        fetch = Fetch(self._broker, asked, version, correlation_id, on_answered)
        self._slots.append(fetch)
        self._fetches.add(fetch)
        fetch.start()

    def _on_fetched(self, fetch: Fetch, parts: "list[Part]") -> None:
        fetch.parts = parts
        self._fetches.discard(fetch)
        self._send_ready()

    def _on_limited_fetched(self, fetch: Fetch, parts: "list[Part]") -> None:
        assert self._throttling is not None
        self._on_fetched(fetch, self._throttling.of_fetch(fetch, parts, fetch.version))

    def _on_other(self, frame: memoryview) -> None:
        if self._produces:
            self._finish_produces()
        header, position = decode_request_header(frame)
        target = endpoint(header.api_key)
        version = header.api_version
        request, _ = decode(target.request_class, frame, version, position)
        context = RequestContext(
            header.api_key,
            version,
            header.correlation_id,
            header.client_id,
            self._transport.peer,
            self._listener_name,
            software_name=self._software[0],
            software_version=self._software[1],
            connection_id=self._connection_id,
        )
        if header.api_key == _API_VERSIONS:
            self._software = (request.client_software_name, request.client_software_version)
        slot = Slot()
        self._slots.append(slot)
        result = target.handle(self._broker, request, context)
        if self._is_limited:
            result = self._limited(result)
        if not isinstance(result, Promise):
            slot.parts = _encoded(result, header)
        elif result.settled and result.error is None:
            slot.parts = _encoded(result.value(), header)
        else:
            self._answer_later(slot, result.map(lambda message: _encoded(message, header)))

    def _limited(self, result: Any) -> Any:
        """Tell the answer how long its client has to wait."""
        throttling = self._throttling
        assert throttling is not None
        took_ms = self._broker.clock.monotonic_ms() - self._limited_since_ms
        throttle_ms = throttling.on_handled(took_ms)
        if isinstance(result, Promise):
            return result.map(lambda message: throttling.of_message(message, throttle_ms))
        return throttling.of_message(result, throttle_ms)

    def _on_unknown_api_versions(self, correlation_id: int) -> None:
        """An ApiVersions from the future: answered in v0, with what would be understood."""
        from headrace.broker.api.k18_api_versions import unsupported_version_response

        slot = Slot()
        slot.parts = [encode_response(unsupported_version_response(), 0, correlation_id)]
        self._slots.append(slot)

    # -- answers -----------------------------------------------------------------------

    def on_unexpected(self, error: BaseException) -> None:
        self._broker.on_handler_failure(self._transport.peer, error)

    def on_closed(self) -> None:
        super().on_closed()
        for fetch in self._fetches:
            fetch.cancel()
        self._fetches.clear()
        self._broker.shares.on_disconnected(self._connection_id)


def _encoded(message: Any, header: Any) -> list[Part]:
    if hasattr(message, "encode_parts"):  # it carries regions of files
        parts: list[Part] = message.encode_parts(header.correlation_id)
        return parts
    return [encode_response(message, header.api_version, header.correlation_id)]


def _body(frame: memoryview, client_id_length: int, flexible: bool) -> int:
    """Where the body starts: behind the client id and, if flexible, empty tagged fields."""
    position = _START.size + (client_id_length if client_id_length > 0 else 0)
    if not flexible:
        if position > len(frame):
            raise ProtocolError("the client id is longer than the frame")
        return position
    if position < len(frame) and frame[position] == 0:
        return position + 1
    return decode_request_header(frame)[1]
