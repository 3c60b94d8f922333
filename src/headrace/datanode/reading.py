"""READ_BLOCK, COPY_BLOCK, and why short-circuit reads are politely refused.

Owns: the conversation of a read: answer, packets, the reader's verdict.
Must not know: sockets, how packets are made. Spec: DataXceiver.readBlock, copyBlock.
"""

from typing import Final, NamedTuple

from headrace.base.clock import Timer
from headrace.base.errors import CorruptionError, StorageError
from headrace.datanode.context import Context
from headrace.datanode.dataset import RBW
from headrace.datanode.errors import Refusal
from headrace.datanode.replica import Replica
from headrace.datanode.sender import BlockSender
from headrace.datanode.session import TransferSession
from headrace.datanode.throttle import Throttle
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    CachingStrategyProto,
    ClientReadStatusProto,
    OpCopyBlockProto,
    OpReadBlockProto,
    OpRequestShortCircuitAccessProto,
    ReleaseShortCircuitAccessRequestProto,
    ReleaseShortCircuitAccessResponseProto,
    ShortCircuitShmRequestProto,
    ShortCircuitShmResponseProto,
    Status,
)
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    block_of,
    encode_delimited,
    encode_read_answer,
    parse_delimited,
    parse_message,
    signed,
)

_LENGTH_POLL_MS: Final = 50
_GOOD_VERDICTS: Final = tuple(
    ClientReadStatusProto(status=status).SerializeToString()
    for status in (Status.CHECKSUM_OK, Status.SUCCESS)
)
"""As nearly every reader writes them."""


def read_block(session: TransferSession, raw: memoryview) -> None:
    message = parse_message(OpReadBlockProto, raw)
    context = session.context
    block = block_of(message.header.baseHeader.block)
    replica = context.dataset.readable(block)
    asked = _Asked.of(message)
    if _is_short(replica, asked):
        wait = _WaitForLength(session, replica, block, asked)
        session.begin_activity(wait)
        wait.look()
    else:
        _begin_or_refuse(session, replica, block, asked)


def _is_short(replica: Replica, asked: "_Asked") -> bool:
    return replica.state is RBW and replica.num_bytes < asked.offset + asked.length


class _Asked(NamedTuple):
    """What of a replica, and how."""

    offset: int
    length: int
    with_checksums: bool
    caching: CachingStrategyProto | None

    @classmethod
    def of(cls, message: OpReadBlockProto) -> "_Asked":
        caching = message.cachingStrategy if message.HasField("cachingStrategy") else None
        return cls(signed(message.offset), signed(message.len), message.sendChecksums, caching)


def _begin_or_refuse(
    session: TransferSession, replica: Replica, block: ExtendedBlock, asked: _Asked
) -> None:
    try:
        _begin(session, replica, block, asked)
    except Refusal as refusal:
        session.refuse(refusal)
    except (StorageError, OSError) as error:
        session.refuse(Refusal(str(error)))


def _begin(session: TransferSession, replica: Replica, block: ExtendedBlock, asked: _Asked) -> None:
    context = session.context
    try:
        sender = BlockSender(
            context,
            replica,
            asked.offset,
            asked.length,
            with_checksums=asked.with_checksums,
            caching=asked.caching,
        )
    except CorruptionError:
        context.report_bad_block(block, None)
        raise
    reading = _Reading(session, sender, expects_status=True)
    session.begin_activity(reading)
    reading.begin()


class _WaitForLength:
    """A reader knows of bytes from another node of the pipeline that are not here yet."""

    def __init__(
        self,
        session: TransferSession,
        replica: Replica,
        block: ExtendedBlock,
        asked: _Asked,
    ) -> None:
        self.wanted_bytes = 0
        self._session = session
        self._replica = replica
        self._block = block
        self._asked = asked
        settings = session.context.settings
        self._deadline_ms = session.context.clock.monotonic_ms() + settings.min_length_wait_ms
        self._timer: Timer | None = None
        self._over = False

    @property
    def idle_timeout_ms(self) -> int:
        return self._session.context.settings.socket_timeout_ms

    def look(self) -> None:
        if self._over:
            return
        context = self._session.context
        is_short = _is_short(self._replica, self._asked)
        if is_short and context.clock.monotonic_ms() < self._deadline_ms:
            self._timer = context.timers.call_later(_LENGTH_POLL_MS, self.look)
            return
        self._over = True
        self._session.end_activity()
        _begin_or_refuse(self._session, self._replica, self._block, self._asked)

    def on_data(self, _view: memoryview) -> int:
        return 0

    def on_drained(self) -> None:
        return None

    def on_end(self) -> bool:
        return False

    def on_closed(self, _reason: str) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()


