"""Receives a block: to disk and to the next node at once, acks back.

    upstream ── packets ──▶ receiver ── the same bytes ──▶ mirror
             ◀── acks ─────          ◀────── acks ───────

Owns: the stream of one WRITE_BLOCK after its set-up. Must not know: sockets, other writers, how
bytes get into files (`replica_output`), when a packet may be acked (`acks`).
Spec: BlockReceiver of Hadoop 3.5.

All packets of one read are handled together: one send to the mirror, one `writev` for the data,
one for the checksums, one send of acks.

Invariants: the last packet's ack leaves after the replica is finalized; the last node checks every
checksum before it writes.
A replica that was synced once (hsync), or that an append goes on with, is on disk whole and with
its name when the last packet is acked (D2): else a cut of the power right after the close would
leave a half-named or too short replica of a closed file.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headrace.base.errors import CorruptionError, ProtocolError, StorageError
from headrace.datanode.acks import Acks, Unacked
from headrace.datanode.chunk_checksums import compute_checksums, verifier_of
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED
from headrace.datanode.landing import PACKET_DATA_BYTES_MAX, SEQNO_MAX, Landing
from headrace.datanode.mirror import Mirror
from headrace.datanode.replica import Pipeline, Replica
from headrace.datanode.replica_output import ReplicaOutput
from headrace.datanode.streams import Spread, Stream
from headrace.wire.hadoop.block_meta import DataChecksum
from headrace.wire.hadoop.packets import (
    HEART_BEAT_SEQNO,
    Packet,
    PacketHeads,
    bytes_wanted,
    encode_ack,
    next_packet,
)
from headrace.wire.hadoop.protos.data_transfer_pb2 import CachingStrategyProto, Status

_RUN_PACKETS_MAX: Final = 256
"""Buffers of one writev stay well below the system's limit."""


