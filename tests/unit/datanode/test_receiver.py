"""Packets in, acks out: what an ack stands for while writes go around the page cache."""

import gc
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.datanode.test_replica_output import Timers

from headrace.base.errors import ProtocolError
from headrace.base.events import EventLog
from headrace.datanode.block_files import BlockChecker, create_files
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.context import Context
from headrace.datanode.dataset import Dataset
from headrace.datanode.landing import SEQNO_MAX
from headrace.datanode.receiver import BlockReceiver
from headrace.datanode.replica import Pipeline, Replica, ReplicaState
from headrace.datanode.streams import Lander
from headrace.datanode.volume import Volume
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk, SimulatedFile
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.packets import HEART_BEAT_SEQNO, encode_packet_header, next_packet
from headrace.wire.hadoop.protos.data_transfer_pb2 import PipelineAckProto, Status
from headrace.wire.hadoop.transfer import parse_delimited

MIB = 1 << 20
PACKET_BYTES = 64512
CACHED, DIRECT, LANDS = "cached", "direct", "lands"
"""How packets are written: at once, from a copy of them, or from where they landed."""
DATA = random.Random(1).randbytes(6 * MIB)


class Writer:
    """The stream from a writer: what it sent and was not taken, and the acks it got."""

    peer = "writer"
    backlogged = False

    def __init__(self, *, lands: bool = True) -> None:
        self.receiver: BlockReceiver
        self.sent = b""
        """Not read yet."""
        self.left = b""
        """Read and not taken."""
        self.acks: list[tuple[int, list[int]]] = []
        self.paused = False
        self.closed = False
        self.landed_bytes = 0
        self._lands = lands
        self._lander: Lander | None = None

    def send(self, parts: Sequence[Any]) -> None:
        raw = memoryview(b"".join(parts))
        at = 0
        while at < len(raw):
            found = parse_delimited(raw, at)
            assert found is not None
            body, at = found
            ack = PipelineAckProto.FromString(bytes(body))
            self.acks.append((ack.seqno, [int(reply) for reply in ack.reply]))

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, reason: str, **_how: bool) -> None:
        if not self.closed:
            self.closed = True
            self.receiver.on_closed(reason)

    def land(self, lander: Lander) -> None:
        if self._lands:
            self._lander = lander

    def show(self, more: bytes = b"") -> None:
        """One read, as a stream does it for a session."""
        self.sent += more
        while not self.paused and not self.closed:
            views = self._landing()
            if views is None:
                self.left, self.sent = self.left + self.sent, b""
                if not self.left or not self._show_left():
                    return
            elif not self.sent:
                return
            else:
                self._land(views)

    def _show_left(self) -> int:
        """How much of it is taken; the view is worthless afterwards."""
        buffer = bytearray(self.left)
        count = self.receiver.on_data(memoryview(buffer))
        buffer[:] = bytes(len(buffer))
        self.left = self.left[count:]
        return count

    def _landing(self) -> Sequence[memoryview] | None:
        if self._lander is None:
            return None
        buffer = bytearray(self.left)
        spread = self._lander.landing(memoryview(buffer))
        buffer[:] = bytes(len(buffer))
        if spread is None:
            self._lander = None
            return None
        self.left = b""
        return spread.views()

    def _land(self, views: Sequence[memoryview]) -> None:
        count = 0
        for view in views:
            piece = self.sent[count : count + len(view)]
            view[: len(piece)] = piece
            count += len(piece)
        self.sent = self.sent[count:]
        self.landed_bytes += count
        assert self._lander is not None
        self.left = self._lander.on_landed(count)
        if self.left:
            self._lander = None


class Next:
    """The next node in line, as the mirror of a receiver: it acks what it was sent, a bit later."""

    backlogged = False

    def __init__(self) -> None:
        self.received = b""
        self.acks_waiting = 0
        self.on_acks: Callable[[], None] = lambda: None
        self.on_failed: Callable[[str], None] = lambda _reason: None
        self.on_taken: Callable[[], None] = lambda: None

    def send(self, parts: Sequence[memoryview]) -> None:
        self.received += b"".join(parts)

    def take_acks(self, _seqno: int, most: int) -> tuple[int, Sequence[int]] | None:
        if not self.acks_waiting:
            return None
        count = min(most, self.acks_waiting)
        self.acks_waiting -= count
        return count, (0,)

    def ack(self, number: int) -> None:
        self.acks_waiting += number
        self.on_acks()

    def close(self, _reason: str, **_how: bool) -> None:
        return None


