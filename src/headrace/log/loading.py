"""From recovered segments to everything a partition's log knows: epochs and producers.

Owns: reading the leader-epoch checkpoint and producer snapshots, and building both anew from
batch headers where the files are missing, damaged or older than the log.
Must not know: how segments were recovered.

Invariant: what comes out describes exactly the batches below the log end offset.
"""

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

from headrace.base.errors import CorruptionError
from headrace.base.storage import Storage
from headrace.log import checkpoints, producer_snapshot
from headrace.log.epochs import LeaderEpochs
from headrace.log.producers import Producers
from headrace.log.segment import Segment
from headrace.log.transactions import apply_batch
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import BatchHeader

STEP_BATCHES = 4096
SNAPSHOT_NAME = re.compile(r"(\d{20})\.snapshot\Z")

Steps = Generator[int, None, None]
T = TypeVar("T")


def run(steps: Generator[int, None, T]) -> T:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def epochs_unknown_from(segments: list[Segment], recovery_point: int) -> int:
    """After a crash the checkpoint may lack epochs from here on, and batch headers must tell.

    The base offset of the segment before the recovery point: at a roll the point may reach the
    new segment's base a moment before the checkpoint is synced.
    """
    bases = [segment.base_offset for segment in segments]
    return max([bases[0], *(base for base in bases if base < recovery_point)])


def load_epochs(
    storage: Storage, folder: str, segments: list[Segment], unknown_from: int
) -> Generator[int, None, LeaderEpochs]:
    """From the checkpoint, and from the headers of what it may not know yet."""
    path = f"{folder}/{checkpoints.LEADER_EPOCHS}"
    entries: list[tuple[int, int]] = []
    is_whole = storage.exists(path)
    if is_whole:
        try:
            entries = checkpoints.read_epochs(storage, path)
        except CorruptionError:
            is_whole = False
    epochs = LeaderEpochs(entries)
    start = unknown_from if is_whole else segments[0].base_offset
    end_offset = segments[-1].last_offset() + 1
    changed = not is_whole
    # An epoch may start at the end: elected, and nothing written yet.
    changed |= epochs.truncate_from_end(end_offset + 1)
    for count, (_, _, header) in enumerate(batches_from(segments, start)):
        changed |= epochs.assign(header.partition_leader_epoch, header.base_offset)
        if count % STEP_BATCHES == 0:
            yield 0
    if changed and epochs.entries:
        checkpoints.write_epochs(storage, path, epochs.entries)
    return epochs


def load_producers(
    storage: Storage, folder: str, segments: list[Segment], log_end_offset: int, scanned_from: int
) -> Generator[int, None, Producers]:
    """From the newest good snapshot that is no newer than `scanned_from`, and the batches behind.

    What was scanned is replayed whole: that rebuilds its transaction indexes too.
    """
    producers = Producers()
    producers.end_offset = segments[0].base_offset
    for offset in snapshot_offsets(storage, folder):
        path = snapshot_path(folder, offset)
        entries = None
        if offset <= log_end_offset:
            entries = producer_snapshot.decode(storage.read_file(path))
        if entries is None:
            # Of batches that are gone, or damaged: it must never be believed later.
            storage.remove(path)
        elif offset <= scanned_from:
            producers.restore(entries, offset)
            break
    yield from _replay(producers, segments, log_end_offset)
    return producers


def _replay(producers: Producers, segments: list[Segment], log_end_offset: int) -> Steps:
    """Apply the batches from the producers' end offset up to the log's."""
    start = producers.end_offset
    aborted: dict[int, list[AbortedTransaction]] = {}
    for count, (segment, position, header) in enumerate(batches_from(segments, start)):
        if header.base_offset < start:
            # The snapshot was made in the midst of this batch: not one of ours, and applied.
            continue
        if header.producer_id >= 0:
            completed = apply_batch(producers, segment, position, header)
            if completed is not None and completed.is_aborted:
                of_segment = aborted.setdefault(segment.base_offset, [])
                of_segment.append(completed.aborted(producers))
        if count % STEP_BATCHES == 0:
            yield 0
    producers.end_offset = log_end_offset
    for segment in segments:
        if segment.base_offset >= start or segment.base_offset in aborted:
            segment.replace_aborted(start, aborted.get(segment.base_offset, []))


def batches_from(
    segments: list[Segment], offset: int
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Every batch that ends at or behind `offset`."""
    for slot, segment in enumerate(segments):
        if slot + 1 < len(segments) and segments[slot + 1].base_offset <= offset:
            continue
        if segment.size == 0:
            continue
        start = segment.locate(offset)[0] if offset > segment.base_offset else 0
        for position, header in segment.headers(start):
            yield segment, position, header


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020d}{producer_snapshot.SUFFIX}"


def snapshot_offsets(storage: Storage, folder: str) -> list[int]:
    """Of all snapshots in the folder, newest first."""
    matches = map(SNAPSHOT_NAME.match, storage.list(folder))
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def agree_start(log_start_offset: int, epochs: LeaderEpochs) -> int:
    """The log's start, as far as the epochs bear it out.

    Deleting records moves the first epoch's start before the checkpoint is written. A checkpoint
    that says more than the epochs is damaged, and would let retention delete good segments.
    """
    if not epochs.start_offsets:
        return log_start_offset
    return min(log_start_offset, epochs.start_offsets[0])


def agree_topic_id(storage: Storage, path: str, topic_id: bytes) -> bytes:
    """The id in `partition.metadata`; where that says nothing sensible, ours is written.

    The caller has it from the committed metadata; the file is for who has only the folder.
    """
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    try:
        stored = checkpoints.read_topic_id(storage, metadata)
    except CorruptionError:
        if not any(topic_id):
            raise
        stored = None
    if stored is not None and (not any(topic_id) or stored == topic_id):
        return stored
    if stored is not None and not checkpoints.is_damaged_copy(stored, topic_id):
        raise CorruptionError(metadata, 0, "the folder belongs to another topic id")
    if any(topic_id):
        checkpoints.write_topic_id(storage, metadata, topic_id, sync=False)
    return topic_id