class BlockReceiver:
    """One replica being written. `on_done(finalized)` comes once, when it is over."""

    def __init__(
        self,
        context: Context,
        replica: Replica,
        upstream: Stream,
        mirror: Mirror | None,
        *,
        acks: bool,
        on_done: Callable[[bool], None],
        on_last: Callable[[], None],
        on_corrupt: Callable[[], None],
        caching: CachingStrategyProto | None = None,
        client_name: str = "",
        sent: DataChecksum | None = None,
    ) -> None:
        """`client_name` is empty for copies: nobody's habits show in them. `sent`: checksums come
        of another type than those that are kept; every node checks them, and makes its own."""
        assert replica.pipeline is not None
        self._context = context
        self._replica = replica
        self._files: Pipeline = replica.pipeline
        self._upstream = upstream
        self._mirror = mirror
        self._acks = acks
        self._client_name = client_name
        self._on_done = on_done
        self._on_last = on_last
        self._on_corrupt = on_corrupt
        kept = self._files.checksum
        checksum = kept if sent is None else sent
        self._kept = None if checksum == kept else kept
        """What checksums are made of anew; None: they are kept as they come."""
        self._chunk_bytes = checksum.bytes_per_checksum
        self._checksum_bytes = checksum.size
        checks = mirror is None or not acks or self._kept is not None
        self._verifier = verifier_of(checksum) if checks and checksum.size > 0 else None
        self._unacked = Acks(
            context,
            replica,
            upstream,
            mirror,
            are_sent=acks,
            on_last=self._finish,
            on_blamed=self._on_blamed,
        )
        self._data: list[memoryview] = []
        self._sums: list[memoryview] = []
        self._noted: list[int] = []
        """The numbers of the packets that the data and the checksums are of."""
        self._refused: int | None = None
        """The number of the first packet whose checksums are wrong."""
        self._received = replica.num_bytes
        self._seqno = -1
        self._last_seen = False
        self._ends_with_sync = False
        self._over = False
        """No more is written: the replica is finalized, or given up."""
        self._is_answered = False
        """The writer was told of the end."""
        self._directory_synced = False
        self._packet_bytes = self._packet_sums_bytes = 0
        """Of the largest packet."""
        self._is_flushed = False
        """The last packet is shorter than those before it."""
        self._drains = False
        """The next packet waits until all before it is written."""
        self._is_paused = False
        self._landing: Landing | None = None
        self._output = ReplicaOutput(
            context,
            replica,
            caching,
            will_be_synced=self._will_be_synced(),
            on_moved=self._on_output_moved,
            on_failed=self._storage_failed,
        )
        self.wanted_bytes = 0
        self._files.writer = self
        if mirror is not None:
            mirror.on_acks = self._on_mirror_acks
            mirror.on_failed = self._on_mirror_failed
            mirror.on_taken = self._on_mirror_taken

    def _will_be_synced(self) -> bool:
        """At its end, by all that is known at its beginning."""
        context, name = self._context, self._client_name
        if self._files.is_lasting or context.settings.sync_on_close:
            return True
        return bool(name) and context.sync_habits.will_sync(name)

    # -- packets in --------------------------------------------------------------------

    def on_data(self, view: memoryview) -> int:
        position, end = 0, len(view)
        # Any write of this read may be the first that goes around the page cache.
        may_wait = self._output.may_go_around
        usual: Packet | None = None
        while position < end and not self._last_seen:
            packet = next_packet(view, position, end)
            if packet is None:
                break
            if self._take_next(view, packet):
                usual = packet
            else:
                usual = None
                if may_wait and not self._is_due(packet):
                    break
                if not self._take(view, packet):
                    break
            position = packet.end
        self.wanted_bytes = bytes_wanted(view[position:]) if position < end else 0
        if not self._settle_read([view[:position]] if position else (), self.wanted_bytes > 0):
            self.wanted_bytes = 0
            return end
        if usual is not None and self._output.room is not None:
            self._foresee(bytes(view[usual.start : usual.checksums]))
        return position

    def _settle_read(
        self, packets: Sequence[memoryview], is_amid: bool, beyond: int | None = None
    ) -> bool:
        """The packets of one read are noted: check, forward and write them, and ack what is due.
        False: no more is wanted, the writing is over or about to be.

        `is_amid`: it ends within a packet. `beyond`: data has landed, with so much behind it.
        """
        is_good = self._check_noted()
        if is_good and packets and self._mirror is not None and not self._unacked.mirror_is_gone:
            self._forward(packets)
        if not self._write(beyond):
            return False
        if not is_good:
            self._refuse()
            return False
        if self._is_flushed:
            self._output.drain()
        if not self._output.has_room:
            self._pause()
        self._unacked.on_read(is_amid=is_amid and not self._last_seen)
        return True

    # -- packets that land -------------------------------------------------------------

    def _foresee(self, head: bytes) -> None:
        """Packets are alike and of whole chunks, and go around the page cache: let those to come
        land there."""
        fits = self._packet_bytes <= PACKET_DATA_BYTES_MAX and self._seqno < SEQNO_MAX
        if (
            fits
            and not self._packet_bytes % self._chunk_bytes
            and PacketHeads.can_be_foreseen(head)
        ):
            heads = PacketHeads(head)
            self._landing = Landing(heads, self._packet_sums_bytes, self._packet_bytes)
            self._upstream.land(self)

    def landing(self, first: memoryview) -> Spread | None:
        landing, room = self._landing, self._output.room
        if landing is None or room is None:
            return None
        if not landing.is_begun:
            if not landing.is_foreseen(first, self._received, self._seqno + 1):
                return None
            landing.begin(first, room)
            self._output.beyond = landing.data_beyond(0)
            self.wanted_bytes = 0
        return landing.land_in(room)

    def on_landed(self, count: int) -> bytes:
        landing = self._landing
        assert landing is not None
        whole, all_foreseen = landing.count_foreseen(count, self._received, self._seqno + 1)
        is_amid = landing.is_amid(whole)
        packets: Sequence[memoryview] = ()
        if whole:
            self._note_landed(landing, whole)
            if self._mirror is not None:
                packets = landing.packets(whole)
        rest = b"" if all_foreseen else landing.give_back(whole)
        beyond = landing.data_beyond(whole)
        is_wanted = True
        if whole:
            is_wanted = self._settle_read(packets, is_amid, beyond)
        else:
            self._output.beyond = beyond
        if all_foreseen:
            landing.keep(whole)
        return rest if is_wanted else b""

    def _note_landed(self, landing: Landing, count: int) -> None:
        """`_take_next` for packets whose heads were foreseen."""
        first, length = self._seqno + 1, landing.piece_bytes
        self._seqno += count
        self._received += count * length
        self._is_flushed = False
        self._data, self._sums = landing.data(count), landing.sums(count)
        self._noted = list(range(first, first + count))
        self._unacked.add(Unacked(first, self._received, False, True, count, length))

    # -- packets that are taken apart --------------------------------------------------

    def _take_next(self, view: memoryview, packet: Packet) -> bool:
        """The short way of `_take` for nearly all of a block's packets: one as large as the largest
        before it, right behind the last. False: it is another, and nothing was done."""
        _, sums_at, data_at, end, offset, seqno, last, sync = packet
        length = end - data_at
        if (
            offset != self._received
            or length != self._packet_bytes
            or data_at - sums_at != self._packet_sums_bytes
            or seqno <= self._seqno
            or offset % self._chunk_bytes
            or last
            or sync
            or len(self._data) >= _RUN_PACKETS_MAX
        ):
            return False
        self._seqno = seqno
        self._received = received = offset + length
        self._is_flushed = False
        self._data.append(view[data_at:end])
        self._sums.append(view[sums_at:data_at])
        self._noted.append(seqno)
        self._unacked.add(Unacked(seqno, received, False, True))
        return True

    def _is_due(self, packet: Packet) -> bool:
        """False: it can be handled only when all before it is written, which takes a moment."""
        _, _, data_at, end, offset, _, last, sync = packet
        is_plain = end == data_at or (offset == self._received and not offset % self._chunk_bytes)
        if is_plain and not last and not sync:
            return True
        return self._check_noted() and self._write() and self._is_drained()

    def _is_drained(self) -> bool:
        """False: not yet, and nothing more is read until it is; or it failed."""
        if self._output.drain():
            return True
        self._drains = True
        self._pause()
        return False

    def _take(self, view: memoryview, packet: Packet) -> bool:
        """Note one packet and what to write of it; False if it, or one before, is corrupt."""
        _, sums_at, data_at, end, offset, seqno, last, sync = packet
        if seqno != HEART_BEAT_SEQNO:
            if seqno <= self._seqno:
                raise ProtocolError(f"packet {seqno} came after packet {self._seqno}")
            self._seqno = seqno
        pending = Unacked(seqno, offset + end - data_at, last, not sync)
        if end > data_at:
            if last or seqno == HEART_BEAT_SEQNO:
                name = "last packet of a block" if last else "heartbeat"
                raise ProtocolError(f"the {name} carries data")
            if not self._note(view[data_at:end], view[sums_at:data_at], offset, seqno):
                return False
        else:
            # Nobody checks where it says it is: it must not wait for bytes that never come.
            pending.end = min(offset, self._received)
            if last:
                self._last_seen = True
                self._ends_with_sync = sync
        self._unacked.add(pending)
        if sync or len(self._data) >= _RUN_PACKETS_MAX:
            if not self._check_noted():
                return False
            if self._write() and sync:
                self._sync(pending)
        return True

    def _note(self, data: memoryview, sums: memoryview, offset: int, seqno: int) -> bool:
        length, chunk_bytes = len(data), self._chunk_bytes
        into_chunk = offset % chunk_bytes
        if len(sums) != -(-length // chunk_bytes) * self._checksum_bytes:
            raise ProtocolError(f"{len(sums)} bytes of checksums for {length} bytes of data")
        if into_chunk and into_chunk + length > chunk_bytes:
            raise ProtocolError("a packet that starts inside a chunk goes beyond it")
        if offset > self._received:
            raise ProtocolError(f"packet at offset {offset} while {self._received} bytes are here")
        self._is_flushed = length < self._packet_bytes
        if not self._is_flushed:
            self._packet_bytes, self._packet_sums_bytes = length, len(sums)
        if offset == self._received and not into_chunk:
            self._data.append(data)
            self._sums.append(sums)
            self._noted.append(seqno)
            self._received += length
            return True
        if not self._check_noted():
            return False
        if self._verifier is not None and self._verifier.first_bad_chunk(data, sums) >= 0:
            self._refused = seqno
            return False
        if self._kept is not None:
            sums = memoryview(compute_checksums(self._kept, data))
        if self._write() and not self._output.write_over(data, sums, offset, into_chunk):
            self._refused = seqno
            return False
        self._received = max(self._received, self._replica.num_bytes)
        return True

    def _check_noted(self) -> bool:
        """Check all packets noted at once. Of a bad one and those behind it nothing is left."""
        if self._verifier is None or not self._data or self._refused is not None:
            return self._refused is None
        bad = self._verifier.first_bad_piece(self._data, self._sums)
        if bad < 0:
            return True
        self._refused = refused = self._noted[bad]
        self._unacked.forget_from(refused)
        self._received -= sum(map(len, self._data[bad:]))
        del self._data[bad:], self._sums[bad:], self._noted[bad:]
        return False

    def _write(self, beyond: int | None = None) -> bool:
        """Hand over all packets noted: one write for their data and one for their checksums."""
        if self._over:
            return False
        if not self._data:
            return True
        data, sums = self._data, self._sums
        self._data, self._sums, self._noted = [], [], []
        if self._kept is not None:
            sums = [memoryview(compute_checksums(self._kept, one)) for one in data]
        count = sum(map(len, data))
        if beyond is not None:
            return self._output.write_landed(sums, count, beyond)
        return self._output.write(data, sums, count)

    def _pause(self) -> None:
        self._is_paused = True
        self._upstream.pause()

    def _maybe_resume(self) -> None:
        mirror = self._mirror
        is_gone = self._unacked.mirror_is_gone
        is_held_up = mirror is not None and mirror.backlogged and not is_gone
        if not self._is_paused or self._over or self._drains or is_held_up:
            return
        if self._output.has_room:
            self._is_paused = False
            self._upstream.resume()

    def _on_output_moved(self) -> None:
        drained, self._drains = self._drains, False
        if drained and self._refused is not None:
            self._refuse()
            return
        self._unacked.send()
        self._maybe_resume()

    def _storage_failed(self, error: StorageError) -> None:
        self._context.log.error("write_failed", replica=self._replica, error=error)
        if not isinstance(error, CorruptionError):
            self._context.dataset.report_storage_error(self._replica.volume, error)
        self._end(False, f"can't write: {error}")

    def _sync(self, pending: Unacked) -> None:
        """The client asked for it; acks from here on wait for it."""
        # After the last packet the replica gets another name: that one is to be synced.
        names_it = not self._directory_synced and not pending.last
        directories = (self._replica.folder,) if names_it else ()
        self._directory_synced = self._files.is_lasting = True
        self._context.counters.syncs += 1

        def on_synced() -> None:
            pending.synced = True
            self._unacked.send()

        self._output.sync(directories, on_synced)

    # -- to the mirror -----------------------------------------------------------------

    def _forward(self, packets: Sequence[memoryview]) -> None:
        mirror = self._mirror
        assert mirror is not None
        mirror.send(packets)
        if mirror.backlogged:
            self._pause()

    def _on_mirror_taken(self) -> None:
        self._maybe_resume()

    def _on_mirror_acks(self) -> None:
        self._unacked.send()

    def _on_mirror_failed(self, reason: str) -> None:
        """Whoever is behind us is gone; the sender learns of it by our acks."""
        if self._over or self._unacked.mirror_is_gone:
            return
        assert self._mirror is not None
        if self._unacked.mirror_has_acked_all():
            return  # it has said all; we wait for our own disk
        self._context.counters.mirror_failures += 1
        self._context.log.warning("mirror_failed", replica=self._replica, reason=reason)
        self._unacked.on_mirror_gone()
        self._maybe_resume()

    def _on_blamed(self) -> None:
        """What we hold is what arrived there broken: it is us who are bad."""
        self._end(False, "the next node found our data corrupt")

    # -- the block's end ---------------------------------------------------------------

    def _finish(self, out: list[bytes]) -> None:
        """The last packet is safe: finalize, then say so."""
        if not self._files.is_lasting and not self._context.settings.sync_on_close:
            self._finalize()
            self._tell_end(out)
        elif self._output.unsynced:
            self._output.sync((), lambda: self._finalize_durably(out))
        else:
            self._finalize_durably(out)

    def _finalize_durably(self, out: list[bytes]) -> None:
        """The replica's new name, too, must be there after a power cut."""
        self._finalize()
        replica, dataset = self._replica, self._context.dataset
        if replica.state is not FINALIZED:
            self._tell_end(out)
            return

        def on_named(error: StorageError | None) -> None:
            if error is not None:
                self._context.log.error("name_not_synced", replica=replica, error=error)
                self._upstream.close(f"can't sync: {error}")
            self._tell_end(out)

        dataset.sync_place(replica, on_named)

    def _finalize(self) -> None:
        self._files.writer = None
        self._over = True
        self._unacked.stop()
        self._landing = None
        self._output.close(lambda: None)
        self._context.counters.blocks_written += 1
        if self._client_name:
            self._context.sync_habits.on_block_ended(self._client_name, self._ends_with_sync)
        self._on_last()

    def _tell_end(self, out: list[bytes]) -> None:
        self._is_answered = True
        if self._acks:
            self._upstream.send([b"".join(out)])
        if self._mirror is not None:
            self._mirror.close("the block is whole", after_sending=True)
        self._on_done(True)

    def _refuse(self) -> None:
        """A packet with wrong checksums: the good ones before it keep their acks, which come first.
        To the node before us an ack out of order would be our fault, and not its own."""
        assert self._refused is not None
        if not self._is_drained():
            return
        self._context.counters.checksum_failures += 1
        self._unacked.send()
        if self._over:
            return
        self._on_corrupt()
        if self._acks:
            replies = [int(Status.ERROR_CHECKSUM)]
            self._upstream.send([encode_ack(self._refused, replies)])
        self._end(False, "checksum error in a packet")

    # -- ends --------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Somebody else takes the replica: not a byte more from here."""
        self._end(False, reason)
        self._output.wait()

    def on_drained(self) -> None:
        return None

    def on_end(self) -> bool:
        """A writer that has sent its last packet may close its half and wait for our acks, however
        long syncs take."""
        return self._last_seen and not self._is_answered

    def on_closed(self, reason: str) -> None:
        self._end(False, reason)

    def _end(self, finalized: bool, reason: str) -> None:
        if self._over:
            return
        self._over = self._is_answered = True
        self._unacked.stop()
        self._landing = None
        self._context.log.info("write_given_up", replica=self._replica, reason=reason)
        if self._mirror is not None:
            self._mirror.close(reason)
        self._upstream.close(reason, after_sending=True)
        self._output.close(lambda: self._let_go(finalized))

    def _let_go(self, finalized: bool) -> None:
        """Not before the last write is done: until then we are who can be stopped."""
        if self._files.writer is self:
            self._files.writer = None
        self._on_done(finalized)

    @property
    def idle_timeout_ms(self) -> int:
        settings = self._context.settings
        return settings.socket_timeout_ms + settings.extension_ms
