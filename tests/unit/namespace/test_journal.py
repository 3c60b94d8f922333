"""The journal's group commit: who shares a sync, and who waits for it."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.base.errors import StorageError
from headrace.base.limits import MIB
from headrace.base.storage import File
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.namespace.caller import Caller
from headrace.namespace.filesystem import Namespace
from headrace.namespace.journal import Journal, open_log
from headrace.namespace.ops import format_namespace, mkdirs
from headrace.namespace.ops.mkdirs import MkdirEdit
from headrace.namespace.requests import Mkdirs
from headrace.namespace.settings import NamespaceSettings
from headrace.runtime.disk import DiskStorage
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.kafka.plain_batches import encode_plain_batch
from headrace.wire.kafka.records import read_batches

CALLER = Caller("hdfs", (), b"c" * 16, 1, "10.0.0.1")


class SlowDisk(SimulatedDisk):
    """Counts the syncs that its caller waits for, and lets time pass in them."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__(defer_syncs=True)
        self.clock = clock
        self.sync_ms = 0
        self.waited_count = 0
        self.error: StorageError | None = None
        self.on_sync_now: Callable[[], None] = lambda: None

    def sync_now(self, file: File) -> None:
        self.on_sync_now()
        super().sync_now(file)
        if self.error is not None:
            raise self.error
        self.clock.advance(self.sync_ms)
        self.waited_count += 1


class World:
    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.disk = SlowDisk(self.clock)
        self.disk.make_directory("name")
        self.disk.sync_directory("/")
        self.turn: list[Callable[[], None]] = []
        self.is_alone = False
        """Each turn of the loop is one call's, and ends with it."""
        self.fatal: list[BaseException] = []
        self.open()
        formatted = self.journal.submit(
            lambda ns: format_namespace.decide(ns, "c", "127.0.0.1", Random(1), 1)
        )
        self.end_turn()
        self.disk.complete_syncs()
        assert formatted.value() is True
        self.disk.waited_count = 0

    def open(self) -> None:
        """As a process does that starts: with an empty namespace."""
        self.turn.clear()
        log = open_log(self.disk, "name", self.clock, FileBudget(self.disk))
        self.journal = Journal(
            log,
            Namespace(NamespaceSettings(superuser="hdfs")),
            self.clock,
            on_durable=lambda: None,
            on_fatal=self.fatal.append,
            at_turn_end=self.at_turn_end,
        )
        self.journal.load()

    def at_turn_end(self, callback: Callable[[], None]) -> bool:
        self.turn.append(callback)
        return self.is_alone

    @property
    def committed(self) -> int:
        return self.journal.state.durable_sequence

    def end_turn(self) -> None:
        turn, self.turn = self.turn, []
        for callback in turn:
            callback()

    def make(self, path: str) -> Any:
        self.journal.decide_now(mkdirs.decide, Mkdirs(path, 0o755), CALLER, 5)
        return self.journal.durable(path)

    def batches(self) -> list[tuple[int, int]]:
        """First and last offset of each batch in the log's files."""
        log = self.journal.log
        region = log.read(0, 2**30, log.log_end_offset).region
        assert region is not None
        data = region.file.read(region.position, region.length)
        return [(header.base_offset, header.last_offset) for header, _ in read_batches(data)]


def test_the_decisions_of_a_turn_share_a_sync_that_the_loop_waits_for() -> None:
    world = World()
    promises = [world.make(f"/{number}") for number in range(5)]
    assert not any(promise.settled for promise in promises)
    world.end_turn()
    assert [promise.value() for promise in promises] == ["/0", "/1", "/2", "/3", "/4"]
    assert (world.disk.waited_count, world.disk.deferred_count) == (1, 0)
    assert world.journal.durable("x").settled  # nothing is open any more
    assert not world.turn


def test_a_slow_disk_is_left_to_the_thread_while_it_is_slow() -> None:
    world = World()
    world.disk.sync_ms = 40
    for number in range(20):
        promise = world.make(f"/{number}")
        world.end_turn()
        if not promise.settled:
            break
    else:
        raise AssertionError("the loop waits for a disk that takes 40 ms")
    waited = world.disk.waited_count
    others = [world.make(f"/other{number}") for number in range(3)]
    world.end_turn()
    assert world.disk.waited_count == waited
    for _ in range(3):
        world.disk.complete_syncs()
        world.end_turn()
    assert promise.settled
    assert all(other.settled for other in others)
    world.disk.sync_ms = 0
    for number in range(50):
        quick = world.make(f"/quick{number}")
        world.end_turn()
        if quick.settled:
            break
        world.disk.complete_syncs()
        world.end_turn()
    else:
        raise AssertionError("a disk that became quick is left to the thread for ever")
    assert world.disk.waited_count == waited + 1


