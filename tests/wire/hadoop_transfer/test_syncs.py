"""What a writer's sync at a block's end costs, and what is done for it while the block comes in."""

import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.runtime.test_disk import has_ring
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, write_request

from headrace.base.storage import File
from headrace.datanode import acks
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.replica import ReplicaState
from headrace.runtime import uring
from headrace.runtime.disk import DiskStorage
from headrace.runtime.disk_file import DiskFile
from headrace.runtime.uring import Ring
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.packets import encode_packet_header
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock

Start = Callable[..., Nodes]
DATA = os.urandom(9 << 20)
PACKET_BYTES = 64512


class Told:
    """A page cache that remembers what was to be written out."""

    def __init__(self) -> None:
        self.written_out: list[tuple[str, int, int]] = []

    def write_out(self, file: File, position: int, length: int) -> None:
        self.written_out.append((os.path.basename(file.path), position, length))

    def will_need(self, _file: File, _position: int, _length: int) -> None:
        raise AssertionError("nothing is read here")

    drop = will_need


def write(nodes: Nodes, number: int, data: bytes, *, sync: bool, name: str = "client") -> None:
    with Peer(nodes[0].address) as peer:
        targets = [node.info for node in nodes.all[1:]]
        block = ExtendedBlock(POOL.pool_id, number, 1001)
        assert peer.write_block(write_request(block, targets, name=name)).status == pb.SUCCESS
        starts = range(0, len(data), PACKET_BYTES)
        for start in starts:
            peer.packet(data[start : start + PACKET_BYTES], start)
        peer.packet(b"", len(data), last=True, sync=sync)
        for _ in range(len(starts) + 1):
            assert not any(peer.ack().reply)


def test_a_writer_that_syncs_has_its_next_block_written_out_while_it_comes(
    start_nodes: Start,
) -> None:
    nodes = start_nodes(3)
    caches = [Told() for _ in nodes.all]
    for node, cache in zip(nodes.all, caches, strict=True):
        node.context.page_cache = cache
        node.context.settings = replace(node.context.settings, direct_writes=False)
    write(nodes, 1, DATA, sync=True)
    assert [cache.written_out for cache in caches] == [[], [], []], "nobody could know"
    write(nodes, 2, DATA, sync=True)
    write(nodes, 3, DATA, sync=False, name="new, and taken for the one before")
    for cache in caches:
        for name in ("blk_2", "blk_3"):
            ranges = [(at, length) for file, at, length in cache.written_out if file == name]
            end = 0
            for at, length in ranges:
                assert at == end, "no gaps"
                end += length
            assert end > len(DATA) // 2
        cache.written_out.clear()
    write(nodes, 4, DATA, sync=False, name="new, and taken for the one before")
    write(nodes, 5, DATA, sync=False, name="another that syncs nothing")
    assert [cache.written_out for cache in caches] == [[], [], []]
    write(nodes, 6, DATA, sync=False)
    assert all(cache.written_out for cache in caches), "the first one's habit is still known"


@pytest.fixture(params=["ring", "threads"])
def synced(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, int]]:
    """What is synced, with its size then, while this is looked at, by the ring or by threads."""
    synced: list[tuple[str, int]] = []
    sync_file, sync_directory, by_ring = DiskFile.sync, DiskStorage.sync_directory, Ring.sync

    def on_file(file: DiskFile) -> None:
        assert request.param == "threads"
        synced.append((os.path.basename(file.path), file.size()))
        sync_file(file)

    def on_directory(storage: DiskStorage, path: str) -> None:
        synced.append((os.path.basename(path), 0))
        sync_directory(storage, path)

    def on_ring(ring: Ring, fd: int, on_done: Callable[[int], None], *, data_only: bool) -> int:
        size = os.fstat(fd).st_size if data_only else 0
        synced.append((os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), size))
        return by_ring(ring, fd, on_done, data_only=data_only)

    if request.param == "threads":
        monkeypatch.setattr(uring, "open_ring", lambda *_: None)
    elif not has_ring():
        pytest.skip("the system has no io_uring for us")
    monkeypatch.setattr(DiskFile, "sync", on_file)
    monkeypatch.setattr(DiskStorage, "sync_directory", on_directory)
    monkeypatch.setattr(Ring, "sync", on_ring)
    return synced


def names_of(synced: list[tuple[str, int]]) -> list[str]:
    names = [name for name, _ in synced]
    synced.clear()
    return names


