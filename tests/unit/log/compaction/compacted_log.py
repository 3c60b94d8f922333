"""A compacted log on a simulated disk, cleaned in this process, and a reader of all of it."""

import struct
from collections.abc import Callable
from typing import Any

from headrace.log.compaction.cleaning import clean
from headrace.log.compaction.engine import Engine, PythonEngine
from headrace.log.compaction.job import CleaningOutcome
from headrace.log.compaction.selection import CleaningLimits, cleanable, job_of
from headrace.log.compaction.swapping import swap
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.log.transactions import read_marker
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import BatchHeader, read_header
from headrace.wire.kafka.records import Record, build_batch, is_crc_valid, read_records

SECRET = bytes(range(16))
KEPT_FOR_MS = 1000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    compact=True,
    delete=False,
    delete_retention_ms=KEPT_FOR_MS,
    min_cleanable_dirty_ratio=0.0,
)

EngineMaker = Callable[[int, float, bytes], Engine]


class Bench:
    """A simulated disk and the log of /d/t-0 on it."""

    def __init__(self, config: LogConfig = CONFIG, engine: EngineMaker = PythonEngine) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/d")
        self.disk.sync_directory("")
        self.clock = SimulatedClock()
        self.config = config
        self.engine = engine
        self.open()

    def open(self, **arguments: Any) -> PartitionLog:
        self.disk.now_ms = self.clock.now_ms()
        self.log = PartitionLog.open(
            self.disk,
            "/d/t-0",
            "t",
            0,
            self.config,
            self.clock,
            topic_id=bytes(range(16)),
            files=FileBudget(self.disk, limit=8),
            **arguments,
        )
        return self.log

    def put(
        self,
        *records: tuple[bytes | None, bytes | None],
        codec: Compression = Compression.NONE,
        **batch: Any,
    ) -> int:
        """One batch; its base offset."""
        now_ms = self.clock.now_ms()
        fields = [(key, value, [("h", b"x")], now_ms + i) for i, (key, value) in enumerate(records)]
        content = build_batch(fields, compression=codec, **batch)
        staged = self.log.append(content, 0, now_ms)
        assert staged.error == 0
        return staged.base_offset

    def mark(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        now_ms = self.clock.now_ms()
        key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 1)
        batch = build_batch(
            [(key, value, [], now_ms)],
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
        )
        return self.log.append(batch, 0, now_ms).base_offset

    def clean(self, limits: CleaningLimits | None = None) -> CleaningOutcome | None:
        """Clean what can be cleaned; None if there is nothing."""
        self.log.flush_now()
        now_ms = self.clock.now_ms()
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        found = cleanable(self.log, stable, now_ms)
        if found is None:
            return None
        limits = limits or CleaningLimits(buffer_bytes=1 << 20)
        job = job_of(self.log, found, limits, now_ms)
        outcome = clean(self.disk, job, self.engine(limits.buffer_bytes, 0.9, SECRET))
        assert swap(self.log, job, outcome)
        self.disk.sync_directory(self.log.path)
        self.log.clean_offset = outcome.end_offset
        return outcome

    def roll_and_clean(self) -> CleaningOutcome | None:
        self.log.roll()
        return self.clean()

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        log, found = self.log, []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            region = log.read(offset, 1 << 20, log.log_end_offset).region
            if region is None:
                break
            piece = region.file.read(region.position, region.length)
            position = 0
            while position < len(piece):
                header = read_header(piece, position)
                batch = piece[position : position + header.size_bytes]
                assert is_crc_valid(batch)
                assert header.base_offset >= offset or not found
                found.append((header, batch))
                position += header.size_bytes
                offset = header.next_offset
        return found

    def records(self) -> list[Record]:
        """As a read_uncommitted reader sees them."""
        return [r for h, b in self.batches() if not h.is_control for r in read_records(b)]

    def committed(self) -> list[Record]:
        """As a read_committed reader sees them, by the log's own list of aborted transactions."""
        log, found = self.log, []
        end = log.last_stable_offset(log.log_end_offset)
        upcoming = sorted(
            (t.first_offset, t.producer_id)
            for t in log.aborted_transactions(log.log_start_offset, end)
        )
        aborted: set[int] = set()
        for header, batch in self.batches():
            if header.base_offset >= end:
                break
            while upcoming and upcoming[0][0] <= header.last_offset:
                aborted.add(upcoming.pop(0)[1])
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.is_abort:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found += read_records(batch)
        return found

    def latest(self) -> dict[bytes | None, bytes | None]:
        """The map that a reader of committed records ends with; deleted keys are not in it."""
        values = {r.key: r.value for r in self.committed()}
        return {key: value for key, value in values.items() if value is not None}
