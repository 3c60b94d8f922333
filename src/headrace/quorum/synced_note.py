"""`quorum-synced`: how far a replica's log reached, in a file that the log's own damage spares.

    slot 0, slot 1     sequence u64, epoch i32, end offset i64, CRC-32 of these u32, big-endian

Owns: the form of the file and its two slots. Must not know: what a lack means (`LogView.had`).

Recovery cuts a torn tail, and can't tell a batch that was never synced from one that was, that a
majority counted on, and that a failing disk has lost since. This note can: a log that ends before
it lacks something. Without it (three voters, an entry on 1 and 2):

1. The end of the log of 2 is damaged, and cut at its start.
2. 1 is away. 2 and 3, whose logs are equally short, elect 3: a committed entry is lost.

The note is written behind each sync and before anything that follows from it leaves, and not synced
itself: the end of a process keeps it, a power cut may bring an older one back, which says less and
nothing wrong. Only where a leader asks for less of the log than is noted is it lowered, synced,
before the log is.

Invariants: after any crash, what the note says was synced before, and was not cut off by a leader;
a write that tears one slot leaves the other.
"""

import struct
import zlib
from contextlib import suppress

from headrace.base.errors import DiskFullError
from headrace.base.storage import File, Storage
from headrace.quorum.log_view import SnapshotId

QUORUM_SYNCED = "quorum-synced"
_SLOT = struct.Struct(">QiqI")
_SLOTS = 2


def read_synced_note(storage: Storage, folder: str) -> tuple[int, SnapshotId | None]:
    """Sequence and end; no end where there is no such file, or nothing sound in it."""
    path = f"{folder}/{QUORUM_SYNCED}"
    if not storage.exists(path):
        return 0, None
    content = storage.read_file(path)
    best: tuple[int, SnapshotId | None] = (0, None)
    for start in range(0, len(content) - _SLOT.size + 1, _SLOT.size):
        sequence, epoch, end_offset, crc = _SLOT.unpack_from(content, start)
        if crc == _crc(content[start : start + _SLOT.size]) and sequence > best[0]:
            best = sequence, SnapshotId(end_offset, epoch)
    return best


def _crc(slot: bytes) -> int:
    return zlib.crc32(slot[:-4])


def _encode(sequence: int, end: SnapshotId) -> bytes:
    head = _SLOT.pack(sequence, end.epoch, end.end_offset, 0)[:-4]
    return head + zlib.crc32(head).to_bytes(4)


class SyncedNote:
    """The file of a replica that runs."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._sequence, self.end = read_synced_note(storage, folder)
        self._path = f"{folder}/{QUORUM_SYNCED}"
        self._file: File | None = None

    def raise_to(self, end: SnapshotId) -> None:
        """The log is synced so far. Without room it is for the next time."""
        if self.end is None or _key(end) > _key(self.end):
            with suppress(DiskFullError):
                self._write(end)

    def lower_to(self, end: SnapshotId) -> None:
        """What is behind it was never committed, and goes. Durable on return: rare, and a note that
        came back would keep a sound voter from voting. In both slots: if one is damaged later, the
        other says nothing else."""
        if self.end is not None and _key(end) < _key(self.end):
            self._write(end)
            self._storage.sync_now(self._write(end))

    def _write(self, end: SnapshotId) -> File:
        file = self._file
        if file is None:
            file = self._file = self._opened()
        self._sequence += 1
        file.write_at(self._sequence % _SLOTS * _SLOT.size, _encode(self._sequence, end))
        self.end = end
        return file

    def _opened(self) -> File:
        """With both slots, so that no later write needs room."""
        if not self._storage.exists(self._path):
            self._storage.replace_file(self._path, bytes(_SLOTS * _SLOT.size), sync=False)
        return self._storage.open(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _key(end: SnapshotId) -> tuple[int, int]:
    """Logs are compared by their last epoch first."""
    return end.epoch, end.end_offset
