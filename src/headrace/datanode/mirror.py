"""The next node of a pipeline, seen from this one.

Owns: the connection to it: its set-up (our WRITE_BLOCK and its answer) and the acks it sends.
Must not know: replicas, the upstream. Spec: DataXceiver.writeBlock, PipelineAck.
"""

from collections import deque
from collections.abc import Callable, Sequence

from headrace.datanode.streams import Connect, Part, Stream
from headrace.wire.hadoop.packets import encode_good_ack
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    PipelineAckProto,
    Status,
)
from headrace.wire.hadoop.transfer import parse_delimited, parse_message

ACKS_WAITING_MAX = 100_000
"""Acks that came before we asked for them; a peer that sends more is mad."""


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
        self._acks: deque[tuple[int, Sequence[int]]] = deque()
        self._good_nodes = 0
        self._due_seqno = 0
        self._closed = False

    def connect(self, connect: Connect) -> None:
        host, _, port = self.address.rpartition(":")
        connect(host, int(port), self)

    @property
    def backlogged(self) -> bool:
        return self._stream is not None and self._stream.backlogged

    @property
    def acks_waiting(self) -> int:
        return len(self._acks)

    def send(self, parts: Sequence[Part]) -> None:
        if self._stream is not None:
            self._stream.send(parts)

    def next_ack(self, seqno: int) -> Sequence[int] | None:
        """The replies of all nodes behind for this packet, once they came."""
        if not self._acks:
            return None
        acked, replies = self._acks.popleft()
        if acked != seqno:
            self.close(f"acked {acked} where {seqno} was due")
            return [Status.ERROR]
        return replies

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
            on_answer, self._on_answer = self._on_answer, None
            on_answer(parse_message(BlockOpResponseProto, raw), "")
        return self._take_acks(view, position)

    def _take_acks(self, view: memoryview, position: int) -> int:
        """Acks are foreseeable: the next packet, all well. Others are parsed."""
        acks, nodes, due = self._acks, self._good_nodes, self._due_seqno
        good: Sequence[int] = (0,) * nodes
        raw = bytes(view[position:])
        at, end = 0, len(raw)
        while at < end and len(acks) < ACKS_WAITING_MAX:
            if nodes:
                expected = encode_good_ack(due, nodes)
                if raw.startswith(expected, at):
                    acks.append((due, good))
                    at += len(expected)
                    due += 1
                    continue
            found = parse_delimited(memoryview(raw), at)
            if found is None:
                break
            body, at = found
            ack = parse_message(PipelineAckProto, body)
            replies = list(ack.reply)
            acks.append((ack.seqno, [int(reply) for reply in replies]))
            nodes = self._good_nodes = 0 if any(replies) else len(replies)
            good, due = (0,) * nodes, ack.seqno + 1
        self._due_seqno = due
        if at:
            self.on_acks()
        return position + at

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
