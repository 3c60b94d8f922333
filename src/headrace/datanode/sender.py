"""Sends a replica, or a part of it: packets of checksums and data.

Owns: the packets of one READ_BLOCK, or of a copy to another node. Must not know: sockets.
Spec: BlockSender of Hadoop 3.5. Data leaves as file regions (sendfile); only checksums are read.

Invariants: what is sent starts at a chunk's start and ends at a chunk's end or the replica's;
of a replica that is being written nothing beyond the bytes on disk when the read began is sent,
and the last, partial chunk gets a checksum of exactly the bytes sent, not the file's, which
may be replaced at any time by the writer.
"""

import struct

from headrace.base.errors import CorruptionError
from headrace.base.storage import File, FileRegion
from headrace.datanode.block_files import read_checksum
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED
from headrace.datanode.errors import Refusal
from headrace.datanode.page_cache import ReadAdvice
from headrace.datanode.replica import Replica
from headrace.datanode.streams import Part, Stream
from headrace.wire.hadoop.block_meta import DataChecksum
from headrace.wire.hadoop.packets import encode_packet_header
from headrace.wire.hadoop.protos.data_transfer_pb2 import CachingStrategyProto

_AHEAD_BYTES = 4 * 1024 * 1024
"""Queued for a peer at once: enough that the next packet is there when one has left."""


class BlockSender:
    """Feeds a stream with packets. `send_more` after each `on_drained`, until `done`."""

    __slots__ = (
        "_advice",
        "_context",
        "_data",
        "_end",
        "_last_sum",
        "_meta",
        "_packet_bytes",
        "_position",
        "_seqno",
        "_with_checksums",
        "block_id",
        "checksum",
        "done",
        "start",
    )

    def __init__(
        self,
        context: Context,
        replica: Replica,
        offset: int,
        length: int,
        *,
        with_checksums: bool = True,
        caching: CachingStrategyProto | None = None,
    ) -> None:
        """`length` below zero means: to the end. Refusal if the range is not there."""
        available = replica.num_bytes
        if length < 0:
            length = available
            offset = 0
        if offset < 0 or offset > available or offset + length > available:
            raise Refusal(
                f" Offset {offset} and length {length} don't match block {replica} "
                f"( blockLen {available} )"
            )
        self._context = context
        self.block_id = replica.block_id
        storage = context.dataset.storage
        try:
            data_path, meta_path = replica.paths
            self._data: File = storage.open(data_path, read_only=True)
            self._meta: File = storage.open(meta_path, read_only=True)
        except FileNotFoundError as error:
            # Whoever deletes a replica forgets it first: this one went behind our back.
            path = str(error.filename)
            raise CorruptionError(path, 0, f"the file of {replica} is missing") from error
        self.checksum: DataChecksum = read_checksum(self._meta)
        chunk = self.checksum.bytes_per_checksum
        self.start = offset // chunk * chunk
        self._position = self.start
        self._end = min(available, self.checksum.chunk_count(offset + length) * chunk)
        self._with_checksums = with_checksums and self.checksum.size > 0
        self._packet_bytes = max(chunk, context.settings.read_packet_bytes // chunk * chunk)
        self._last_sum = b""
        if self._with_checksums and replica.stored_state is not FINALIZED:
            self._last_sum = self._checksum_of_tail(chunk)
        self._check_meta_size(replica)
        self._advice = ReadAdvice(
            context.page_cache,
            context.settings.caching,
            caching,
            self._data,
            self.start,
            self._end,
        )
        self._seqno = 0
        self.done = False

    def _checksum_of_tail(self, chunk: int) -> bytes:
        remainder = self._end % chunk
        if not remainder:
            return b""
        tail = self._data.read(self._end - remainder, remainder)
        return struct.pack(">I", self.checksum.function(tail))

    def _check_meta_size(self, replica: Replica) -> None:
        whole = self.checksum.meta_bytes(self._end) - len(self._last_sum)
        if self._with_checksums and self._meta.size() < whole:
            raise CorruptionError(self._meta.path, self._meta.size(), f"too short for {replica}")
        if self._data.size() < self._end:
            raise CorruptionError(self._data.path, self._data.size(), f"too short for {replica}")

    @property
    def data_bytes(self) -> int:
        return self._end - self.start

    def send_more(self, stream: Stream, before: bytes = b"") -> int:
        """Queue packets up to a bound, behind `before`; the bytes of data queued. `done` after the
        last packet. All of it is one `send`: a short read wakes its reader once."""
        # Nothing is queued now: what was sent before has left.
        self._advice.on_read(self._position)
        parts: list[Part] = []
        queued = 0
        while not self.done and queued < _AHEAD_BYTES:
            count = min(self._packet_bytes, self._end - self._position)
            parts.append(before + self._head_of(count))
            before = b""
            if count > 0:
                parts.append(FileRegion(self._data, self._position, count))
                self._position += count
                self._seqno += 1
                queued += count
        stream.send(parts)
        if self.done:
            self.close()
        return queued

    def _head_of(self, count: int) -> bytes:
        """What is before the next packet's data; of the last packet, which has none, all."""
        if count <= 0:
            self.done = True
            return encode_packet_header(0, 0, self._position, self._seqno, True)
        position = self._position
        sums = self._read_checksums(position, count) if self._with_checksums else b""
        return encode_packet_header(len(sums), count, position, self._seqno, False) + sums

    def _read_checksums(self, position: int, count: int) -> bytes:
        checksum = self.checksum
        wanted = checksum.checksum_bytes(count)
        ends_with_tail = self._last_sum and position + count == self._end
        if ends_with_tail:
            wanted -= len(self._last_sum)
        sums = self._meta.read(checksum.meta_position(position), wanted)
        if len(sums) < wanted:
            raise CorruptionError(self._meta.path, self._meta.size(), "too short for its block")
        return sums + self._last_sum if ends_with_tail else sums

    def close(self) -> None:
        """Regions on their way keep the data file alive; the descriptor goes with the last."""
        self._meta.close()
