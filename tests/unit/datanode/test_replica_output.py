"""What is on disk when: the plain way and the way around the page cache, on a simulated disk."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.limits import PAGE_BYTES
from headrace.datanode import replica_output
from headrace.datanode.block_files import BlockChecker, create_files
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.context import Context, TransferSettings
from headrace.datanode.dataset import Dataset
from headrace.datanode.replica import Pipeline, Replica, ReplicaState
from headrace.datanode.replica_output import ReplicaOutput
from headrace.datanode.volume import Volume
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.hadoop.block_meta import CRC32C_512

MIB = 1 << 20
PACKET_BYTES = 64512


class Timers:
    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_later(self, _delay_ms: float, action: Callable[[], None]) -> Any:
        self.due.append(action)

    def run(self) -> None:
        due, self.due = self.due, []
        for action in due:
            action()


class World:
    """One replica, its output, and what it told."""

    def __init__(self, *, synced: bool = True, **settings: Any) -> None:
        self.disk = SimulatedDisk(defer_syncs=True)
        self.timers = Timers()
        clock = SimulatedClock()
        self.disk.make_directory("/v")
        volume = Volume(self.disk, "/v")
        self.replica = Replica(1, 1001, 0, ReplicaState.RBW, volume)
        self.disk.make_directory(self.replica.folder)
        data, meta = create_files(
            self.disk, self.replica.data_path, self.replica.meta_path, CRC32C_512
        )
        self.replica.pipeline = Pipeline(data, meta, CRC32C_512, 0)
        self.data, self.meta = data, meta
        self.context = Context(
            Dataset(self.disk, [volume], lambda action: action()),
            lambda *_: None,
            clock,
            self.timers,  # type: ignore[arg-type]
            EventLog(lambda _: None, clock, "debug"),
            TransferSettings(**settings),
        )
        self.moves = 0
        self.failures: list[StorageError] = []
        self.output = ReplicaOutput(
            self.context,
            self.replica,
            None,
            will_be_synced=synced,
            on_moved=self._on_moved,
            on_failed=self.failures.append,
        )
        self.sent = b""
        self.landed = b""

    def _on_moved(self) -> None:
        self.moves += 1
        self.check()

    def take(self, count: int, packet_bytes: int = PACKET_BYTES) -> bool:
        """So many bytes more, in packets; the views are worthless afterwards, as real ones are."""
        fresh = random.Random(len(self.sent)).randbytes(count)
        self.sent += fresh
        pieces = [fresh[at : at + packet_bytes] for at in range(0, count, packet_bytes)]
        data = [bytearray(piece) for piece in pieces]
        sums = [bytearray(compute_checksums(CRC32C_512, piece)) for piece in pieces]
        done = self.output.write(
            [memoryview(each) for each in data], [memoryview(each) for each in sums], count
        )
        for each in (*data, *sums):
            each[:] = bytes(len(each))
        self.check()
        return done

    def land(self, count: int, beyond: int) -> None:
        """So many bytes more, which landed in the room, and some behind them."""
        room = self.output.room
        assert room is not None
        here = self.output.beyond
        assert bytes(room[:here]) == self.landed, "what was beyond has moved along"
        fresh = self.landed + random.Random(len(self.sent)).randbytes(count + beyond - here)
        room[: len(fresh)] = fresh
        data, self.landed = fresh[:count], fresh[count:]
        self.sent += data
        sums = memoryview(bytearray(compute_checksums(CRC32C_512, data)))
        self.output.write_landed([sums], count, beyond)
        sums[:] = bytes(len(sums))
        self.check()

    def check(self) -> None:
        """What counts is in the file, byte for byte, and its checksums are beside it."""
        written = self.replica.num_bytes
        assert self.data.read(0, written) == self.sent[:written]
        checker = BlockChecker(self.data, self.meta, written)
        while checker.step():
            pass
        assert checker.position == written

    def settle(self) -> None:
        while self.disk.complete_syncs():
            pass


def test_a_small_replica_and_one_that_nobody_syncs_are_written_at_once() -> None:
    world = World()
    world.take(512 * 1024)
    assert world.replica.num_bytes == 512 * 1024
    for other in (World(synced=False), World(direct_writes=False)):
        for _ in range(4):
            other.take(MIB)
        assert other.replica.num_bytes == 4 * MIB
        assert other.output.room is None


def test_what_is_under_way_counts_when_it_is_written() -> None:
    world = World()
    world.take(MIB)
    assert world.output.room is None
    world.take(16 * PACKET_BYTES)
    assert world.output.room is not None
    assert world.replica.num_bytes == MIB
    world.take(16 * PACKET_BYTES)
    assert world.replica.num_bytes == MIB
    assert world.disk.complete_syncs(1) == 1
    assert world.moves == 1
    assert world.replica.num_bytes == MIB + 16 * PACKET_BYTES // PAGE_BYTES * PAGE_BYTES
    world.settle()
    assert world.replica.num_bytes > len(world.sent) - PAGE_BYTES
    world.timers.run()
    assert world.replica.num_bytes == len(world.sent), "nothing more came"


def test_a_page_that_was_begun_by_the_page_cache_is_ended_there() -> None:
    world = World()
    world.take(MIB)
    world.take(5 * PACKET_BYTES)
    world.settle()
    assert world.output.drain()
    assert world.replica.num_bytes == len(world.sent)
    assert world.replica.num_bytes % PAGE_BYTES
    world.take(5 * PACKET_BYTES)
    assert world.replica.num_bytes % PAGE_BYTES == 0, "the rest of the page came at once"
    world.settle()
    assert world.output.drain()
    assert world.replica.num_bytes == len(world.sent)


def test_a_drain_that_has_to_wait_comes_with_the_write() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB)
    world.take(1000)
    assert not world.output.drain()
    assert world.disk.complete_syncs(1) == 1
    assert world.replica.num_bytes == len(world.sent)
    assert world.output.drain()


def test_it_tells_when_it_has_no_room() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB)
    assert world.output.has_room
    world.take(MIB)
    world.take(MIB)
    assert not world.output.has_room
    world.settle()
    assert world.output.has_room


def test_a_packet_larger_than_the_room_waits_for_what_is_under_way() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB)
    world.take(5 * MIB, 5 * MIB)
    assert world.replica.num_bytes == len(world.sent)
    assert world.output.drain()


def test_an_unfinished_chunk_goes_on_after_a_drain() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB + 100)
    world.settle()
    assert world.output.drain()
    start = 2 * MIB
    chunk = world.sent[start:] + b"x" * 300
    fresh = chunk[100:]
    sums = compute_checksums(CRC32C_512, fresh)
    assert world.output.write_over(memoryview(fresh), memoryview(sums), start + 100, 100)
    world.sent = world.sent[:start] + chunk
    assert world.replica.num_bytes == len(world.sent)
    world.check()


def test_a_refused_write_is_told_once_and_nothing_of_it_counts() -> None:
    world = World()
    world.take(MIB)
    world.disk.plan(Fault("write", path_part="blk_1", countdown=1, is_sticky=True))
    world.take(MIB)
    world.settle()
    assert len(world.failures) == 1
    assert world.replica.num_bytes == MIB
    world.disk.heal()
    world.check()


def test_whoever_waits_finds_nothing_under_way() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB)
    world.take(MIB)
    ends: list[int] = []
    world.output.close(lambda: ends.append(world.replica.num_bytes))
    world.output.wait()
    assert ends == [2 * MIB], "what was held is not begun any more"
    world.settle()
    assert world.data.size() == world.replica.num_bytes == 2 * MIB


def test_an_end_waits_for_what_is_under_way() -> None:
    world = World()
    world.take(MIB)
    world.take(MIB)
    ends: list[int] = []
    world.output.close(lambda: ends.append(world.replica.num_bytes))
    assert ends == []
    world.settle()
    assert ends == [2 * MIB]
    assert world.moves == 0, "nobody is to go on"


@pytest.mark.parametrize("seed", range(40))
def test_any_stream_arrives_whole_whenever_writes_complete(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    total = rng.randrange(MIB, 12 * MIB)
    while len(world.sent) < total:
        if not world.output.has_room:
            assert world.disk.complete_syncs(1) == 1, "it would wait for ever"
            continue
        count = min(total - len(world.sent), rng.choice((1, 3, 7, 16, 24)) * PACKET_BYTES)
        world.take(count)
        if len(world.sent) % 512:
            break
        if rng.random() < 0.6:
            world.disk.complete_syncs(1)
        if rng.random() < 0.1:
            world.timers.run()
        if rng.random() < 0.1 and not world.output.drain():
            world.settle()
            assert world.replica.num_bytes == len(world.sent)
    if not world.output.drain():
        world.settle()
    assert world.replica.num_bytes == len(world.sent)
    assert world.failures == []
    world.check()


@pytest.mark.parametrize("seed", range(40))
def test_what_landed_arrives_whole_whenever_writes_complete(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    world.take(MIB + 512 * rng.randrange(16))
    world.take(MIB)
    packet_bytes = rng.choice((PACKET_BYTES, 65_536, 512 * rng.randrange(1, 256)))
    while len(world.sent) < 9 * MIB:
        room = world.output.room
        assert room is not None
        packets = min(rng.randint(0, 24), len(room) // packet_bytes - 1)
        if packets < 0:
            assert world.disk.complete_syncs(1) == 1, "it would wait for ever"
            continue
        if packets:
            beyond = rng.choice((0, rng.randrange(packet_bytes)))
            if packets * packet_bytes + beyond >= len(world.landed):
                world.land(packets * packet_bytes, beyond)
        if rng.random() < 0.6:
            world.disk.complete_syncs(1)
        if rng.random() < 0.2:
            world.timers.run()
        if rng.random() < 0.1:
            world.output.drain()
    if not world.output.drain():
        world.settle()
    assert world.replica.num_bytes == len(world.sent) > 2 * MIB
    assert world.failures == []
    world.check()


def test_pages_fill_what_goes_around_the_cache() -> None:
    assert replica_output._DIRECT_BYTES_MIN % PAGE_BYTES == 0
