"""Bringing a partition's folder back after any kind of stop.

Owns: the order of steps from a list of file names to a log that can be served, and the
judgement of damage. Must not know: directories of partitions, checkpoints of offsets (arguments).

After a clean stop nothing is scanned. After any other, the segments from the recovery point on
are read whole, every batch's CRC checked; of those before only the end is looked at:

- Damage with nothing good behind it in the same file is a torn tail: it was never synced, it
  is cut off, and with it go the later segments (none of them can have been synced either).
- Damage with a good batch behind it, or any loss below the recovery point, is not what a crash
  does. `CorruptionError` names file and position; the partition stays offline, nothing is cut.
- No segment at all where something was synced is such a loss too, and so is one that ends before
  the next begins.

Where zeros are written ahead of the end (`fill_ahead_bytes`) nothing but zeros behind the last good
batch is such an end: they are taken away and that is all. A torn batch before them is a torn tail,
a good one behind them damage, as everywhere.

Whoever opens the folder is told before anything is cut (`Folder.before_cut`): a tail is torn by a
power cut, and where there was none the log may lack what others were told it has.

Spec: Kafka's LogLoader, save that Kafka cuts in the second case too. KAFKA-12520, KAFKA-13603.

Invariants: every step may be interrupted and the whole begun anew (files go from the end of the
log backwards); a generator step reads at most `STEP_BYTES` or one batch.
"""

import re
import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.base.errors import CorruptionError, DiskFullError
from headrace.base.storage import File
from headrace.log.batches import fault_of, header_at, walk
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.leftovers import tidy
from headrace.log.offset_index import ENTRY_BYTES
from headrace.log.segment import Segment
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader, crc_of, read_header

STEP_BYTES = 1 << 20
STEP_BATCHES = 4096
LOG_NAME = re.compile(r"(\d{20})\.log\Z")

Steps = Generator[int, None, None]
"""Yields the number of bytes read since the last step."""


@dataclass(slots=True)
class Recovered:
    """What recovery found and did."""

    segments: list[Segment] = field(default_factory=list)
    log_end_offset: int = 0
    scanned_from: int = 0
    """Base offset of the first segment that was read whole."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    dropped_segments: int = 0
    missing_up_to: int = 0
    """Records up to here were committed and are not here: the last high watermark that was noted.
    0 where the log reaches as far."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where and how to recover."""

    files: FileBudget
    path: str
    config: LogConfig
    now_ms: int
    may_have_gaps: bool = False
    """Compaction may have left out offsets."""
    before_cut: Callable[[], None] | None = None
    """Called before bytes go, so that a stop in between can't hide that they were there."""

    def segment(self, base_offset: int, size: int) -> Segment:
        return Segment(
            self.files,
            self.path,
            base_offset,
            size,
            self.now_ms,
            interval_bytes=self.config.index_interval_bytes,
            index_bytes_max=self.config.segment_index_bytes,
            fill_ahead_bytes=self.config.fill_ahead_bytes,
        )


def recover(
    folder: Folder, *, clean: bool, recovery_point: int, log_start_offset: int
) -> Generator[int, None, Recovered]:
    recovered = Recovered()
    recovered.segments = segments = _find_segments(folder)
    if not clean and segments:
        yield from _scan(folder, recovered, recovery_point)
    if segments:
        try:
            recovered.log_end_offset = segments[-1].last_offset() + 1
        except CorruptionError:
            # Something came behind a clean end, or damaged it: only a scan can tell.
            yield from _scan(folder, recovered, max(recovery_point, segments[-1].base_offset))
            recovered.log_end_offset = segments[-1].last_offset() + 1
        _check_end(recovered, max(recovery_point, log_start_offset))
    else:
        if recovery_point > log_start_offset:
            reason = f"no segment is left, but the log was synced up to {recovery_point}"
            raise CorruptionError(folder.path, 0, reason)
        segment = folder.segment(log_start_offset, 0)
        segment.create()
        segments.append(segment)
        recovered.log_end_offset = log_start_offset
    return recovered


def _find_segments(folder: Folder) -> list[Segment]:
    storage = folder.files.storage
    tidy(storage, folder.path)
    segments: list[Segment] = []
    for name in storage.list(folder.path):
        match = LOG_NAME.match(name)
        if match:
            size = storage.size(f"{folder.path}/{name}")
            segments.append(folder.segment(int(match[1]), size))
    segments.sort(key=lambda segment: segment.base_offset)
    return segments


def _check_end(recovered: Recovered, recovery_point: int) -> None:
    last, end = recovered.segments[-1], recovered.log_end_offset
    if end < recovery_point:
        raise CorruptionError(
            last.log.path,
            last.size,
            f"the log ends at offset {end}, but was synced up to {recovery_point}",
        )


