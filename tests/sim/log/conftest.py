"""A log directory on a simulated disk, and a model of what must be in it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.file_budget import FileBudget
from headrace.log.outcomes import Staged
from headrace.log.partition_log import PartitionLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import build_batch

TOPIC_ID = bytes(range(16))
PATH = "/data"


@dataclass(slots=True)
class Written:
    """A batch that was committed."""

    base_offset: int
    last_offset: int
    content: bytes
    producer_id: int
    sequence: int


@dataclass
class World:
    """One partition, driven and checked by a test."""

    seed: int
    config: LogConfig = field(
        default_factory=lambda: LogConfig(segment_bytes=4000, index_interval_bytes=300)
    )

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.written: list[Written] = []
        self.sequences: dict[int, int] = {}
        self.synced_end = 0
        self.epoch = 0
        self.open()

    def open(self) -> PartitionLog:
        files = FileBudget(self.disk, limit=3)
        self.directory = LogDirectory.open(
            self.disk, PATH, self.clock, files, cluster_id="c", node_id=1, random=self.rng
        )
        self.log = self.directory.open_partition("t", 0, TOPIC_ID, self.config)
        return self.log

    # -- doing ---------------------------------------------------------------------------------

    def batch(self, producer_id: int, sequence: int, count: int) -> bytearray:
        size = self.rng.choice((1, 20, 200))
        now_ms = self.clock.now_ms()
        records = [
            (b"k", self.rng.randbytes(size), [], now_ms + self.rng.randint(-5, 5))
            for _ in range(count)
        ]
        return build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )

    def stage(self, producer_id: int = -1) -> Staged:
        count = self.rng.randint(1, 4)
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = self.batch(producer_id, sequence, count)
        epoch = self.epoch
        staged = self.log.stage(memoryview(batch), read_header(batch), epoch, self.clock.now_ms())
        assert staged.error == 0
        assert not staged.duplicate
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + count
        self.written.append(
            Written(staged.base_offset, staged.last_offset, bytes(batch), producer_id, sequence)
        )
        return staged

    def produce(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.stage(self.rng.choice((-1, 7, 8)))
        self.log.commit()

    def note_synced(self) -> None:
        self.synced_end = max(self.synced_end, self.log.recovery_point)

    def step(self) -> None:
        self.clock.advance(self.rng.randint(0, 20))
        action = self.rng.random()
        if action < 0.75:
            self.produce()
        elif action < 0.85:
            self.log.flush_now()
        elif action < 0.9:
            self.log.roll()
        elif action < 0.93:
            self.directory.checkpoint({})
        elif action < 0.95:
            self.epoch += 1
        else:
            self.resend()
        self.note_synced()

    def window(self, producer_id: int) -> list[Written]:
        """The batches of a producer that the log must know again: its last five.

        Of those deleted with their segment only the last: a snapshot keeps no more.
        """
        mine = [w for w in self.written if w.producer_id == producer_id][-5:]
        start = self.log.segments[0].base_offset
        return [w for w in mine if w.base_offset >= start or w is mine[-1]]

    def repeat(self, again: Written) -> None:
        view = memoryview(bytearray(again.content))
        staged = self.log.stage(view, read_header(view), self.epoch, self.clock.now_ms())
        assert staged.duplicate, f"sequence {again.sequence}: error {staged.error}"
        assert staged.base_offset == again.base_offset

    def resend(self) -> None:
        """A producer repeats one of its last five batches: it gets the old offset."""
        for producer_id in (7, 8):
            window = self.window(producer_id)
            if window:
                self.repeat(self.rng.choice(window))

    def truncate(self) -> None:
        """As a follower does whose leader has another past."""
        if not self.written:
            return
        cut = self.rng.choice(self.written[-6:])
        if cut.base_offset <= self.log.log_start_offset:
            return
        self.log.truncate_to(cut.base_offset)
        assert self.log.log_end_offset == cut.base_offset
        self.synced_end = min(self.synced_end, cut.base_offset)
        self.forget_lost()

    def live(self, steps: int, *, retains: bool = False, truncates: bool = False) -> None:
        """Do `steps` things, with syncs that take their time."""
        for _ in range(steps):
            self.step()
            if self.disk.defer_syncs and self.rng.random() < 0.3:
                self.disk.complete_syncs(self.rng.randint(1, 3))
                self.note_synced()
            if retains and self.rng.random() < 0.1:
                self.log.retain(self.clock.now_ms(), self.log.log_end_offset)
            if truncates and self.rng.random() < 0.05:
                self.truncate()

    def stop_and_open(self, how: str) -> None:
        """how: power (loses what is not synced), kill (loses nothing), close."""
        end_before = self.log.log_end_offset
        if how == "close":
            self.directory.close()
            self.disk.kill()
        elif how == "kill":
            self.disk.kill()
        else:
            self.disk.crash(self.rng)
        self.open()
        if how != "power":
            assert self.log.log_end_offset == end_before
        self.after_open()

    # -- checking ------------------------------------------------------------------------------

    def after_open(self) -> None:
        """What was synced is there; what is there was written; the rest is forgotten."""
        assert self.log.log_end_offset >= self.synced_end
        self.forget_lost()
        kept = self.written
        assert self.log.log_end_offset == (kept[-1].last_offset + 1 if kept else 0)
        self.check_content()
        self.check_epochs()
        self.check_windows()
        self.note_synced()

    def forget_lost(self) -> None:
        """The model has what the log has; producers go on behind it."""
        end = self.log.log_end_offset
        self.written = [w for w in self.written if w.last_offset < end]
        self.sequences = {}
        for w in self.written:
            if w.producer_id >= 0:
                header = read_header(w.content)
                self.sequences[w.producer_id] = w.sequence + header.last_offset_delta + 1

    def check_epochs(self) -> None:
        """Every batch's epoch is known by its offset; a deletion that was undone is forgotten."""
        epochs = self.log.epochs
        for w in self.written:
            if epochs.start_offsets and w.base_offset >= epochs.start_offsets[0]:
                epoch = read_header(w.content).partition_leader_epoch
                assert epochs.epoch_at(w.base_offset) == epoch

    def check_content(self) -> None:
        log = self.log
        expected = b"".join(
            w.content for w in self.written if w.last_offset >= log.log_start_offset
        )
        found = bytearray()
        offset = log.log_start_offset
        for _ in range(100_000):
            if offset >= log.log_end_offset:
                break
            region = log.read(offset, self.rng.choice((1, 500, 100_000)), log.log_end_offset).region
            assert region is not None
            piece = region.file.read(region.position, region.length)
            found += piece
            position = 0
            while position < len(piece):
                header = read_header(piece, position)
                position += header.size_bytes
                offset = header.next_offset
            assert position == len(piece)
        assert bytes(found) == expected

    def check_windows(self) -> None:
        for producer_id in self.sequences:
            for w in self.window(producer_id):
                self.repeat(w)


@pytest.fixture
def world() -> Callable[..., World]:
    return World
