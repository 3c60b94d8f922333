"""One `.cleaned` segment while it is written: its log, its indexes, its aborted transactions.

Owns: these four files up to the moment when they are durable under the suffix `.cleaned`.
Must not know: which records stay, how they take the place of others (`swapping`).
"""

from collections.abc import Sequence

from headrace.base.storage import Storage
from headrace.log import txn_index
from headrace.log.compaction.engine import Buffer
from headrace.log.offset_index import OffsetIndex
from headrace.log.segment_files import NO_TIMESTAMP, stem_of
from headrace.log.time_index import TimeIndex
from headrace.log.txn_index import AbortedTransaction

CLEANED = ".cleaned"
WRITE_BYTES = 1 << 20


class CleanedFiles:
    def __init__(
        self, storage: Storage, folder: str, base_offset: int, interval_bytes: int
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._stem = stem_of(folder, base_offset)
        self._interval_bytes = interval_bytes
        self._file = storage.open(f"{self._stem}.log{CLEANED}", create=True)
        self._file.truncate(0)
        self._index = OffsetIndex(base_offset)
        self._times = TimeIndex(base_offset)
        self._buffers: list[Buffer] = []
        self._buffered_bytes = 0
        self._since_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self.base_offset = base_offset
        self.size = 0

    def add(self, content: Buffer, marks: Sequence[Sequence[int]]) -> None:
        """Batches, and of each its size, last offset and max timestamp."""
        self._buffers.append(content)
        self._buffered_bytes += len(content)
        if self._buffered_bytes >= WRITE_BYTES:
            self._write()
        position, since_entry = self.size, self._since_entry
        interval = self._interval_bytes
        for size, last_offset, max_timestamp in marks:
            if max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
            if since_entry > interval:
                self._index.append(last_offset, position)
                self._times.maybe_append(self._max_timestamp, self._max_timestamp_offset)
                since_entry = 0
            since_entry += size
            position += size
        self.size, self._since_entry = position, since_entry

    def finish(self, aborted: list[AbortedTransaction]) -> None:
        """Everything is durable when this returns, the directory's names excepted."""
        self._write()
        self._storage.sync_now(self._file)
        self._file.close()
        self._times.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self._store(".index", self._index.encode())
        self._store(".timeindex", self._times.encode())
        if aborted:
            self._store(txn_index.SUFFIX, txn_index.encode(aborted))

    def _write(self) -> None:
        if self._buffers:
            self._file.write(self._buffers)
        self._buffers = []
        self._buffered_bytes = 0

    def _store(self, suffix: str, content: bytes) -> None:
        file = self._storage.open(f"{self._stem}{suffix}{CLEANED}", create=True)
        file.truncate(0)
        file.write([content])
        self._storage.sync_now(file)
        file.close()
