"""The pace of the background check: bytes a second, and not too many small blocks of them."""

import random

import pytest
from tests.unit.datanode.stored import POOL, new_dataset, store

from headrace.base.events import EventLog
from headrace.datanode.context import Context
from headrace.datanode.scanner import (
    BlockScanner,
    Cursor,
    ScanSettings,
    VolumeScanner,
    read_cursor,
)
from headrace.datanode.volume import Volume
from headrace.testing.clock import SimulatedClock, SimulatedTimers
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


SETTINGS = ScanSettings(bytes_per_second=MIB, period_ms=1_000_000, cursor_save_ms=60_000)


def a_scanner(context: Context) -> VolumeScanner:
    return VolumeScanner(context, context.dataset.volumes[0], SETTINGS)


@pytest.mark.parametrize(
    ("sizes", "took_ms"),
    [([3 * MIB], 3000), ([10_240] * 32, 32 * 62.5), ([0], 62.5), ([MIB // 2, 1], 562.5)],
)
def test_a_round_takes_as_long_as_its_bytes_and_its_blocks_allow(
    sizes: list[int], took_ms: float
) -> None:
    context, found = node_with(sizes)
    scanner = a_scanner(context)
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
    scanner = a_scanner(context)
    while scanner.step() < 10_000:
        pass
    assert context.counters.blocks_scanned == 2
    assert [block.block_id for block in found] == [bad]
    assert context.counters.checksum_failures == 1


# -- where it was ----------------------------------------------------------------------


def scan(context: Context, scanner: VolumeScanner, blocks: int) -> None:
    """Let time pass until so many more have been looked at."""
    goal = context.counters.blocks_scanned + blocks
    assert isinstance(context.clock, SimulatedClock)
    while context.counters.blocks_scanned < goal:
        context.clock.advance(int(scanner.step()))


def cursor_on(context: Context) -> Cursor | None:
    return read_cursor(context.dataset.storage.read_file("/data/current/BP-1/scanner.cursor"))


def test_the_next_process_goes_on_where_this_one_was() -> None:
    context, _ = node_with([10_240] * 10)
    scanner = a_scanner(context)
    scan(context, scanner, 4)
    assert scanner.step() > 0, "the fifth is in hand"
    scanner.stop()
    assert cursor_on(context) == Cursor(1_700_000_000_000, 3)
    for _ in range(2):
        scanner = a_scanner(context)
        scan(context, scanner, 3)
        scanner.step()
        scanner.stop()
    assert context.counters.blocks_scanned == 10
    assert a_scanner(context).step() == 10_000
    assert context.counters.blocks_scanned == 10


def test_restarts_do_not_delay_the_next_round() -> None:
    context, _ = node_with([10_240] * 2)
    clock = context.clock
    assert isinstance(clock, SimulatedClock)
    scanner = a_scanner(context)
    scan(context, scanner, 2)
    assert scanner.step() == 10_000
    cursor = cursor_on(context)
    assert cursor is not None
    assert cursor.is_at_end
    scanner.stop()
    clock.advance(900_000)
    again = a_scanner(context)
    assert again.step() == 10_000
    clock.advance(100_000)
    scan(context, again, 2)
    assert context.counters.blocks_scanned == 4


def test_how_far_it_came_is_saved_now_and_then() -> None:
    """After a kill -9 no more is looked at again than in that time."""
    context, _ = node_with([MIB] * 130)
    scan(context, a_scanner(context), 62)
    first = cursor_on(context)
    assert first is not None
    assert first.last_block_id == pytest.approx(60, abs=2)
    killed = a_scanner(context)
    scan(context, killed, 62)
    second = cursor_on(context)
    assert second is not None
    assert second.last_block_id == pytest.approx(120, abs=2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"iterStartMs": 1, "lastBlockId": "x", "atEnd": false}',
        b'{"iterStartMs": 1, "lastBlockId": 3, "atEnd": 0}',
        b'{"iterStartMs": true, "lastBlockId": 3, "atEnd": false}',
        Cursor(1_700_000_000_001, 8).encode(),
        Cursor(1_700_000_000_000, 8).encode()[:-4],
        b"[" * 100_000,
    ],
)
def test_a_cursor_that_is_damaged_or_of_the_future_is_none(content: bytes) -> None:
    context, _ = node_with([10_240] * 3)
    path = "/data/current/BP-1/scanner.cursor"
    context.dataset.storage.replace_file(path, content)
    scan(context, a_scanner(context), 3)


def test_a_suspect_does_not_move_the_cursor() -> None:
    context, _ = node_with([10_240] * 10)
    scanner = a_scanner(context)
    scan(context, scanner, 2)
    scanner.suspect(9)
    scan(context, scanner, 1)
    scanner.stop()
    assert cursor_on(context) == Cursor(1_700_000_000_000, 1)


def test_each_volume_has_its_own_rate_and_cursor() -> None:
    context, found = node_with([MIB] * 4, bad=3)
    timers = SimulatedTimers(context.clock)  # type: ignore[arg-type]
    context.timers = timers
    dataset = context.dataset
    second = Volume(dataset.storage, "/second")
    second.format(POOL, "uuid", lambda: "DS-2")
    (first,) = dataset.volumes
    dataset.volumes[:] = [second]
    for block_id in range(10, 14):
        store(dataset, block_id, bytes(MIB))
    dataset.volumes[:] = [first, second]
    scanner = BlockScanner(context, SETTINGS)
    scanner.start()
    timers.advance(10_000 + 4_500)
    assert context.counters.blocks_scanned == 7
    assert [block.block_id for block in found] == [3]
    scanner.suspect(12)
    scanner.suspect(1)
    scanner.suspect(99)
    timers.advance(1_500)
    assert context.counters.blocks_scanned == 9
    first.failed = True
    scanner.stop()
    storage = dataset.storage
    assert storage.exists(second.cursor_path)


def test_without_a_rate_there_is_no_scanner() -> None:
    context, _ = node_with([10])
    timers = context.timers = SimulatedTimers(context.clock)  # type: ignore[arg-type]
    scanner = BlockScanner(context, ScanSettings(bytes_per_second=0, period_ms=1))
    scanner.start()
    scanner.suspect(0)
    assert timers.pending_count == 0
