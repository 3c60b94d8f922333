"""The acks of a block's packets: which are due, and what they say of the nodes behind.

    noted ─▶ on disk here, and synced if asked ─▶ acked by all behind ─▶ ack to the writer

Owns: the packets that wait, acks that leave together, bad news that waits for the right moment.
Must not know: how packets come or get to disk (`receiver`, `replica_output`), sockets.
Spec: PacketResponder and PipelineAck of Hadoop 3.5.

Invariants: a packet is acked only after it is on disk here (and synced, if asked) and acked by all
nodes behind (D4); acks leave in the order of packets.
"""

from collections import deque
from collections.abc import Callable, Sequence

from headrace.datanode.context import Context
from headrace.datanode.mirror import Mirror
from headrace.datanode.replica import Pipeline, Replica
from headrace.datanode.streams import Stream
from headrace.wire.hadoop.packets import HEART_BEAT_SEQNO, encode_ack, good_acks
from headrace.wire.hadoop.protos.data_transfer_pb2 import Status

_HELD_MAX = 16
"""Half a packet is here: the rest comes whether we ack or not, and a few acks can leave together
after it. Each time they wake the writer, and all nodes on the way to it. A writer that waits for
an ack, by its window or after a flush, has sent whole packets and is answered at once."""
_HELD_MS = 20
"""On a slow line the rest takes its time, and writers give up who hear nothing."""
_QUIET_MS = 200
_QUIET_WAIT_MS_MAX = 2_000
"""A writer gets no acks until it is quiet for so long, then learns that a node behind us is gone.

hdfs-native (with tokio up to 1.52) may wait for ever when bad news reach it while its threads hand
packets over: 1. its sender takes a packet from a full queue, which wakes the thread that waits to
put one in; 2. the ack says that a node is gone, and the sender closes the queue and waits until
all places are given back; 3. the woken thread finds the queue closed and gives its place back
without waking anybody. Without acks a writer sends what it may have unacked and comes to rest;
one that is slow by nature has no full queue, and is told after a while anyhow.
"""