def test_a_synced_block_costs_two_files_and_a_folder(
    start_nodes: Start, synced: list[tuple[str, int]]
) -> None:
    nodes = start_nodes(1)
    write(nodes, 7, b"unsynced", sync=False)
    synced.clear()
    write(nodes, 8, DATA[:1000], sync=True)
    files = {"blk_8", "blk_8_1001.meta"}
    names = names_of(synced)
    assert set(names[:2]) == files, "before it gets its name"
    assert names[2:] == ["subdir0", "subdir0", "finalized"], "the folders are new, too"
    write(nodes, 9, DATA[:1000], sync=True)
    names = names_of(synced)
    assert set(names[:2]) == {"blk_9", "blk_9_1001.meta"}
    assert names[2:] == ["subdir0"]
    write(nodes, 10, b"unsynced", sync=False)
    assert synced == []


def test_what_a_writer_before_left_unsynced_is_synced_before_the_end(
    start_nodes: Start, synced: list[tuple[str, int]]
) -> None:
    """It synced once, wrote on and lost its pipeline; the next has only the end left to send."""
    nodes = start_nodes(1)
    block = ExtendedBlock(POOL.pool_id, 1, 1001)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(block))
        peer.packet(DATA[:512], 0, sync=True)
        peer.packet(DATA[512:1024], 512)
        for _ in range(2):
            assert not any(peer.ack().reply)
    with Peer(nodes[0].address) as peer:
        request = write_request(
            block, stage=Stage.PIPELINE_SETUP_STREAMING_RECOVERY, stamp=1002, least=1024, most=1024
        )
        assert peer.write_block(request).status == pb.SUCCESS
        synced.clear()
        peer.packet(b"", 1024, last=True)
        assert not any(peer.ack().reply)
    assert ("blk_1", 1024) in synced


@pytest.mark.parametrize(("whole", "held"), [(1, True), (15, True), (16, False), (40, False)])
def test_acks_wait_for_a_packet_that_is_on_its_way(
    start_nodes: Start, monkeypatch: pytest.MonkeyPatch, whole: int, held: bool
) -> None:
    """But not too many of them. All of it is so little that one read brings it."""
    monkeypatch.setattr(acks, "_HELD_MS", 60_000)
    nodes = start_nodes(1)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(ExtendedBlock(POOL.pool_id, 1, 1001)))
        data = DATA[:512]
        sums = compute_checksums(CRC32C_512, data)
        packets = [
            encode_packet_header(len(sums), len(data), 512 * seqno, seqno, False) + sums + data
            for seqno in range(whole + 1)
        ]
        peer.send(b"".join(packets)[:-300])
        replica = nodes.call(lambda: nodes[0].dataset.replicas[1])
        deadline = time.monotonic() + 10
        while nodes.call(lambda: replica.num_bytes) < 512 * whole:
            assert time.monotonic() < deadline, "the whole packets are written"
        assert nodes.call(lambda: replica.bytes_acked) == (0 if held else 512 * whole)
        peer.send(packets[-1][-300:])
        assert [peer.ack().seqno for _ in packets] == list(range(whole + 1))


def test_bytes_behind_the_last_packet_keep_no_ack_back(start_nodes: Start) -> None:
    nodes = start_nodes(1)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(ExtendedBlock(POOL.pool_id, 1, 1001)))
        peer.send(encode_packet_header(0, 0, 0, 0, True) + b"\0\0\0")
        assert (peer.ack().seqno, nodes[0].received) == (0, [(1, 1001, 0)])


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_a_bad_packet_among_others_of_one_read(start_nodes: Start, bad: int) -> None:
    """The good ones before it are kept and acked; of it and those behind it nothing is."""
    nodes = start_nodes(1)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(ExtendedBlock(POOL.pool_id, 1, 1001)))
        sent = b""
        for seqno in range(4):
            start = seqno * PACKET_BYTES
            data = bytearray(DATA[start : start + PACKET_BYTES])
            sums = compute_checksums(CRC32C_512, data)
            if seqno == bad:
                data[PACKET_BYTES // 2] ^= 1
            sent += encode_packet_header(len(sums), len(data), start, seqno, False) + sums + data
        sent += encode_packet_header(0, 0, 4 * PACKET_BYTES, 4, True, True)
        peer.send(sent)
        acks = [peer.ack() for _ in range(bad + 1)]
        assert [ack.seqno for ack in acks] == list(range(bad + 1))
        assert [list(ack.reply) for ack in acks[:-1]] == [[pb.SUCCESS]] * bad
        assert list(acks[-1].reply) == [pb.ERROR_CHECKSUM]
        assert peer.at_end()
    replica = nodes[0].dataset.replicas[1]
    assert (replica.state, replica.num_bytes) == (ReplicaState.RBW, bad * PACKET_BYTES)
    with open(replica.data_path, "rb") as file:
        assert file.read() == DATA[: bad * PACKET_BYTES]
    assert nodes[0].context.counters.checksum_failures == 1
