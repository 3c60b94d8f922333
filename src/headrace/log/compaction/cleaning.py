"""One cleaning of one log: dirty keys are noted, then segments are rewritten beside the old ones.

Owns: the two passes, the grouping of small segments, `.cleaned` files until they are durable.
Must not know: who asked, what becomes of the files (`swapping`), processes.
Spec: Kafka's Cleaner.doClean.

1. From the first dirty offset on, the last offset of every key is noted, aborted data aside, until
   the map is full or the end is reached: below that offset the log will be clean.
2. Every segment that starts below it is rewritten, small neighbours into one. A record behind it
   stays whatever its key; so does one whose key was not seen later.

Invariants: segments of the log itself are only read; the active one not even that. When this
returns, all it made is durable. Interrupted anywhere, what is left are `.cleaned` files, which
the next cleaning or the next start removes.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct

from headrace.base.errors import CorruptionError, ProtocolError
from headrace.base.storage import File, Storage
from headrace.log.batches import fault_of
from headrace.log.compaction.aborted import CleanedTransactions
from headrace.log.compaction.engine import Engine
from headrace.log.compaction.job import CleanedSegment, CleaningJob, CleaningOutcome, Span
from headrace.log.compaction.output import CLEANED, CleanedFiles
from headrace.log.compaction.rewriting import Rewriting
from headrace.log.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from headrace.log.segment_files import stem_of
from headrace.log.transactions import read_marker
from headrace.wire.kafka.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    read_header,
)
from headrace.wire.kafka.records import payload_of

PIECE_BYTES = 4 << 20
_LENGTH = Struct(">8xi")

OnBytes = Callable[[int], None]
"""Told of bytes read or written, so that somebody may slow the work down."""


def clean(
    storage: Storage, job: CleaningJob, engine: Engine, on_bytes: OnBytes = lambda _: None
) -> CleaningOutcome:
    remove_cleaned(storage, job.folder)
    work = _Cleaning(storage, job, engine, on_bytes)
    work.note_keys()
    return work.rewrite()


def remove_cleaned(storage: Storage, folder: str) -> None:
    """What a cleaning that was interrupted has left."""
    for name in storage.list(folder):
        if name.endswith(CLEANED):
            with suppress(FileNotFoundError):
                storage.remove(f"{folder}/{name}")


class _Cleaning:
    def __init__(
        self, storage: Storage, job: CleaningJob, engine: Engine, on_bytes: OnBytes
    ) -> None:
        self._storage = storage
        self._job = job
        self._engine = engine
        self._on_bytes = on_bytes
        self._read_bytes = 0
        self._written_bytes = 0

    # -- the first pass ----------------------------------------------------------------------

    def note_keys(self) -> None:
        job, engine = self._job, self._engine
        transactions = CleanedTransactions(
            each for each in job.aborted if each.last_offset >= job.first_dirty_offset
        )
        engine.latest_offset = job.first_dirty_offset - 1
        ends = [*(base for base, _ in job.segments[1:]), job.end_offset]
        for span, end in zip(job.segments, ends, strict=True):
            if end > job.first_dirty_offset:
                self._note_segment(span, transactions)
                if engine.is_full:
                    return
                # Records that an earlier cleaning dropped at the segment's end count, too.
                engine.latest_offset = max(engine.latest_offset, end - 1)

    def _note_segment(self, span: Span, transactions: CleanedTransactions) -> None:
        engine, start_offset = self._engine, self._job.first_dirty_offset
        file = self._open(span)
        for start, piece in self._pieces(file, span[1]):
            place = 0
            while place < len(piece):
                place, _ = engine.note_run(piece, place, start_offset)
                if engine.is_full or place >= len(piece):
                    break
                header = _header(piece, place, file.path, start + place)
                batch = memoryview(piece)[place : place + header.size_bytes]
                self._note_batch(batch, header, transactions, file.path, start + place)
                if engine.is_full:
                    break
                place += header.size_bytes
            if engine.is_full:
                break
        file.close()

    def _note_batch(
        self,
        batch: memoryview,
        header: BatchHeader,
        transactions: CleanedTransactions,
        path: str,
        position: int,
    ) -> None:
        engine = self._engine
        try:
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    transactions.on_marker(header, marker.is_abort)
            elif not transactions.on_batch(header) and header.record_count:
                engine.note(
                    payload_of(batch),
                    header.record_count,
                    header.base_offset,
                    self._job.first_dirty_offset,
                )
        except ProtocolError as error:
            raise CorruptionError(path, position, str(error)) from error
        if not engine.is_full:
            engine.latest_offset = max(engine.latest_offset, header.last_offset)

    # -- the second pass ---------------------------------------------------------------------

    def rewrite(self) -> CleaningOutcome:
        job = self._job
        end_offset = self._engine.latest_offset + 1
        rewriting = Rewriting(job, self._engine, end_offset)
        segments = [span for span in job.segments if span[0] < end_offset]
        done: list[CleanedSegment] = []
        for group in groups_of(segments, job, end_offset):
            done.append(self._rewrite_group(group, rewriting))
        self._storage.sync_directory(job.folder)
        return CleaningOutcome(
            end_offset,
            tuple(done),
            self._read_bytes,
            self._written_bytes,
            rewriting.records_read,
            rewriting.records_kept,
            rewriting.invalid_records,
        )

    def _rewrite_group(self, group: list[Span], rewriting: Rewriting) -> CleanedSegment:
        job = self._job
        output = CleanedFiles(self._storage, job.folder, group[0][0], job.index_interval_bytes)
        rewriting.transactions.kept = []
        for span in group:
            self._rewrite_segment(span, rewriting, output)
        output.finish(rewriting.transactions.kept)
        self._written_bytes += output.size
        self._on_bytes(output.size)
        return CleanedSegment(output.base_offset, output.size, tuple(base for base, _ in group))

    def _rewrite_segment(self, span: Span, rewriting: Rewriting, output: CleanedFiles) -> None:
        engine = self._engine
        end_offset = engine.latest_offset + 1
        file = self._open(span)
        for start, piece in self._pieces(file, span[1]):
            place = 0
            while place < len(piece):
                run = engine.keep_run(piece, place, end_offset)
                if run.marks:
                    output.add(run.content, run.marks)
                rewriting.records_read += run.read_count
                rewriting.records_kept += run.kept_count
                place = run.place
                if place >= len(piece):
                    break
                header = _header(piece, place, file.path, start + place)
                size = header.size_bytes
                batch = memoryview(piece)[place : place + size]
                content = rewriting.rewrite(batch, header, file.path, start + place)
                if content:
                    output.add(content, [_mark(content)])
                place += size
        file.close()

    # -- files -------------------------------------------------------------------------------

    def _open(self, span: Span) -> File:
        return self._storage.open(stem_of(self._job.folder, span[0]) + ".log", read_only=True)

    def _pieces(self, file: File, size: int) -> Iterator[tuple[int, bytes]]:
        """Whole batches, some mebibytes of them at a time, and where they stand."""
        position = 0
        while position < size:
            piece = file.read(position, min(PIECE_BYTES, size - position))
            whole = _whole_bytes(piece, file.path, position)
            if whole == 0:
                header = _header(piece, 0, file.path, position, size - position)
                piece = file.read(position, header.size_bytes)
                whole = len(piece)
            self._read_bytes += whole
            self._on_bytes(whole)
            yield position, piece if whole == len(piece) else piece[:whole]
            position += whole


def _whole_bytes(piece: bytes, path: str, position: int) -> int:
    """How much of the piece is whole batches."""
    place, end = 0, len(piece)
    unpack = _LENGTH.unpack_from
    while place + HEADER_BYTES <= end:
        following = place + unpack(piece, place)[0] + LENGTH_OVERHEAD_BYTES
        if following < place + HEADER_BYTES:
            raise CorruptionError(path, position + place, "no batch")
        if following > end:
            break
        place = following
    return place


def _header(
    piece: bytes, place: int, path: str, position: int, room: int | None = None
) -> BatchHeader:
    if len(piece) - place < HEADER_BYTES:
        raise CorruptionError(path, position, "no room for a batch header")
    header = read_header(piece, place)
    fault = fault_of(header, len(piece) - place if room is None else room)
    if fault is not None:
        raise CorruptionError(path, position, fault)
    return header


def _mark(content: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    header = read_header(content)
    return len(content), header.last_offset, header.max_timestamp


def groups_of(segments: list[Span], job: CleaningJob, end_offset: int) -> Iterator[list[Span]]:
    """Neighbours that fit into one segment: its bytes, its indexes, its range of offsets."""
    entries_max = job.segment_index_bytes // ENTRY_BYTES
    group: list[Span] = []
    size = 0
    for slot, span in enumerate(segments):
        end = segments[slot + 1][0] if slot + 1 < len(segments) else max(end_offset, job.end_offset)
        entries = (size + span[1]) // max(job.index_interval_bytes, HEADER_BYTES)
        if group and (
            size + span[1] > job.segment_bytes
            or entries >= entries_max
            or end - 1 - group[0][0] > RELATIVE_OFFSET_MAX
        ):
            yield group
            group, size = [], 0
        group.append(span)
        size += span[1]
    if group:
        yield group