class Unacked:
    """A packet that was noted here, or many alike in a row: they wait for the disk, for a sync, for
    the nodes behind."""

    __slots__ = ("count", "data_bytes", "end", "last", "seqno", "synced")

    def __init__(
        self, seqno: int, end: int, last: bool, synced: bool, count: int = 1, data_bytes: int = 0
    ) -> None:
        """`end`: where the last of them ends. `data_bytes`: of each, if there are several."""
        self.seqno = seqno
        self.end = end
        self.last = last
        self.synced = synced
        self.count = count
        self.data_bytes = data_bytes

    def count_within(self, num_bytes: int) -> int:
        """How many of them end there or before."""
        if self.end <= num_bytes:
            return self.count
        if self.count == 1:
            return 0
        return max(0, self.count - -(-(self.end - num_bytes) // self.data_bytes))

    def keep(self, count: int) -> None:
        """Only the first ones."""
        self.end -= (self.count - count) * self.data_bytes
        self.count = count

    def drop(self, count: int) -> int:
        """The first ones are done with: where they end."""
        self.seqno += count
        self.count -= count
        return self.end - self.count * self.data_bytes


class Acks:
    """`on_last(acks)` comes when the last packet's ack is due: it and those before it are left to
    whoever finalizes. `on_blamed`: the next node says that what we hold is broken."""

    def __init__(
        self,
        context: Context,
        replica: Replica,
        upstream: Stream,
        mirror: Mirror | None,
        *,
        are_sent: bool,
        on_last: Callable[[list[bytes]], None],
        on_blamed: Callable[[], None],
    ) -> None:
        assert replica.pipeline is not None
        self._context = context
        self._replica = replica
        self._files: Pipeline = replica.pipeline
        self._upstream = upstream
        self._mirror = mirror
        self._are_sent = are_sent
        self._on_last = on_last
        self._on_blamed = on_blamed
        self._waiting: deque[Unacked] = deque()
        self._packets = 0
        """How many these are."""
        self._has_last = False
        """The block's last packet was noted."""
        self._are_held = False
        self.mirror_is_gone = False
        self._settle_until_ms: int | None = None
        self._settled = False
        self._is_over = False

    def add(self, packets: Unacked) -> None:
        self._waiting.append(packets)
        self._packets += packets.count
        self._has_last = packets.last

    def forget_from(self, seqno: int) -> None:
        """This packet, and all that came after it, will not be acked."""
        self._has_last = False
        while (packets := self._waiting.pop()).seqno > seqno or packets.seqno == HEART_BEAT_SEQNO:
            self._packets -= packets.count
        self._packets -= packets.count
        if packets.seqno < seqno:
            packets.keep(seqno - packets.seqno)
            self.add(packets)

    def stop(self) -> None:
        self._is_over = True

    # -- to the writer -----------------------------------------------------------------

    def on_read(self, *, is_amid: bool) -> None:
        """What a read brought is noted. `is_amid`: it ended within a packet."""
        if self.mirror_is_gone:
            self._tell_of_mirror()
        elif self._mirror is None:
            if not is_amid or self._packets >= _HELD_MAX:
                self.send()
            elif self._waiting and not self._are_held:
                self._are_held = True
                self._context.timers.call_later(_HELD_MS, self._send_held)

    def _send_held(self) -> None:
        self._are_held = False
        if not self._is_over:
            self.send()

    def send(self) -> None:
        """All that are due."""
        waiting, files, out = self._waiting, self._files, []
        mirror = self._mirror if self._are_sent else None
        while waiting:
            head = waiting[0]
            count = head.count_within(self._replica.num_bytes) if head.synced else 0
            if not count:
                break
            replies: Sequence[int] = ()
            if mirror is not None:
                taken = mirror.take_acks(head.seqno, count)
                if taken is None:
                    if not self._settled:
                        break
                    taken = 1, [Status.ERROR]
                count, replies = taken
            seqno, end = head.seqno, head.drop(count)
            self._packets -= count
            if not head.count:
                waiting.popleft()
            if any(replies):
                if replies[0] == Status.ERROR_CHECKSUM:
                    self._on_blamed()
                    return
                out.append(encode_ack(seqno, [Status.SUCCESS, *replies]))
                continue
            out.append(good_acks(1 + len(replies)).of(seqno, count))
            if end > files.bytes_acked:
                files.bytes_acked = min(end, self._replica.num_bytes)
            if head.last:
                self._on_last(out)
                return
        if out and self._are_sent:
            self._upstream.send([b"".join(out)])

    # -- bad news from behind ----------------------------------------------------------

    def mirror_has_acked_all(self) -> bool:
        """The block's end, too, is acked from behind: what waits, waits for our disk."""
        assert self._mirror is not None
        return self._has_last and self._mirror.acks_waiting >= self._packets

    def on_mirror_gone(self) -> None:
        self.mirror_is_gone = True
        if self._waiting:
            self._tell_of_mirror()

    def _tell_of_mirror(self) -> None:
        """Answer with what happened, but not before the writer has come to rest."""
        if self._settled or not self._are_sent:
            self.send()
        elif self._settle_until_ms is None:
            self._settle_until_ms = self._context.clock.monotonic_ms() + _QUIET_WAIT_MS_MAX
            self.send()  # what the mirror acked before it went
            self._look_again()

    def _look_again(self) -> None:
        count = self._packets

        def look() -> None:
            if self._is_over:
                return
            assert self._settle_until_ms is not None
            late = self._context.clock.monotonic_ms() >= self._settle_until_ms
            if late or self._has_last or self._packets == count:
                self._settled = True
                self.send()
            else:
                self._look_again()

        self._context.timers.call_later(_QUIET_MS, look)
