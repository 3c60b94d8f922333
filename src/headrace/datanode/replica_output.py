"""What a receiver puts on disk: the bytes of one replica and their checksums, in step.

Owns: the two files while they are written, what is held back until it fills pages, syncs.
Must not know: packets, acks, the mirror (`receiver`).

Usually what comes is written at once. A replica that its writer is going to sync goes around the
page cache once it is large (`base.storage.DirectWriter`): its bytes have to reach the disk before
the end anyway, and the cache would cost more CPU than all the rest. That takes whole pages and
time, so bytes are held and written while others come in:

    file    | written                    | under way    | held   |
            0                            num_bytes             received
    buffer                               | under way    | held   | beyond |  room |

1. `write` lays what came behind what is held, if it has not landed there by itself (`room`); what
   is beyond belongs to a packet that is not whole yet. Without a write under way, and with enough
   held, the whole pages of it get under way. What follows goes to the buffer's front if there is
   more room.
2. When they are written, so are their checksums; `num_bytes` moves, and the receiver may ack.
3. What is held is at most what came meanwhile. If nothing more comes for some milliseconds, or a
   packet is shorter than those before it (a writer that flushes), it is written at once, by the
   page cache. So it is when `drain` asks for it: at the end, for a sync, for bytes that come again.

A page is never written by both ways: behind what went by the page cache the rest of its last page
goes there as well.

Invariants: `replica.num_bytes` counts only bytes that are in the file and have their checksums in
the meta file; they get there in order; nothing is written after `wait` by somebody who took the
replica over.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from headrace.base.errors import StorageError
from headrace.base.limits import PAGE_BYTES, RECEIVE_BUFFER_BYTES
from headrace.base.storage import DirectWriter
from headrace.datanode.block_files import read_partial_chunk
from headrace.datanode.chunk_checksums import first_bad_chunk
from headrace.datanode.context import MIB, Context
from headrace.datanode.page_cache import WriteAdvice
from headrace.datanode.replica import Pipeline, Replica
from headrace.wire.hadoop.protos.data_transfer_pb2 import CachingStrategyProto

_DIRECT_FROM_BYTES: Final = MIB
"""Small replicas stay in the page cache: they are read again soon, or cost little."""
_DIRECT_READ_BYTES_MIN: Final = 256 * 1024
"""A stream that brings so much at once is a fast one."""
_DIRECT_BYTES_MIN: Final = 512 * 1024
_HELD_MS: Final = 5
"""A stream is seldom silent for so long in its middle, and a writer that waits can bear it."""

Views = Sequence[memoryview]


class ReplicaOutput:
    def __init__(
        self,
        context: Context,
        replica: Replica,
        caching: CachingStrategyProto | None,
        *,
        will_be_synced: bool,
        on_moved: Callable[[], None],
        on_failed: Callable[[StorageError], None],
    ) -> None:
        """`on_moved`: more is written, or there is room again."""
        assert replica.pipeline is not None
        self._context = context
        self._replica = replica
        self._files: Pipeline = replica.pipeline
        self._checksum = self._files.checksum
        self._on_moved = on_moved
        self._on_failed = on_failed
        advice = WriteAdvice(
            context.page_cache,
            context.settings.caching,
            caching,
            self._files.data,
            replica.num_bytes,
            will_be_synced=will_be_synced,
        )
        self._advice = None if advice.is_idle else advice
        chunk_bytes = self._checksum.bytes_per_checksum
        self.may_go_around = (
            not advice.is_idle and context.settings.direct_writes and PAGE_BYTES % chunk_bytes == 0
        )
        self._direct: DirectWriter | None = None
        self._begin = self._end = self._limit = 0
        """What is held, and where its room ends, as positions in the direct writer's buffer."""
        self.beyond = 0
        """So many bytes behind it belong to nobody yet, and move with it."""
        self._sums = bytearray()
        """Checksums of what is under way and held."""
        self._under_way_bytes = 0
        self._drains = False
        self._watched_bytes = -1
        """How much had come when a look was due; -1: none is."""
        self._is_closed = False
        self._then: Callable[[], None] | None = None
        self._syncs: list[tuple[tuple[str, ...], Callable[[], None]]] = []
        """Those that wait for what is under way."""
        self.unsynced = replica.num_bytes > 0
        """Something was written since the last sync was begun, or may have been by a writer before
        this one, whose pipeline goes on here."""

    # -- writing -----------------------------------------------------------------------

    @property
    def room(self) -> memoryview | None:
        """Where data may land that is to be written next, `beyond` being the first of it."""
        direct = self._direct
        return None if direct is None else direct.buffer[self._end : self._limit]

    @property
    def has_room(self) -> bool:
        """For a whole read. Smaller ones would be many, and each costs CPU of its own."""
        return self._direct is None or self._limit - self._end >= RECEIVE_BUFFER_BYTES

    def write_landed(self, sums: Views, count: int, beyond: int) -> bool:
        """Take `count` bytes, which begin a chunk and have landed in the room, with more beyond."""
        self._end += count
        self.beyond = beyond
        try:
            self._hold_landed(sums, count)
        except StorageError as error:
            self._on_failed(error)
            return False
        return True

    def write(self, data: Views, sums: Views, count: int) -> bool:
        """Take `count` bytes, which begin a chunk; False if the disk refused."""
        try:
            if self._goes_around(count):
                self._hold(data, sums, count)
            else:
                self._write_at_once(data, sums, count)
        except StorageError as error:
            self._on_failed(error)
            return False
        return True

    def _goes_around(self, count: int) -> bool:
        if self._direct is not None:
            return True
        if (
            not self.may_go_around
            or count < _DIRECT_READ_BYTES_MIN
            or self._replica.num_bytes < _DIRECT_FROM_BYTES
        ):
            return False
        self._direct = self._context.dataset.storage.direct_writer(self._files.data)
        if self._direct is None:
            self.may_go_around = False
            return False
        self._limit = len(self._direct.buffer)
        return True

    def _write_at_once(self, data: Views, sums: Views, count: int) -> None:
        self._files.data.write(data)
        self._count_written(count, sums)
        if self._advice is not None:
            self._advice.on_written(self._replica.num_bytes)

    def _count_written(self, count: int, sums: Sequence[memoryview | bytearray]) -> None:
        """So many bytes more are in the file: their checksums follow, and then they count."""
        if self._checksum.size:
            self._files.meta.write(sums)
        self._replica.num_bytes += count
        self._context.counters.bytes_written += count
        self.unsynced = True

    def write_over(self, data: memoryview, sums: memoryview, offset: int, into_chunk: int) -> bool:
        """What starts below the end: a partial chunk goes on, or bytes come again. Nothing is held.

        Data that is here stays as it is (readers may be at it); checksums are replaced. False if
        they do not fit what is here.
        """
        files, checksum, replica = self._files, self._checksum, self._replica
        end = offset + len(data)
        if end <= replica.num_bytes:
            return True
        try:
            fresh = data[replica.num_bytes - offset :]
            if checksum.size == 0:
                files.data.write([fresh])
            elif into_chunk:
                if first_bad_chunk(checksum, data, sums) >= 0:
                    return False
                crc = read_partial_chunk(files.data, files.meta, checksum, replica.num_bytes)
                crc = checksum.function(fresh, crc)
                files.data.write([fresh])
                files.meta.write_at(checksum.meta_position(offset), struct.pack(">I", crc))
            else:
                files.data.write([fresh])
                files.meta.write_at(checksum.meta_position(offset), sums)
        except StorageError as error:
            self._on_failed(error)
            return True
        replica.num_bytes = end
        self.unsynced = True
        self._context.counters.bytes_written += len(fresh)
        return True

    # -- around the page cache ---------------------------------------------------------

    def _hold(self, data: Views, sums: Views, count: int) -> None:
        direct = self._direct
        assert direct is not None
        if count > self._limit - self._end:
            # Only a packet of many MiB: it is not worth a way of its own.
            if not self.drain():
                direct.wait()
            if not self._is_closed:
                self._write_at_once(data, sums, count)
            return
        buffer, end = direct.buffer, self._end
        for view in data:
            buffer[end : end + len(view)] = view
            end += len(view)
        self._end = end
        self._hold_landed(sums, count)

    def _hold_landed(self, sums: Views, count: int) -> None:
        """The last `count` bytes that are held came now."""
        for view in sums:
            self._sums += view
        if not self._under_way_bytes and self._end - self._begin == count:
            ahead = min(-self._replica.num_bytes % PAGE_BYTES, count)
            if ahead:  # the rest of a page goes where its beginning went
                self._write_by_cache(ahead)
                self._move_to(0)
        self._advance()

    def _advance(self) -> None:
        """Get the next pages under way, or look after what is held."""
        held = self._end - self._begin
        if self._under_way_bytes or not held:
            return
        if held < _DIRECT_BYTES_MIN:
            if self._watched_bytes < 0:
                self._watch()
            return
        direct, start = self._direct, self._begin
        assert direct is not None
        self._under_way_bytes = count = held // PAGE_BYTES * PAGE_BYTES
        self._begin += count
        if start > self._limit - self._begin and held - count + self.beyond < start:
            self._move_to(0)
            self._limit = start
        direct.append(start, count, self._on_written)

    def _on_written(self, error: StorageError | None) -> None:
        count, self._under_way_bytes = self._under_way_bytes, 0
        assert self._direct is not None
        self._limit = len(self._direct.buffer)
        try:
            if error is not None:
                raise error
            self._count_held(count)
            if self._drains and not self._is_closed:
                self._write_held()
        except StorageError as failure:
            self._on_failed(failure)
        if self._is_closed:
            self._let_go()
            return
        self._drains = False
        if self._end - self._begin < _DIRECT_BYTES_MIN:
            self._move_to(0)
        self._advance()
        syncs, self._syncs = self._syncs, []
        for directories, then in syncs:
            self._sync_written(directories, then)
        if not self._is_closed:
            self._on_moved()

    def _count_held(self, count: int) -> None:
        sums_bytes = self._checksum.checksum_bytes(count)
        self._count_written(count, [self._sums[:sums_bytes]])
        del self._sums[:sums_bytes]

    def _move_to(self, place: int) -> None:
        """What is held, and what is beyond."""
        assert self._direct is not None
        buffer, begin, held = self._direct.buffer, self._begin, self._end - self._begin
        count = held + self.beyond
        buffer[place : place + count] = buffer[begin : begin + count]
        self._begin, self._end = place, place + held

    def _write_held(self) -> None:
        """Nothing is under way: what is held goes by the page cache."""
        held = self._end - self._begin
        if held:
            self._write_by_cache(held)
            self._move_to(0)

    def _write_by_cache(self, count: int) -> None:
        """The first of what is held."""
        assert self._direct is not None
        begin = self._begin
        self._files.data.write([self._direct.buffer[begin : begin + count]])
        self._begin += count
        self._count_held(count)

    def _watch(self) -> None:
        self._watched_bytes = self._replica.num_bytes + self._end - self._begin
        self._context.timers.call_later(_HELD_MS, self._look)

    def _look(self) -> None:
        watched, self._watched_bytes = self._watched_bytes, -1
        if self._is_closed or self._under_way_bytes or self._end == self._begin:
            return
        if self._replica.num_bytes + self._end - self._begin > watched:
            self._watch()
        elif self.drain():
            self._on_moved()

    def drain(self) -> bool:
        """Have all that was taken written. False: not yet, `on_moved` follows; or it failed."""
        if self._direct is None:
            return True
        if self._under_way_bytes:
            self._drains = True
            return False
        try:
            self._write_held()
        except StorageError as error:
            self._on_failed(error)
            return False
        return True

    # -- syncs and the end -------------------------------------------------------------

    def sync(self, directories: tuple[str, ...], then: Callable[[], None]) -> None:
        """fdatasync all data that was taken and its checksums, and go on with `then` if that is
        still wanted. What is held or under way is written first: a sync covers only what is in the
        file when it begins."""
        if self.drain():
            self._sync_written(directories, then)
        else:
            self._syncs.append((directories, then))

    def _sync_written(self, directories: tuple[str, ...], then: Callable[[], None]) -> None:
        storage, files = self._context.dataset.storage, self._files
        self.unsynced = False
        left = 2

        def on_synced(error: StorageError | None) -> None:
            nonlocal left
            left -= 1
            if self._is_closed:
                return
            if error is not None:
                self._on_failed(error)
            elif left == 0:
                then()

        storage.sync(files.data, on_synced)
        storage.sync(files.meta, on_synced, directories)

    def wait(self) -> None:
        """After `close`: return when nothing is under way."""
        if self._direct is not None:
            self._direct.wait()

    def close(self, then: Callable[[], None]) -> None:
        """No more of it; `then` as soon as nothing is under way. What is held was never acked."""
        self._is_closed = True
        self._then = then
        if not self._under_way_bytes:
            self._let_go()

    def _let_go(self) -> None:
        direct, self._direct = self._direct, None
        if direct is not None:
            direct.close()
        then, self._then = self._then, None
        if then is not None:
            then()