class World:
    """One replica of a writer that is known to sync."""

    def __init__(self, *, lands: bool = True, mirror: Next | None = None) -> None:
        self.disk = SimulatedDisk(defer_syncs=True)
        self.timers = Timers()
        clock = SimulatedClock()
        self.disk.make_directory("/v")
        volume = Volume(self.disk, "/v")
        volume.rbw = "/v/rbw"
        self.replica = Replica(1, 1001, 0, ReplicaState.RBW, volume)
        self.disk.make_directory(self.replica.folder)
        for folder in ("/", "/v"):
            self.disk.sync_directory(folder)
        files = create_files(self.disk, self.replica.data_path, self.replica.meta_path, CRC32C_512)
        self.data, self.meta = files
        self.replica.pipeline = Pipeline(*files, CRC32C_512, 0)
        context = Context(
            Dataset(self.disk, [volume], lambda action: action()),
            lambda *_: None,
            clock,
            self.timers,  # type: ignore[arg-type]
            EventLog(lambda _: None, clock, "debug"),
        )
        self.context = context
        context.sync_habits.on_block_ended("client", True)
        self.ends: list[bool] = []
        self.writer = Writer(lands=lands)
        self.writer.receiver = self.receiver = BlockReceiver(
            context,
            self.replica,
            self.writer,
            mirror,  # type: ignore[arg-type]
            acks=True,
            on_done=self.ends.append,
            on_last=self._on_last,
            on_corrupt=lambda: None,
            client_name="client",
        )
        self.seqno = 0
        self.sent = 0

    def _on_last(self) -> None:
        self.replica.state = ReplicaState.FINALIZED

    def packet(
        self, count: int, *, at: int | None = None, sync: bool = False, damaged: bool = False
    ) -> bytes:
        """The next `count` bytes, or some that start further back."""
        start = self.sent if at is None else at
        data = bytearray(DATA[start : start + count])
        sums = compute_checksums(CRC32C_512, data)
        if damaged:
            data[count // 2] ^= 1
        header = encode_packet_header(len(sums), count, start, self.seqno, False, sync)
        self.seqno += 1
        self.sent = max(self.sent, start + count)
        return header + sums + bytes(data)

    def packets(self, number: int, count: int = PACKET_BYTES) -> bytes:
        return b"".join(self.packet(count) for _ in range(number))

    def settle(self) -> None:
        """Let everything happen that is under way; nothing more comes from the writer."""
        for _ in range(100):
            self.writer.show()
            done = self.disk.complete_syncs()
            due = len(self.timers.due)
            self.timers.run()
            if not done and not due:
                return
        raise AssertionError("it does not come to rest")

    def acked(self) -> list[int]:
        return [seqno for seqno, replies in self.writer.acks if not any(replies)]

    def check(self) -> None:
        """What counts is in the file, byte for byte, and its checksums are beside it."""
        length = self.replica.num_bytes
        assert self.data.size() == length
        assert self.data.read(0, length) == DATA[:length]
        checker = BlockChecker(self.data, self.meta, length)
        while checker.step():
            pass
        assert checker.position == length


@pytest.mark.parametrize("how", [CACHED, DIRECT, LANDS])
@pytest.mark.parametrize("count", [100, PACKET_BYTES, 6 * PACKET_BYTES])
def test_what_is_acked_as_synced_survives_a_power_cut(count: int, how: str) -> None:
    """hsync's packet usually carries data of its own. It may be the first of those that are written
    around the page cache, together with others of the same read."""
    world = World(lands=how == LANDS)
    world.writer.show(world.packets(17))
    if how != CACHED:
        world.writer.show(world.packets(6))
    world.writer.show(world.packets(6) + world.packet(count, sync=True))
    for _ in range(100):
        if len(world.acked()) == world.seqno:
            break
        world.writer.show()
        if not world.disk.complete_syncs(1):
            world.timers.run()
    assert world.acked() == list(range(world.seqno))
    world.check()
    assert isinstance(world.data, SimulatedFile)
    assert world.data.inode.durable == DATA[: world.sent]


@pytest.mark.parametrize("how", [CACHED, DIRECT, LANDS])
@pytest.mark.parametrize("into_chunk", [False, True])
def test_bytes_that_come_again_in_the_same_read(into_chunk: bool, how: str) -> None:
    """A writer flushed amid a chunk and goes on without waiting for the ack."""
    world = World(lands=how == LANDS)
    world.writer.show(world.packets(17))
    if how != CACHED:
        world.writer.show(world.packets(6))
    read = world.packets(6) + world.packet(1000)
    again = world.sent if into_chunk else world.sent // 512 * 512
    read += world.packet(world.sent // 512 * 512 + 512 - again, at=again)
    read += world.packets(2)
    world.writer.show(read)
    world.settle()
    assert world.replica.num_bytes == world.sent
    world.check()
    assert world.acked() == list(range(world.seqno))


@pytest.mark.parametrize("how", [CACHED, DIRECT, LANDS])
@pytest.mark.parametrize("with_good", [0, 1, 4])
def test_a_bad_packet_is_refused_after_those_before_it_are_acked(how: str, with_good: int) -> None:
    """An ack out of order would be the wrong node's fault for whoever reads it."""
    world = World(lands=how == LANDS)
    world.writer.show(world.packets(17))
    if how != CACHED:
        world.writer.show(world.packets(6))
    world.writer.show(world.packets(6))
    more = world.packets(with_good)
    good = world.seqno
    read = more + world.packet(PACKET_BYTES, damaged=True) + world.packets(2)
    world.writer.show(read + encode_packet_header(0, 0, 0, HEART_BEAT_SEQNO, False))
    world.settle()
    assert world.acked() == list(range(good))
    assert world.writer.acks[good:] == [(good, [Status.ERROR_CHECKSUM])]
    assert world.ends == [False]
    assert world.replica.num_bytes == good * PACKET_BYTES
    world.check()


@pytest.mark.parametrize("how", [CACHED, DIRECT, LANDS])
def test_heartbeats_are_acked_where_they_came(how: str) -> None:
    world = World(lands=how == LANDS)
    heartbeat = encode_packet_header(0, 0, 0, HEART_BEAT_SEQNO, False)
    world.writer.show(heartbeat + world.packets(17))
    if how != CACHED:
        world.writer.show(world.packets(6))
    world.writer.show(heartbeat + world.packets(3))
    world.writer.show(world.packets(3) + heartbeat)
    world.settle()
    world.check()
    assert [seqno for seqno in world.acked() if seqno >= 0] == list(range(world.seqno))
    assert world.acked()[0] == world.acked()[-1] == HEART_BEAT_SEQNO
    assert world.acked().count(HEART_BEAT_SEQNO) == 3


@pytest.mark.parametrize("seqno", [HEART_BEAT_SEQNO, -2])
def test_data_has_no_negative_number(seqno: int) -> None:
    world = World()
    world.seqno = seqno
    with pytest.raises(ProtocolError):
        world.writer.show(world.packets(1))


@pytest.mark.parametrize("offset", [0, 1 << 40])
def test_where_a_packet_without_data_says_it_is_does_not_matter(offset: int) -> None:
    world = World()
    world.writer.show(world.packets(2) + encode_packet_header(0, 0, offset, 2, True))
    assert world.acked() == [0, 1, 2]
    assert world.ends == [True]


def test_a_writer_that_closes_its_half_hears_the_end_however_long_syncs_take() -> None:
    world = World()
    world.writer.show(world.packet(100, sync=True))
    world.settle()
    assert world.acked() == [0]
    world.writer.show(encode_packet_header(0, 0, 100, 1, True))
    assert world.receiver.on_end(), "its name is being synced"
    world.settle()
    assert world.acked() == [0, 1]
    assert world.ends == [True]
    assert not world.receiver.on_end()


@pytest.mark.sources
def test_a_next_node_that_is_done_first_has_not_failed() -> None:
    """It closes behind its last ack, while our disk still syncs."""
    mirror = Next()
    world = World(mirror=mirror)
    world.writer.show(world.packet(100, sync=True))
    mirror.ack(1)
    world.settle()
    world.writer.show(world.packet(412, at=100) + world.packet(512))
    world.writer.show(encode_packet_header(0, 0, world.sent, world.seqno, True))
    mirror.ack(3)
    assert world.ends == [], "a sync is under way"
    mirror.on_failed("closed by peer")
    world.settle()
    assert world.ends == [True]
    assert world.context.counters.mirror_failures == 0


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_buffer_is_nobody_s_after_the_block(is_whole: bool) -> None:
    """It is large, and a receiver may be there for long: nothing asks for its memory."""
    world = World()
    world.writer.show(world.packets(17))
    world.writer.show(world.packets(6))
    world.settle()
    assert world.receiver._output._direct is not None
    buffer = world.receiver._output._direct.buffer.obj
    world.writer.show(world.packets(6))
    assert world.writer.landed_bytes > 0
    if is_whole:
        world.writer.show(encode_packet_header(0, 0, world.sent, world.seqno, True))
        world.settle()
    else:
        world.receiver.on_closed("gone")
        world.settle()
    assert world.ends == [is_whole]
    gc.collect()  # the simulated disk's own
    held = sys.getrefcount(buffer)
    assert held == 2, "by this test and by the call"


@pytest.mark.parametrize("seqno", [SEQNO_MAX - 3, (1 << 63) - 6])
def test_packets_with_the_largest_numbers_there_are(seqno: int) -> None:
    world = World()
    world.writer.show(world.packets(17))
    world.seqno = seqno
    for _ in range(2):
        world.writer.show(world.packets(3))
    world.settle()
    world.check()
    assert world.acked()[-6:] == list(range(seqno, seqno + 6))


def test_packets_that_end_amid_a_chunk_do_not_land() -> None:
    """One that starts there and goes beyond is refused, however alike it is."""
    world = World()
    world.writer.show(world.packets(17))
    world.writer.show(world.packets(6))
    count = PACKET_BYTES + 100
    for _ in range(3):
        read = b""
        for _ in range(5):
            read += world.packet(count)
            read += world.packet(512, at=world.sent // 512 * 512)
        world.writer.show(read)
        world.settle()
    world.writer.show(world.packet(count))
    world.settle()
    world.check()
    assert world.acked() == list(range(world.seqno))
    with pytest.raises(ProtocolError, match="inside a chunk"):
        world.writer.show(world.packet(count))


class Story:
    """A writer of many moods, its reads cut anywhere, on a disk that takes its time."""

    def __init__(self, seed: int, *, lands: bool, mirrored: bool) -> None:
        self.rng = random.Random(seed)
        self.next = Next() if mirrored else None
        self.world = World(lands=lands, mirror=self.next)
        self.packet_bytes = self.rng.choice([PACKET_BYTES, 65_536, 512, 3 * 512])
        self.stream = b""
        while self.world.sent < len(DATA) - 9 * 65_536:
            self.stream += self._packets()

    def _packets(self) -> bytes:
        world, rng = self.world, self.rng
        mood = rng.random()
        if mood < 0.9:
            return world.packets(rng.randint(1, 8), self.packet_bytes)
        if mood < 0.94:
            return world.packet(rng.randint(1, self.packet_bytes // 512) * 512)
        if mood < 0.97:
            return world.packet(self.packet_bytes, sync=True)
        into_chunk = world.packet(rng.randint(1, 500))
        return into_chunk + world.packet(512, at=world.sent // 512 * 512)

    def read(self) -> None:
        count = self.rng.choice([1, 10, 600, 70_000, 300_000, 1_500_000])
        count = self.rng.randint(1, count)
        self.world.writer.show(self.stream[:count])
        self.stream = self.stream[count:]

    def pass_time(self) -> None:
        world, rng = self.world, self.rng
        if rng.random() < 0.5:
            world.disk.complete_syncs(rng.randint(1, 3))
        if rng.random() < 0.1:
            world.timers.run()
        if self.next is not None and rng.random() < 0.3:
            self.next.ack(self.next_due())
        world.writer.show()
        world.check()

    def next_due(self) -> int:
        """How many packets the next node got whole and has not acked."""
        assert self.next is not None
        count = position = 0
        view = memoryview(self.next.received)
        while (packet := next_packet(view, position, len(view))) is not None:
            position, count = packet.end, count + 1
        return count - self.next.acks_waiting - len(self.world.writer.acks)


@pytest.mark.parametrize("mirrored", [False, pytest.param(True, marks=pytest.mark.sources)])
@pytest.mark.parametrize("seed", range(12))
def test_however_reads_are_cut(seed: int, mirrored: bool) -> None:
    """Data lands where it is written from, or is copied there: the same file, the same acks."""
    story = Story(seed, lands=seed % 4 > 0, mirrored=mirrored)
    world, sent = story.world, story.stream
    while story.stream:
        story.read()
        story.pass_time()
        assert world.acked() == list(range(len(world.acked())))
    world.settle()
    if story.next is not None:
        assert story.next.received == sent
        story.next.ack(story.next_due())
        world.settle()
    assert world.acked() == list(range(world.seqno))
    assert world.replica.num_bytes == world.sent
    world.writer.show(encode_packet_header(0, 0, world.sent, world.seqno, True))
    world.settle()
    if story.next is not None:
        story.next.ack(1)
        world.settle()
    assert world.ends == [True]
    if seed % 4 and story.packet_bytes >= PACKET_BYTES:
        assert world.writer.landed_bytes > 0
