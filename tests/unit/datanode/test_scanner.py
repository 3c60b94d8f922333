"""The pace of the background check: bytes a second, and not too many small blocks of them."""

import random

import pytest

from headrace.base.events import EventLog
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.context import Context
from headrace.datanode.dataset import Dataset
from headrace.datanode.replica import Replica, ReplicaState
from headrace.datanode.scanner import BlockScanner
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.hadoop.block_meta import CRC32C_512, encode_meta_header
from headrace.wire.hadoop.transfer import ExtendedBlock

MIB = 1 << 20
POOL = PoolIdentity("BP-1", 1, "CID", 0)


def node_with(sizes: list[int], bad: int | None = None) -> tuple[Context, list[ExtendedBlock]]:
    """A node with blocks of these sizes; one byte of block `bad` is not what it was."""
    clock, disk = SimulatedClock(), SimulatedDisk()
    volume = Volume(disk, "/data")
    volume.format(POOL, "uuid", lambda: "DS-1")
    dataset = Dataset(disk, [volume], lambda action: action())
    dataset.pool = POOL
    for block_id, size in enumerate(sizes):
        replica = Replica(block_id, 1001, size, ReplicaState.FINALIZED, volume)
        data = bytearray(random.Random(block_id).randbytes(size))
        sums = compute_checksums(CRC32C_512, data)
        if block_id == bad:
            data[size // 2] ^= 1
        disk.make_directory(replica.folder)
        disk.open(replica.data_path, create=True).write([data])
        meta = disk.open(replica.meta_path, create=True)
        meta.write([encode_meta_header(CRC32C_512), sums])
        dataset.replicas[block_id] = replica
    log = EventLog(lambda _: None, clock, "info")
    context = Context(dataset, lambda *_: None, clock, None, log)  # type: ignore[arg-type]
    found: list[ExtendedBlock] = []
    context.report_bad_block = lambda block, _node: found.append(block)
    return context, found


@pytest.mark.parametrize(
    ("sizes", "took_ms"),
    [([3 * MIB], 3000), ([10_240] * 32, 32 * 62.5), ([0], 62.5), ([MIB // 2, 1], 562.5)],
)
def test_a_round_takes_as_long_as_its_bytes_and_its_blocks_allow(
    sizes: list[int], took_ms: float
) -> None:
    context, found = node_with(sizes)
    scanner = BlockScanner(context, bytes_per_second=MIB, period_ms=1_000_000)
    total_ms = 0.0
    while context.counters.blocks_scanned < len(sizes):
        total_ms += scanner.step()
    assert total_ms == pytest.approx(took_ms)
    assert context.counters.bytes_scanned == sum(sizes)
    assert found == []
    assert scanner.step() == 10_000, "the round is over"


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_bad_block_is_found_and_the_others_stay_good(bad: int) -> None:
    context, found = node_with([10_240, 700_000, 3_000], bad)
    scanner = BlockScanner(context, bytes_per_second=MIB, period_ms=1_000_000)
    while scanner.step() < 10_000:
        pass
    assert context.counters.blocks_scanned == 2
    assert [block.block_id for block in found] == [bad]
    assert context.counters.checksum_failures == 1