class _Reading:
    """Packets on their way to a reader; then its verdict, and the connection is free again."""

    def __init__(
        self,
        session: TransferSession,
        sender: BlockSender,
        *,
        expects_status: bool,
        throttle: Throttle | None = None,
    ) -> None:
        self.wanted_bytes = 0
        self._throttle = throttle
        self._held_back = False
        self._session = session
        self._sender = sender
        self._expects_status = expects_status

    @property
    def idle_timeout_ms(self) -> int:
        """A reader may take its time: with the data, and then with its verdict."""
        settings = self._session.context.settings
        waits_for_verdict = self._sender.done and not self._session.stream.backlogged
        return settings.socket_timeout_ms if waits_for_verdict else settings.socket_write_timeout_ms

    def begin(self) -> None:
        """Raises StorageError if nothing can be read: nothing was said yet."""
        sender, checksum = self._sender, self._sender.checksum
        answer = encode_read_answer(checksum.type, checksum.bytes_per_checksum, sender.start)
        try:
            self._send_more(answer)
        except (StorageError, OSError):
            sender.close()
            raise

    def on_drained(self) -> None:
        if self._sender.done or self._held_back:
            return
        try:
            self._send_more(b"")
        except (StorageError, OSError) as error:
            self._session.stream.close(f"can't read: {error}")

    def _send_more(self, before: bytes) -> None:
        sender, stream = self._sender, self._session.stream
        counters = self._session.context.counters
        try:
            sent = sender.send_more(stream, before)
        except (StorageError, OSError) as error:
            self._session.context.log.error("read_failed", error=error)
            self._session.context.suspect(self._sender.block_id)
            raise
        counters.bytes_read += sent
        if not sender.done:
            wait_ms = self._throttle.spend(sent) if self._throttle is not None else 0
            if wait_ms:
                self._held_back = True
                self._session.context.timers.call_later(wait_ms, self._go_on)
            elif not stream.backlogged:
                self._session.context.timers.call_soon(self._send_on)
        else:
            counters.blocks_read += 1
            if not self._expects_status:
                self._session.end_activity()
                stream.close("all sent", after_sending=True)

    def _go_on(self) -> None:
        self._held_back = False
        self._send_on()

    def _send_on(self) -> None:
        """The peer takes all at once: go on in the next turn, after the others."""
        if not self._session.stream.closed and not self._session.stream.backlogged:
            self.on_drained()

    def on_data(self, view: memoryview) -> int:
        found = parse_delimited(view)
        if found is None:
            return 0
        raw, end = found
        if raw not in _GOOD_VERDICTS and parse_message(ClientReadStatusProto, raw).status not in (
            Status.SUCCESS,
            Status.CHECKSUM_OK,
        ):
            self._session.context.suspect(self._sender.block_id)
        if not self._sender.done or self._session.stream.backlogged:
            # It has what it wanted; what is still queued for it would confuse the next answer. And
            # who asks on and on without reading would have us hold all of it.
            self._session.stream.close("the reader left early")
            return len(view)
        self._session.end_activity()
        return end

    def on_end(self) -> bool:
        """A reader that can't give its verdict any more still gets its bytes."""
        self._expects_status = False
        if self._sender.done:
            self._session.stream.close("the reader is done", after_sending=True)
        return True

    def on_closed(self, _reason: str) -> None:
        self._sender.close()


def copy_block(session: TransferSession, raw: memoryview) -> None:
    """A whole replica for another node, which asked because a balancer told it to."""
    message = parse_message(OpCopyBlockProto, raw)
    context: Context = session.context
    replica = context.dataset.readable(block_of(message.header.block))
    sender = BlockSender(context, replica, 0, -1)
    reading = _Reading(session, sender, expects_status=False, throttle=context.balancing)
    session.begin_activity(reading)
    reading.begin()


# -- short circuit ---------------------------------------------------------------------
# Descriptors travel over Unix sockets only, and we offer none: clients that are told so by a
# status read through the socket they have.


def request_short_circuit_fds(session: TransferSession, raw: memoryview) -> None:
    parse_message(OpRequestShortCircuitAccessProto, raw)
    answer = BlockOpResponseProto(
        status=Status.ERROR_UNSUPPORTED,
        message="short-circuit reads are not served by this DataNode",
        shortCircuitAccessVersion=1,
    )
    session.stream.send([encode_delimited(answer)])


def release_short_circuit_fds(session: TransferSession, raw: memoryview) -> None:
    parse_message(ReleaseShortCircuitAccessRequestProto, raw)
    answer = ReleaseShortCircuitAccessResponseProto(
        status=Status.ERROR_INVALID, error="there is no shared memory segment to release"
    )
    session.stream.send([encode_delimited(answer)])


def request_short_circuit_shm(session: TransferSession, raw: memoryview) -> None:
    parse_message(ShortCircuitShmRequestProto, raw)
    answer = ShortCircuitShmResponseProto(
        status=Status.ERROR_UNSUPPORTED, error="short-circuit reads are not served"
    )
    session.stream.send([encode_delimited(answer)])
