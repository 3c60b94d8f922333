"""Snapshots as files beside the log: Kafka's names, Kafka's format.

    00000000000000000012-0000000003.checkpoint     everything before offset 12, whose entry before
                                                   that is of epoch 3
    control batch    SnapshotHeader, KRaftVersion, Voters
    data batches     the records of the state, offsets counted from the header on
    control batch    SnapshotFooter

Owns: names, writing and reading. Must not know: what a data record is, or when a snapshot is due.
Spec: KIP-630, KIP-853. Kafka's dump-log tool reads the files with `--cluster-metadata-decoder`.

Invariants: a file has its name only when all of it is synced; until then it has a suffix and is
removed at the next start. One without a footer, or with a wrong checksum, is damage.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from headrace.base.errors import CorruptionError, DiskFullError, StorageError
from headrace.base.limits import KIB
from headrace.base.storage import File, Storage
from headrace.quorum.batches import control_batch, voters_in
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.voters import KRAFT_VERSION_MAX, VoterSet
from headrace.wire.kafka.control_records import ControlRecordType, decode_control_key
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.kraft_version_record import KraftVersionRecord
from headrace.wire.kafka.messages.snapshot_footer_record import SnapshotFooterRecord
from headrace.wire.kafka.messages.snapshot_header_record import SnapshotHeaderRecord
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader, read_header
from headrace.wire.kafka.records import build_batch, is_crc_valid, read_records

CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_UNFINISHED = re.compile(r"\d{20}-\d{10}\.checkpoint(\.\d+)?\.(written|fetched)\Z")
WRITTEN, FETCHED = ".written", ".fetched"
BATCH_BYTES = 16 * KIB
"""A batch is closed when it holds so much; a larger record has one of its own."""

OnPublished = Callable[[StorageError | None], None]


def snapshot_name(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def find_snapshots(storage: Storage, folder: str) -> dict[SnapshotId, int]:
    """Ids and sizes of all in the folder. What was never finished goes."""
    found: dict[SnapshotId, int] = {}
    for name in storage.list(folder):
        match = CHECKPOINT.match(name)
        if match:
            id_ = SnapshotId(int(match[1]), int(match[2]))
            found[id_] = storage.size(f"{folder}/{name}")
        elif _UNFINISHED.match(name):
            storage.remove(f"{folder}/{name}")
    return found


# -- writing -----------------------------------------------------------------------------------


class SnapshotWriter:
    """Writes one snapshot, piece by piece. A child process may do it, too."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        snapshot_id: SnapshotId,
        voters: VoterSet,
        now_ms: int,
        last_contained_ms: int = 0,
    ) -> None:
        self.snapshot_id = snapshot_id
        self.folder = folder
        self.path = f"{folder}/{snapshot_name(snapshot_id)}{WRITTEN}"
        self._storage = storage
        self.file: File = storage.open(self.path, create=True)
        self._now_ms = now_ms
        self._next_offset = 0
        self._values: list[bytes] = []
        self._filled_bytes = 0
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_ms)
        records: list[tuple[ControlRecordType, Message, int]] = [
            (ControlRecordType.SNAPSHOT_HEADER, header, 0)
        ]
        if len(voters):
            version = KraftVersionRecord(kraft_version=KRAFT_VERSION_MAX)
            records.append((ControlRecordType.KRAFT_VERSION, version, 0))
            records.append((ControlRecordType.KRAFT_VOTERS, voters.to_record(), 0))
        try:
            self.file.truncate(0)
            self._write_control(records)
        except DiskFullError:
            self.abandon()
            raise

    def append(self, values: Sequence[bytes]) -> None:
        """Encoded records of the state."""
        for value in values:
            self._values.append(value)
            self._filled_bytes += len(value)
            if self._filled_bytes >= BATCH_BYTES:
                self._write_values()

    def finish(self) -> int:
        """The footer; the size of the file. It is neither synced nor named yet (`publish`)."""
        self._write_values()
        self._write_control([(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), 0)])
        return self.file.size()

    def abandon(self) -> None:
        """There is no room for it."""
        self.file.close()
        if self._storage.exists(self.file.path):
            self._storage.remove(self.file.path)

    def _write_values(self) -> None:
        values, self._values = self._values, []
        self._filled_bytes = 0
        if values:
            records = [(None, value, (), self._now_ms) for value in values]
            epoch = self.snapshot_id.epoch
            batch = build_batch(records, base_offset=self._next_offset, leader_epoch=epoch)
            self.file.write([batch])
            self._next_offset += len(values)

    def _write_control(self, records: list[tuple[ControlRecordType, Message, int]]) -> None:
        epoch = self.snapshot_id.epoch
        self.file.write([control_batch(records, self._now_ms, self._next_offset, epoch)])
        self._next_offset += len(records)


