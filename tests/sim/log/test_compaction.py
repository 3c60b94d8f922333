"""Compaction against a model, and with a stop at every operation on the disk.

Checked after every cleaning and after every stop, whichever way the process ended:
- as a map from key to last value, the committed log is what it was before (L1, L4);
- every record that is left has the offset, timestamp, key, value and headers it had (L2, L20);
- offsets rise and the log's end does not move (L6);
- what a producer wrote last is known, so that its repetition is no second record (L3).
"""

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.compaction.compacted_log import CONFIG, SECRET, Bench

from headrace.base.errors import StorageError
from headrace.log.compaction import cleaning
from headrace.log.compaction.engine import PythonEngine
from headrace.log.compaction.selection import CleaningLimits, cleanable, job_of
from headrace.log.compaction.swapping import swap
from headrace.log.directory import LogDirectory
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.records import Record

CHANGES = ("write", "rename", "remove", "sync", "sync_directory")
KEYS = [b"k%d" % n for n in range(6)]


class Stopped(Exception):
    """The process ends here."""


class StoppingDisk(SimulatedDisk):
    """Stops its user before the operation of that number."""

    stops_at = -1
    count = 0
    kinds: tuple[str, ...] = ()

    def strike(self, kind: str, path: str) -> None:
        if kind in CHANGES:
            self.count += 1
            self.kinds += (kind,)
            if self.count == self.stops_at:
                raise Stopped
        super().strike(kind, path)


