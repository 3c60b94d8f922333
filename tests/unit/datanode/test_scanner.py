"""The pace of the background check: bytes a second, and not too many small blocks of them."""

import random

import pytest
from tests.unit.datanode.stored import new_dataset, store

from headrace.base.events import EventLog
from headrace.datanode.context import Context
from headrace.datanode.scanner import BlockScanner
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.hadoop.transfer import ExtendedBlock

MIB = 1 << 20


def node_with(sizes: list[int], bad: int | None = None) -> tuple[Context, list[ExtendedBlock]]:
    """A node with blocks of these sizes; one byte of block `bad` is not what it was."""
    clock, dataset = SimulatedClock(), new_dataset(SimulatedDisk())
    for block_id, size in enumerate(sizes):
        data = random.Random(block_id).randbytes(size)
        store(dataset, block_id, data, flipped=size // 2 if block_id == bad else None)
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