def publish(
    storage: Storage, folder: str, snapshot_id: SnapshotId, file: File, on_done: OnPublished
) -> None:
    """Sync, rename, sync the name: off the loop but for the rename."""
    target = f"{folder}/{snapshot_name(snapshot_id)}"

    def on_synced(error: StorageError | None) -> None:
        if error is None:
            try:
                storage.rename(file.path, target)
            except StorageError as refused:
                error = refused
            except FileNotFoundError as missing:
                error = StorageError(file.path, missing)
        if error is not None:
            on_done(error)
        else:
            storage.sync(file, on_named, [folder])

    def on_named(error: StorageError | None) -> None:
        file.close()
        on_done(error)

    storage.sync(file, on_synced)


def write_bootstrap_snapshot(
    storage: Storage, folder: str, voters: VoterSet, now_ms: int
) -> SnapshotId:
    """What formatting a disk leaves: the voters of a new quorum, before any entry. Synced."""
    snapshot_id = SnapshotId(0, 0)
    storage.make_directory(folder)
    writer = SnapshotWriter(storage, folder, snapshot_id, voters, now_ms)
    writer.finish()
    storage.sync_now(writer.file)
    storage.rename(writer.path, f"{folder}/{snapshot_name(snapshot_id)}")
    writer.file.close()
    storage.sync_directory(folder)
    return snapshot_id


# -- reading -----------------------------------------------------------------------------------


def read_snapshot(file: File) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of a snapshot, each with a good checksum; `CorruptionError` if one is missing."""
    position, size = 0, file.size()
    last_type: ControlRecordType | None = None
    while position < size:
        header, batch = _read_batch(file, position, size)
        last_type = None
        if header.is_control:
            types = [decode_control_key(record.key or b"") for record in read_records(batch)]
            last_type = types[-1]
            if position == 0 and types[0] is not ControlRecordType.SNAPSHOT_HEADER:
                raise CorruptionError(file.path, 0, "a snapshot begins with its header")
        elif position == 0:
            raise CorruptionError(file.path, 0, "a snapshot begins with its header")
        yield header, batch
        position += header.size_bytes
    if last_type is not ControlRecordType.SNAPSHOT_FOOTER:
        raise CorruptionError(file.path, position, "a snapshot ends with its footer")


def _read_batch(file: File, position: int, size: int) -> tuple[BatchHeader, bytes]:
    head = file.read(position, HEADER_BYTES)
    if len(head) == HEADER_BYTES:
        header = read_header(head)
        if HEADER_BYTES <= header.size_bytes <= size - position:
            batch = file.read(position, header.size_bytes)
            if len(batch) == header.size_bytes and is_crc_valid(batch):
                return header, batch
    raise CorruptionError(file.path, position, "not a sound batch")


def read_snapshot_voters(storage: Storage, folder: str, snapshot_id: SnapshotId) -> VoterSet:
    """The voters that a snapshot holds; none if it is older than their record. Reads up to the
    first data batch: voters come before."""
    file = storage.open(f"{folder}/{snapshot_name(snapshot_id)}", read_only=True)
    try:
        return voters_of_batches(read_snapshot(file), stop_at_data=True)
    finally:
        file.close()


def voters_of_batches(
    batches: Iterator[tuple[BatchHeader, bytes]], *, stop_at_data: bool = False
) -> VoterSet:
    voters = VoterSet()
    for header, batch in batches:
        if header.is_control:
            voters = voters_in(batch) or voters
        elif stop_at_data:
            break
    return voters