def test_where_several_wait_a_disk_of_some_milliseconds_is_slow() -> None:
    world = World()
    world.disk.sync_ms = 6
    for number in range(20):
        alone = world.make(f"/{number}")
        world.end_turn()
        assert alone.settled
    together = [world.make("/a"), world.make("/b")]
    world.end_turn()
    assert not any(promise.settled for promise in together)
    world.disk.complete_syncs()
    assert [promise.value() for promise in together] == ["/a", "/b"]


def test_a_refusing_disk_is_the_end_and_nothing_is_answered() -> None:
    world = World()
    promise = world.make("/a")
    world.disk.error = StorageError("name", OSError(5, "I/O error"))
    committed = world.committed
    world.end_turn()
    assert world.fatal == [world.disk.error]
    assert promise.error is world.disk.error
    assert world.committed == committed
    with pytest.raises(StorageError):
        world.make("/b")


def test_the_log_on_a_real_disk_has_zeros_ahead_of_its_end(tmp_path: Path) -> None:
    """While it is written and after a kill; not when it is opened, and not after a clean stop."""
    disk, clock = DiskStorage(), SimulatedClock()
    path = tmp_path / "__namespace-0" / f"{0:020d}.log"

    def append(log: PartitionLog) -> None:
        log.append(encode_plain_batch([(None, b"edit")], 5), 1, 5)
        log.flush_now()

    killed = open_log(disk, str(tmp_path), clock, FileBudget(disk, 1))
    append(killed)
    size = path.stat().st_size
    assert size == killed.size_bytes + MIB
    append(killed)
    assert path.stat().st_size == size
    log = open_log(disk, str(tmp_path), clock, FileBudget(disk, 1))
    assert (log.log_end_offset, log.recovered.cut_bytes) == (2, 0)
    assert path.stat().st_size == log.size_bytes == killed.size_bytes
    append(log)
    log.roll()  # with room for one open file
    append(log)
    assert path.stat().st_size == log.segments[0].size
    assert [log.read(offset, 1, 4).first_batch_offset for offset in range(4)] == [0, 1, 2, 3]
    append(log)
    log.close()
    assert sum(each.stat().st_size for each in path.parent.glob("*.log")) == log.size_bytes
    again = open_log(disk, str(tmp_path), clock, FileBudget(disk, 1))
    assert (again.log_end_offset, again.recovered.cut_bytes) == (5, 0)


def test_the_edits_of_a_turn_are_one_batch_and_each_has_its_offset() -> None:
    world = World()
    journal, ns = world.journal, world.journal.state
    first = ns.last_offset
    offsets = []
    for path in ("/a", "/b/c", "/d"):  # the second makes two directories: two edits
        world.make(path)
        offsets.append(ns.last_offset - first)
        assert journal.log.log_end_offset == first + 1
    assert offsets == [1, 3, 4]
    world.end_turn()
    world.make("/e")
    world.end_turn()
    assert world.batches()[-2:] == [(first + 1, first + 4), (first + 5, first + 5)]
    assert journal.high_watermark == ns.last_offset + 1 == first + 6


def test_an_opening_replays_batches_of_many_decisions() -> None:
    world = World()
    for turn in range(3):
        for number in range(4):
            world.make(f"/{turn}/{number}")
        world.end_turn()
    before = durable_state(world.journal.state)
    world.disk.crash(Random(1))
    world.open()
    assert durable_state(world.journal.state) == before
    assert world.journal.state.last_offset + 1 == world.journal.high_watermark


def test_a_turn_that_a_crash_cuts_is_lost_whole() -> None:
    world = World()
    world.make("/kept")
    world.end_turn()
    before = durable_state(world.journal.state)
    answers = [world.make("/a"), world.make("/b")]
    world.disk.crash(Random(1))
    world.open()
    assert durable_state(world.journal.state) == before
    assert not any(answer.settled for answer in answers)


def long_path(number: int) -> str:
    """Thirty directories deep: about fourteen kilobytes of edits."""
    return "".join(f"/{number}-" + "x" * 240 for _ in range(30))


def test_a_turn_with_much_to_write_is_one_batch_too() -> None:
    """The disk may write the second of two first, and a hole before good edits is damage."""
    world = World()
    first = world.journal.state.last_offset
    for number in range(200):
        world.make(long_path(number))
    world.end_turn()
    assert world.batches()[-1] == (first + 1, world.journal.state.last_offset)
    before = durable_state(world.journal.state)
    world.open()
    assert durable_state(world.journal.state) == before


def fill_turn(world: World) -> tuple[int, RemoteError]:
    """Decide in one turn until the journal takes no more: how many it took, and its refusal."""
    for number in range(2000):
        try:
            world.make(long_path(number))
        except RemoteError as refused:
            return number, refused
    raise AssertionError("a turn without end")


def test_more_than_a_turn_may_write_is_to_be_tried_again() -> None:
    taken, refused = fill_turn(World())
    assert refused.class_name == exceptions.RETRIABLE
    assert "wait for the disk" in refused.message
    world = World()
    for number in range(taken):
        world.make(long_path(number))
    # Looked at once: a look at so many directories takes longer than making ten.
    before = durable_state(world.journal.state), world.journal.state.last_offset
    with pytest.raises(RemoteError, match="wait for the disk"):
        world.make(long_path(taken))
    assert (durable_state(world.journal.state), world.journal.state.last_offset) == before
    world.end_turn()
    answer = world.make("/afterwards")
    world.end_turn()
    assert answer.value() == "/afterwards"


