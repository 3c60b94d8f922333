"""Logs on a simulated disk for the unit tests of the log."""

from collections.abc import Callable, Iterator

import pytest

from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import build_batch

TOPIC_ID = bytes(range(16))


class Bench:
    """A simulated disk and the log of /d/t-0 on it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/d")
        self.disk.sync_directory("")
        self.clock = SimulatedClock()
        self.files = FileBudget(self.disk, limit=8)

    def open(self, config: LogConfig | None = None, **arguments: object) -> PartitionLog:
        self.disk.now_ms = self.clock.now_ms()
        self.log = PartitionLog.open(
            self.disk,
            "/d/t-0",
            "t",
            0,
            config or LogConfig(segment_bytes=1000, index_interval_bytes=100),
            self.clock,
            topic_id=TOPIC_ID,
            files=self.files,
            **arguments,  # type: ignore[arg-type]
        )
        return self.log

    def reopen(self, **arguments: object) -> PartitionLog:
        config = self.log.config
        self.disk.kill()
        self.files = FileBudget(self.disk, limit=8)
        return self.open(config, **arguments)

    def append(
        self,
        count: int = 1,
        *,
        times: list[int] | None = None,
        value: bytes = b"v" * 20,
        epoch: int = 0,
        **batch: object,
    ) -> int:
        """Append a batch of `count` records; its base offset."""
        now_ms = self.clock.now_ms()
        records = [(b"k", value, [], times[i] if times else now_ms) for i in range(count)]
        content = build_batch(records, **batch)  # type: ignore[arg-type]
        staged = self.log.append(content, epoch, now_ms)
        assert staged.error == 0
        return staged.base_offset

    def offsets(self, **read: object) -> list[int]:
        """Base offsets of all batches, by reading through the log."""
        found: list[int] = []
        offset = self.log.log_start_offset
        for header, _ in self.batches(offset, **read):
            found.append(header.base_offset)
        return found

    def batches(self, offset: int, max_bytes: int = 1 << 20) -> Iterator[tuple[object, bytes]]:
        log = self.log
        while offset < log.log_end_offset:
            region = log.read(offset, max_bytes, log.log_end_offset).region
            assert region is not None
            piece = region.file.read(region.position, region.length)
            position = 0
            while position < len(piece):
                header = read_header(piece, position)
                yield header, piece[position : position + header.size_bytes]
                position += header.size_bytes
                offset = header.next_offset


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def make_bench() -> Callable[[], Bench]:
    return Bench
