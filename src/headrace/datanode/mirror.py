"""The next node of a pipeline, seen from this one.

Owns: the connection to it: its set-up (our WRITE_BLOCK and its answer) and the acks it sends.
Must not know: replicas, the upstream. Spec: DataXceiver.writeBlock, PipelineAck.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headrace.datanode.streams import Connect, Part, Stream
from headrace.wire.hadoop.packets import good_acks
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    PipelineAckProto,
    Status,
)
from headrace.wire.hadoop.transfer import parse_delimited, parse_message

ACKS_WAITING_MAX: Final = 100_000
"""Acks that came before we asked for them; a peer that sends more is mad."""


class _Acked:
    """What the nodes behind say of packets in a row."""

    __slots__ = ("count", "replies", "seqno")

    def __init__(self, seqno: int, count: int, replies: Sequence[int]) -> None:
        self.seqno = seqno
        self.count = count
        self.replies = replies


class Mirror:
    """A StreamHandler. `on_answer` comes once: the response, or None and a reason."""

    def __init__(
        self,
        address: str,
        request: bytes,
        idle_timeout_ms: int,
        on_answer: Callable[[BlockOpResponseProto | None, str], None],
    ) -> None:
        self.address = address
        self.idle_timeout_ms = idle_timeout_ms
        self.wanted_bytes = 0
        self.on_acks: Callable[[], None] = lambda: None
        self.on_failed: Callable[[str], None] = lambda _reason: None
        self.on_taken: Callable[[], None] = lambda: None
        self._request = request
        self._on_answer: Callable[[BlockOpResponseProto | None, str], None] | None = on_answer
        self._stream: Stream | None = None
        self._acks: deque[_Acked] = deque()
        self.acks_waiting = 0
        self._good_nodes = 0
        self._due_seqno = 0
        self._closed = False

    def connect(self, connect: Connect) -> None:
        host, _, port = self.address.rpartition(":")
        connect(host, int(port), self)

    @property
    def backlogged(self) -> bool:
        return self._stream is not None and self._stream.backlogged

    def send(self, parts: Sequence[Part]) -> None:
        if self._stream is not None:
            self._stream.send(parts)

    def take_acks(self, seqno: int, most: int) -> tuple[int, Sequence[int]] | None:
        """The replies of all nodes behind for this packet, once they came; and how many packets, it
        and the next ones, they are the same for."""
        if not self._acks:
            return None
        acked = self._acks[0]
        if acked.seqno != seqno:
            self.close(f"acked {acked.seqno} where {seqno} was due")
            self._acks.clear()
            self.acks_waiting = 0
            return 1, [Status.ERROR]
        count = min(most, acked.count)
        acked.seqno += count
        acked.count -= count
        if not acked.count:
            self._acks.popleft()
        self.acks_waiting -= count
        return count, acked.replies

    # -- StreamHandler -----------------------------------------------------------------

    def on_connected(self, stream: Stream) -> None:
        if self._closed:
            stream.close("no longer wanted")
            return
        self._stream = stream
        stream.send([self._request])

    def on_data(self, view: memoryview) -> int:
        position = 0
        if self._on_answer is not None:
            found = parse_delimited(view)
            if found is None:
                return 0
            raw, position = found
            answer = parse_message(BlockOpResponseProto, raw)
            on_answer, self._on_answer = self._on_answer, None
            on_answer(answer, "")
        return self._take_acks(view, position)

    def _take_acks(self, view: memoryview, position: int) -> int:
        """Acks are foreseeable: the next packets, all well. Others are parsed."""
        start, end = position, len(view)
        while position < end and self.acks_waiting < ACKS_WAITING_MAX:
            nodes = self._good_nodes
            if nodes:
                count, length = good_acks(nodes).count(view[position:], self._due_seqno)
                if count:
                    self._note(self._due_seqno, count, (0,) * nodes)
                    position += length
                    continue
            found = parse_delimited(view, position)
            if found is None:
                break
            raw, position = found
            ack = parse_message(PipelineAckProto, raw)
            replies = [int(reply) for reply in ack.reply]
            self._good_nodes = 0 if any(replies) else len(replies)
            self._note(ack.seqno, 1, replies)
        if position > start:
            self.on_acks()
        return position

    def _note(self, seqno: int, count: int, replies: Sequence[int]) -> None:
        self._acks.append(_Acked(seqno, count, replies))
        self._due_seqno = seqno + count
        self.acks_waiting += count

    def on_drained(self) -> None:
        self.on_taken()

    def on_end(self) -> bool:
        return False

    def on_closed(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(None, reason)
        else:
            self.on_failed(reason)

    def close(self, reason: str, *, after_sending: bool = False) -> None:
        self._closed = True
        self._on_answer = None
        if self._stream is not None:
            self._stream.close(reason, after_sending=after_sending)