def test_a_log_that_takes_nothing_more_is_the_end_of_the_whole_turn() -> None:
    world = World()
    answers = [world.make("/a"), world.make("/b")]
    error = StorageError("name", OSError(5, "I/O error"))
    world.journal.log.fail(error)
    world.end_turn()
    assert world.fatal == [error]
    assert [answer.error for answer in answers] == [error, error]


class LoneWorld(World):
    """One client calls, and each call has its turn to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.is_alone = True
        self.first = self.journal.state.last_offset + 1

    @property
    def end(self) -> int:
        return self.journal.log.log_end_offset - self.first


@pytest.mark.sources
def test_edits_of_a_turn_that_is_one_call_s_are_written_before_they_are_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LoneWorld()
    written: list[int] = []
    replay = MkdirEdit.replay

    def spy(edit: MkdirEdit, ns: Namespace) -> None:
        written.append(world.end)
        replay(edit, ns)

    monkeypatch.setattr(MkdirEdit, "replay", spy)
    answer = world.make("/a/b")  # two edits, of which the parent's is a message
    assert written == [2]
    assert world.disk.written_out_count == 1
    assert not answer.settled
    assert world.disk.waited_count == 0
    world.end_turn()
    assert answer.value() == "/a/b"
    assert (world.disk.waited_count, world.disk.deferred_count) == (1, 0)
    before = durable_state(world.journal.state)
    world.disk.crash(Random(1))
    world.open()
    assert durable_state(world.journal.state) == before


def test_what_is_decided_later_in_such_a_turn_is_a_batch_that_is_written_after_a_sync() -> None:
    """Both in one sync could leave a hole before the second when the power goes."""
    world = LoneWorld()
    syncs: list[int] = []
    world.disk.on_sync_now = lambda: syncs.append(world.end)
    answers = [world.make("/a"), world.make("/b"), world.make("/c")]
    assert world.end == 1
    world.end_turn()
    assert syncs == [1, 3]
    assert [answer.value() for answer in answers] == ["/a", "/b", "/c"]
    assert world.batches()[-2:] == [
        (world.first, world.first),
        (world.first + 1, world.first + 2),
    ]
    world.make("/d")
    assert world.end == 4


def test_the_first_of_two_syncs_may_fail() -> None:
    world = LoneWorld()
    answers = [world.make("/a"), world.make("/b")]
    world.disk.error = StorageError("name", OSError(5, "I/O error"))
    world.end_turn()
    assert world.fatal == [world.disk.error]
    assert [answer.error for answer in answers] == [world.disk.error] * 2
    assert world.end == 1


@pytest.mark.sources
def test_an_edit_that_can_t_be_replayed_is_taken_out_of_the_log_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next start could not replay it either."""
    world = LoneWorld()
    world.make("/kept")
    world.end_turn()
    before = durable_state(world.journal.state)

    def fail(_: MkdirEdit, __: Namespace) -> None:
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(MkdirEdit, "replay", fail)
        with pytest.raises(RuntimeError):
            world.make("/lost")
    assert len(world.fatal) == 1
    assert world.end == 1
    world.end_turn()
    world.open()
    assert durable_state(world.journal.state) == before


def test_a_power_cut_takes_a_batch_that_was_written_ahead_or_leaves_it_whole() -> None:
    kept = 0
    for seed in range(40):
        world = LoneWorld()
        before = durable_state(world.journal.state)
        answer = world.make("/a/b/c")
        after = durable_state(world.journal.state)
        assert not answer.settled
        world.disk.crash(Random(seed))
        world.open()
        state = durable_state(world.journal.state)
        assert state in (before, after)
        kept += state == after
    assert 0 < kept < 40


def test_nothing_is_written_ahead_on_a_slow_disk_or_of_a_turn_that_others_share() -> None:
    world = LoneWorld()
    world.disk.sync_ms = 100
    for number in range(20):
        world.make(f"/{number}")
        world.end_turn()
        world.disk.complete_syncs()
    end = world.end
    world.make("/slow")
    assert world.end == end
    world.disk.sync_ms = 0
    shared = World()
    end = shared.journal.log.log_end_offset
    shared.make("/a")
    assert shared.journal.log.log_end_offset == end


def test_a_disk_that_refuses_what_is_written_ahead_is_the_end() -> None:
    world = LoneWorld()
    before = durable_state(world.journal.state)
    error = StorageError("name", OSError(5, "I/O error"))
    world.journal.log.fail(error)
    with pytest.raises(StorageError):
        world.make("/a")
    assert world.fatal == [error]
    assert durable_state(world.journal.state) == before
    world.end_turn()