def _scan(folder: Folder, recovered: Recovered, recovery_point: int) -> Steps:
    """Read the segments from the recovery point on; cut what never was whole."""
    segments = recovered.segments
    first = 0
    for slot, segment in enumerate(segments):
        if segment.base_offset <= recovery_point:
            first = slot
    recovered.scanned_from = segments[first].base_offset
    if not folder.may_have_gaps:
        yield from _check_ends(folder, segments[: first + 1])
    slot = first
    while slot < len(segments):
        segment = segments[slot]
        scan = SegmentScan(segment, may_have_gaps=folder.may_have_gaps)
        yield from scan.steps()
        recovered.scanned_bytes += segment.size
        if _ends_in_zeros(folder, segment, scan, recovery_point):
            _take_zeros(folder, segment, scan)
        if scan.fault is not None:
            _check_synced(segment, scan, recovery_point)
            _tell_of_cut(folder)
            recovered.cut_bytes += segment.size - scan.position
            segment.log.get().truncate(scan.position)
            segment.size = scan.position
        following = segments[slot + 1] if slot + 1 < len(segments) else None
        segment.seal_time_index()
        is_saved = _save_indexes(segment)
        if following is not None:
            if is_saved:
                segment.forget_indexes()
            if scan.fault is not None or _breaks(folder, scan, following):
                if scan.next_offset < recovery_point:
                    _raise_missing(segment, scan, recovery_point)
                _tell_of_cut(folder)
                _drop(folder, recovered, slot + 1)
        slot += 1
    if recovered.cut_bytes or recovered.dropped_segments:
        _make_durable(folder, segments[-1])


def _save_indexes(segment: Segment) -> bool:
    """False if there is no room: they stay in memory, and the next opening does without."""
    try:
        segment.save_indexes()
    except DiskFullError:
        return False
    return True


def _check_ends(folder: Folder, segments: list[Segment]) -> Steps:
    """Each of these but the last, which is scanned, reaches to where the next begins, and its last
    batch is whole."""
    for segment, following in pairwise(segments):
        file, end_offset, last = segment.log.get(), segment.base_offset, -1
        batches = walk(file, _last_indexed(folder, segment), segment.size)
        for count, (position, header) in enumerate(batches):
            last, end_offset = position, header.next_offset
            if count % STEP_BATCHES == 0:
                yield 0
        if end_offset != following.base_offset:
            reason = f"ends at offset {end_offset}, the next begins at {following.base_offset}"
            raise CorruptionError(segment.log.path, segment.size, reason)
        batch = file.read(last, header.size_bytes)
        if crc_of(batch, 0, len(batch)) != header.crc:
            raise CorruptionError(segment.log.path, last, "wrong CRC")


def _last_indexed(folder: Folder, segment: Segment) -> int:
    """The position that the index file's last entry names, 0 if that is not to be trusted.

    No more of it is read: a terabyte of logs has gigabytes of indexes.
    """
    storage, path = folder.files.storage, segment.stem + ".index"
    if not storage.exists(path) or storage.size(path) < ENTRY_BYTES:
        return 0
    file = storage.open(path, read_only=True)
    relative, position = struct.unpack(">ii", file.read(file.size() - ENTRY_BYTES, ENTRY_BYTES))
    file.close()
    if not 0 < position < segment.size:
        return 0
    try:
        header = header_at(segment.log.get(), position, segment.size)
    except CorruptionError:
        return 0
    return position if header.last_offset == segment.base_offset + relative else 0


def _tell_of_cut(folder: Folder) -> None:
    if folder.before_cut is not None:
        folder.before_cut()


def _make_durable(folder: Folder, last: Segment) -> None:
    """What was cut must not come back.

    1. Recovery cuts the log at offset 100 and removes a segment that began at 120. 2. New batches
    fill 100 to 119. 3. The power fails before any sync and undoes the removal. 4. Offset 120
    is there again, from another past.
    """
    storage = folder.files.storage
    storage.sync_now(last.log.get())
    storage.sync_directory(folder.path)


def _ends_in_zeros(
    folder: Folder, segment: Segment, scan: "SegmentScan", recovery_point: int
) -> bool:
    """True if what was written ahead of the end is all that is wrong with it."""
    if scan.fault is None or not folder.config.fill_ahead_bytes:
        return False
    if scan.next_offset < recovery_point:
        return False
    return only_zeros(segment.log.get().read, scan.position, segment.size)


def only_zeros(read: Callable[[int, int], bytes], position: int, end: int) -> bool:
    """`read(position, length)` gives nothing but zeros from here to the end."""
    while position < end:
        piece = read(position, min(STEP_BYTES, end - position))
        if not piece or piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True


def _take_zeros(folder: Folder, segment: Segment, scan: "SegmentScan") -> None:
    file = segment.log.get()
    file.truncate(scan.position)
    folder.files.storage.sync_now(file)
    segment.size = scan.position
    scan.fault = None