class World(Bench):
    """A compacted log in a log directory, and what was written to it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.written: dict[int, Record] = {}
        self.transaction_of: dict[int, int] = {}
        """Of each transactional record, the number of its transaction."""
        self.is_committed: dict[int, bool] = {}
        """Of each transaction that has ended."""
        self.transaction_count = 0
        self.open_transactions: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        super().__init__(replace(CONFIG, index_interval_bytes=200), PythonEngine)

    def open(self, **_: Any) -> PartitionLog:
        if not isinstance(self.disk, StoppingDisk):
            self.disk = StoppingDisk()
        self.directory = LogDirectory.open(
            self.disk,
            "/d",
            self.clock,
            FileBudget(self.disk, limit=4),
            cluster_id="c",
            node_id=1,
            random=self.rng,
        )
        self.log = self.directory.open_partition("t", 0, bytes(range(16)), self.config)
        return self.log

    # -- doing ---------------------------------------------------------------------------------

    def write(self) -> None:
        rng = self.rng
        self.clock.advance(rng.randint(0, 200))
        records = [
            (rng.choice(KEYS), rng.choice([None, b"", rng.randbytes(rng.randint(1, 40))]))
            for _ in range(rng.randint(1, 4))
        ]
        producer_id = rng.choice([-1, 3, 4])
        batch: dict[str, Any] = {"codec": rng.choice([Compression.NONE, Compression.LZ4])}
        if producer_id >= 0:
            batch |= self.in_transaction(producer_id, len(records))
        base_offset, now_ms = self.put(*records, **batch), self.clock.now_ms()
        for index, (key, value) in enumerate(records):
            offset = base_offset + index
            self.written[offset] = Record(offset, now_ms + index, key, value, [("h", b"x")])
            if producer_id >= 0:
                self.transaction_of[offset] = self.open_transactions[producer_id]

    def in_transaction(self, producer_id: int, count: int) -> dict[str, Any]:
        if producer_id not in self.open_transactions:
            self.transaction_count += 1
            self.open_transactions[producer_id] = self.transaction_count
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        return {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "is_transactional": True,
        }

    def end_transaction(self) -> None:
        if self.open_transactions:
            producer_id = self.rng.choice(sorted(self.open_transactions))
            number = self.open_transactions.pop(producer_id)
            self.is_committed[number] = self.rng.random() < 0.6
            self.mark(producer_id, commit=self.is_committed[number])

    def live(self, steps: int) -> None:
        for _ in range(steps):
            action = self.rng.random()
            if action < 0.65:
                self.write()
            elif action < 0.9:
                self.end_transaction()
            else:
                self.log.roll()
        self.log.flush_now()
        self.directory.checkpoint({})

    def clean_as_broker(self) -> None:
        """As `broker.cleaner` does it."""
        log, now_ms = self.log, self.clock.now_ms()
        found = cleanable(log, log.last_stable_offset(log.log_end_offset), now_ms)
        if found is None:
            return
        limits = CleaningLimits(buffer_bytes=self.rng.choice([1000, 1 << 20]))
        job = job_of(log, found, limits, now_ms)
        engine = PythonEngine(limits.buffer_bytes, 0.9, SECRET)
        outcome = cleaning.clean(self.disk, job, engine)
        assert swap(log, job, outcome)
        self.disk.sync(log.segments[0].log.get(), lambda _: None, [log.path])
        log.clean_offset = outcome.end_offset
        self.directory.checkpoint_clean_offsets()

    def stop(self, how: str) -> None:
        self.disk.stops_at = -1
        if how == "power":
            self.disk.crash(self.rng)
        elif how == "kill":
            self.disk.kill()
        else:
            self.directory.close()
            self.disk.kill()
        end_offset = self.log.log_end_offset
        self.open()
        assert self.log.log_end_offset == end_offset

    # -- checking ------------------------------------------------------------------------------

    def check(self) -> None:
        for record in self.records():
            assert record == self.written[record.offset]
        offsets = [record.offset for record in self.records()]
        assert offsets == sorted(set(offsets))
        assert self.latest() == self.expected()
        for producer_id, entry in self.log.producers.entries.items():
            assert entry.last_sequence == self.sequences[producer_id] - 1
        leftovers = [n for n in self.disk.list("/d/t-0") if n.endswith((".cleaned", ".swap"))]
        assert not leftovers

    def expected(self) -> dict[bytes | None, bytes | None]:
        end = self.log.last_stable_offset(self.log.log_end_offset)
        values: dict[bytes | None, bytes | None] = {}
        for offset, record in sorted(self.written.items()):
            number = self.transaction_of.get(offset)
            if offset < end and (number is None or self.is_committed[number]):
                values[record.key] = record.value
        return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize("restart", [None, "kill", "close"])
def test_the_cleaner_goes_on_where_deleted_records_left_the_clean_offset_behind(
    restart: str | None,
) -> None:
    world = World(5)
    world.live(30)
    while world.open_transactions:
        world.end_transaction()
    world.log.roll()
    world.log.flush_now()
    world.clean_as_broker()
    clean_offset = world.log.clean_offset
    assert clean_offset > 0
    world.live(20)
    while world.open_transactions:
        world.end_transaction()
    start = (clean_offset + world.log.log_end_offset) // 2
    world.log.delete_records(start)
    assert world.log.log_start_offset == start > world.log.clean_offset
    if restart is not None:
        world.directory.checkpoint({})
        world.stop(restart)
        assert world.log.log_start_offset == start
    world.log.retain(world.clock.now_ms(), world.log.log_end_offset)
    world.log.roll()
    world.log.flush_now()
    world.written = {at: record for at, record in world.written.items() if at >= start}
    for _ in range(20):  # a small map takes several
        world.clean_as_broker()
    assert world.log.clean_offset == world.log.bases[-1] > start, "up to the active segment"
    assert [record.offset for record in world.records() if record.offset < start] == []
    world.check()
    assert cleanable(world.log, world.log.log_end_offset, world.clock.now_ms()) is None


STOPS = ("power", "power", "kill", "close")


def many_cleanings(seed: int, lives: int = 6, kind: type[World] = World) -> None:
    world = kind(seed)
    for _ in range(lives):
        world.live(world.rng.randint(5, 40))
        world.clock.advance(world.rng.choice([0, 500, 1500]))
        for _ in range(world.rng.randint(0, 2)):
            world.clean_as_broker()
            world.check()
        if world.rng.random() < 0.5:
            world.stop(world.rng.choice(STOPS))
            world.check()


@pytest.mark.parametrize("seed", range(16))
def test_any_history_keeps_its_meaning(seed: int) -> None:
    many_cleanings(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 200))
def test_very_many_histories(first: int) -> None:
    for seed in range(first, first + 200):
        many_cleanings(seed)


LONG_LIFE, SHORT_LIFE = (35, 25), (9, 6)
"""Steps before and after a first cleaning."""


def prepared(seed: int, kind: type[World] = World, steps: tuple[int, int] = LONG_LIFE) -> World:
    """With tombstones that are due, and a cleaning before the one that is stopped."""
    world = kind(seed)
    world.live(steps[0])
    world.clean_as_broker()
    world.clock.advance(1500)
    world.live(steps[1])
    while world.open_transactions:
        world.end_transaction()
    world.log.roll()
    world.log.flush_now()
    return world


def stops_at(number: int, world: World, how: str) -> bool:
    """Stop a cleaning before its operation of that number; False if it has fewer."""
    world.disk.count, world.disk.stops_at = 0, number
    try:
        world.clean_as_broker()
    except (Stopped, StorageError):
        world.stop(how)
        world.check()
        world.clock.advance(3000)
        for _ in range(3):
            world.live(3)
            world.clean_as_broker()
            world.clock.advance(3000)
            world.check()
        return True
    return False


def stop_everywhere(
    seed: int, how: str, *, first: int = 1, step: int = 1, kind: type[World] = World
) -> int:
    """Stop before each operation of a cleaning in turn; how many there were."""
    number = first
    while stops_at(number, prepared(seed, kind), how):
        number += step
    return number


@pytest.mark.parametrize("how", ["power", "kill"])
def test_a_stop_before_and_after_every_rename(how: str) -> None:
    seed = 0
    undisturbed = prepared(seed, steps=SHORT_LIFE)
    undisturbed.disk.kinds = ()
    undisturbed.clean_as_broker()
    kinds = undisturbed.disk.kinds
    renames = [number for number, kind in enumerate(kinds, 1) if kind == "rename"]
    assert len(renames) >= 8
    for number in sorted({number + after for number in renames for after in (0, 1)}):
        has_stopped = stops_at(number, prepared(seed, steps=SHORT_LIFE), how)
        assert has_stopped == (number <= len(kinds))


@pytest.mark.parametrize("how", ["power", "kill"])
@pytest.mark.parametrize("seed", range(2))
def test_a_stop_at_many_operations(seed: int, how: str) -> None:
    assert stop_everywhere(seed, how, first=1 + seed, step=13) > 40


@pytest.mark.long
@pytest.mark.parametrize("how", ["power", "kill"])
@pytest.mark.parametrize("seed", range(20))
def test_a_stop_at_every_operation(seed: int, how: str) -> None:
    assert stop_everywhere(seed, how) > 20