def _check_synced(segment: Segment, scan: "SegmentScan", recovery_point: int) -> None:
    assert scan.fault is not None
    path, position = segment.log.path, scan.position
    if scan.next_offset < recovery_point:
        reason = f"{scan.fault}, below the recovery point {recovery_point}"
        raise CorruptionError(path, position, reason)
    good = find_good_batch(segment.log.get(), position + 1, scan.next_offset)
    if good is not None:
        raise CorruptionError(path, position, f"{scan.fault}; a good batch follows at byte {good}")


def _raise_missing(segment: Segment, scan: "SegmentScan", recovery_point: int) -> None:
    reason = f"the segment ends at offset {scan.next_offset}, was synced up to {recovery_point}"
    raise CorruptionError(segment.log.path, scan.position, reason)


def _breaks(folder: Folder, scan: "SegmentScan", following: Segment) -> bool:
    """True if offsets are missing between two segments (compaction may leave them out)."""
    if following.base_offset < scan.next_offset:
        reason = f"starts below offset {scan.next_offset}, where the one before ends"
        raise CorruptionError(following.log.path, 0, reason)
    return following.base_offset > scan.next_offset and not folder.may_have_gaps


def _drop(folder: Folder, recovered: Recovered, first: int) -> None:
    storage = folder.files.storage
    while len(recovered.segments) > first:
        segment = recovered.segments.pop()
        segment.release()
        recovered.dropped_segments += 1
        recovered.cut_bytes += segment.size
        for suffix in (".index", ".timeindex", ".txnindex", ".log"):
            if storage.exists(segment.stem + suffix):
                storage.remove(segment.stem + suffix)


class SegmentScan:
    """Reads a segment whole and rebuilds its indexes; stops at the first bad batch."""

    def __init__(self, segment: Segment, *, may_have_gaps: bool) -> None:
        self._segment = segment
        self._may_have_gaps = may_have_gaps
        self._leader_epoch = -1
        self.position = 0
        """Behind the last good batch."""
        self.next_offset = segment.base_offset
        self.fault: str | None = None

    def steps(self) -> Steps:
        segment = self._segment
        file, size = segment.log.get(), segment.size
        segment.reset_indexes()
        while self.position < size and self.fault is None:
            piece = file.read(self.position, min(STEP_BYTES, size - self.position))
            good = self._take(piece, size)
            if good == 0 and self.fault is None:
                # A batch larger than a step: read it alone, its length has been judged.
                length = read_header(piece).size_bytes
                self._take(file.read(self.position, length), size)
            yield len(piece)

    def _take(self, piece: bytes, size: int) -> int:
        """Check whole batches at the start of `piece`; the number of bytes that were good."""
        start, place = self.position, 0
        while place < len(piece):
            room = size - self.position
            if len(piece) - place < HEADER_BYTES:
                if room < HEADER_BYTES:
                    self.fault = f"{room} bytes are no batch header"
                break
            header = read_header(piece, place)
            self.fault = self._fault_of(header, room)
            if self.fault is not None or place + header.size_bytes > len(piece):
                break
            if crc_of(piece, place, header.size_bytes) != header.crc:
                self.fault = "wrong CRC"
                break
            self._segment.index_batch(self.position, header)
            self.next_offset = header.next_offset
            self._leader_epoch = header.partition_leader_epoch
            place += header.size_bytes
            self.position = start + place
        return place

    def _fault_of(self, header: BatchHeader, room: int) -> str | None:
        """Offset and epoch are outside of the CRC: only their order tells if they are right."""
        fault = fault_of(header, room)
        if fault is not None:
            return fault
        base_offset, due = header.base_offset, self.next_offset
        if base_offset < due or (base_offset > due and not self._may_have_gaps):
            return f"base offset {base_offset} where {due} is due"
        if not self._segment.can_hold(header.last_offset):
            return f"base offset {base_offset} is too far from the segment's"
        if header.partition_leader_epoch < self._leader_epoch:
            return f"leader epoch {header.partition_leader_epoch} behind {self._leader_epoch}"
        return None


def find_good_batch(file: File, start: int, next_offset: int) -> int | None:
    """The position of a whole batch with a right CRC at or behind `start`, None if there is none.

    Candidates are found by their magic byte, so a zero-filled tail costs nothing.
    """
    size = file.size()
    position = start
    while position + HEADER_BYTES <= size:
        piece = file.read(position, STEP_BYTES + HEADER_BYTES)
        for match in re.finditer(rb"\x02", piece[16 : STEP_BYTES + 16]):
            place = match.start()
            if place + HEADER_BYTES > len(piece):
                break
            header = read_header(piece, place)
            if _may_be_good(header, next_offset, size - position - place):
                batch = file.read(position + place, header.size_bytes)
                if crc_of(batch, 0, len(batch)) == header.crc:
                    return position + place
        position += STEP_BYTES
    return None


def _may_be_good(header: BatchHeader, next_offset: int, room: int) -> bool:
    return 0 <= header.base_offset - next_offset < 1 << 31 and fault_of(header, room) is None
