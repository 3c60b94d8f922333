"""A disk that refuses: full, failing to write, failing to sync (W1, W2, KAFKA-10778)."""

import contextlib
import errno
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.base.errors import DiskFullError, StorageError
from headrace.testing.disk import Fault
from headrace.wire.kafka.record_batch import read_header


class Killed(Exception):
    """Stands for kill -9: no code of ours may catch it."""


@contextlib.contextmanager
def killed_at(w: Any, step: int) -> Iterator[None]:
    """The process ends at the `step`-th operation on the disk, if it does so many."""
    strike = w.disk.strike
    operations = itertools.count(1)

    def counting(kind: str, path: str) -> None:
        if next(operations) == step:
            raise Killed
        strike(kind, path)

    w.disk.strike = counting
    with contextlib.suppress(Killed):
        yield
    w.disk.strike = strike


def refuses_everything(w: Any) -> None:
    batch = w.batch(-1, -1, 1)
    for action in (
        lambda: w.log.stage(memoryview(batch), read_header(batch), 0, 0),
        lambda: w.log.append(batch, 0, 0),
        w.log.roll,
        lambda: w.directory.checkpoint({}),
    ):
        with pytest.raises(StorageError):
            action()
    outcomes: list[StorageError | None] = []
    w.log.flush(outcomes.append)
    assert outcomes[0] is not None


@pytest.mark.parametrize("countdown", [1, 2, 5])
def test_w1_without_room_nothing_is_left_and_writing_goes_on_with_it(
    world: Callable[..., Any], countdown: int
) -> None:
    w = world(1)
    for _ in range(10):
        w.produce()
    w.disk.plan(Fault("write", errno.ENOSPC, countdown, ".log", is_sticky=True))
    for _ in range(10):
        with contextlib.suppress(DiskFullError):
            w.produce()
    end = w.log.log_end_offset
    assert w.log.full is w.directory.full is not None
    assert w.log.failure is w.directory.failure is None
    w.forget_lost()
    w.check_content()
    w.disk.heal()
    w.directory.look_for_room()
    for _ in range(10):
        w.produce()
    assert w.log.log_end_offset > end
    w.check_content()
    w.log.flush_now()
    w.synced_end = w.log.log_end_offset
    w.disk.crash(w.rng)
    w.open()
    w.after_open()


@pytest.mark.parametrize("countdown", [1, 2, 5])
def test_w2_a_refused_write_ends_writing(world: Callable[..., Any], countdown: int) -> None:
    w = world(1)
    for _ in range(10):
        w.produce()
    w.log.flush_now()
    before = w.log.log_end_offset
    w.disk.plan(Fault("write", errno.EIO, countdown, ".log"))
    committed = before
    refused: StorageError | None = None
    for _ in range(10):
        committed = w.log.log_end_offset
        try:
            w.produce()
        except StorageError as error:
            refused = error
            break
    assert refused is w.log.failure is not None
    assert refused.path.endswith(".log")
    # Nothing of the refused write shows, and nothing more is taken even though the disk works.
    assert w.log.log_end_offset >= committed
    w.disk.heal()
    refuses_everything(w)
    assert w.directory.failure is not None
    w.written = [b for b in w.written if b.last_offset < w.log.log_end_offset]
    w.check_content()
    w.disk.kill()
    w.synced_end = before
    w.open()
    w.after_open()
    w.produce()


def test_w2_a_failed_sync_is_never_tried_again(world: Callable[..., Any]) -> None:
    w = world(2)
    w.produce()
    w.log.flush_now()
    synced = w.log.recovery_point
    w.produce()
    fault = w.disk.plan(Fault("sync"))
    outcomes: list[StorageError | None] = []
    w.log.flush(outcomes.append)
    assert isinstance(outcomes[0], StorageError)
    assert fault.fired_count == 1
    assert w.log.recovery_point == synced
    count = w.disk.sync_count
    refuses_everything(w)
    assert w.disk.sync_count == count
    w.disk.crash(w.rng)
    w.synced_end = synced
    w.open()
    w.after_open()


@pytest.mark.parametrize("kind", ["write", "open", "rename", "sync_directory"])
def test_w1_no_room_while_rolling(world: Callable[..., Any], kind: str) -> None:
    w = world(3)
    for _ in range(4):
        w.produce()
    end = w.log.log_end_offset
    w.disk.plan(Fault(kind, errno.ENOSPC, 1, is_sticky=True))
    with contextlib.suppress(StorageError):
        w.log.roll()
        w.log.flush(print)
    if kind == "sync_directory":  # nobody knows what a failed sync has left
        assert w.log.failure is not None
    w.disk.heal()
    w.directory.look_for_room()
    if kind != "sync_directory":
        assert w.log.failure is None
        w.log.roll()
        assert w.log.log_end_offset == end
    w.disk.kill()
    w.open()
    assert w.log.log_end_offset == end
    w.after_open()


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "sync_directory"])
def test_w1_no_room_while_checkpointing(world: Callable[..., Any], kind: str) -> None:
    w = world(4)
    w.produce()
    w.log.flush_now()
    w.directory.checkpoint({})
    w.produce()
    w.log.flush_now()
    w.disk.plan(Fault(kind, errno.ENOSPC, 1, "checkpoint"))
    if kind == "sync_directory":
        w.disk.heal()
        w.disk.plan(Fault(kind, errno.ENOSPC))
    # What runs every few seconds syncs nothing.
    synced = kind.startswith("sync")
    if synced:
        with pytest.raises(StorageError):
            w.directory.checkpoint_recovery_points()
    else:
        w.directory.checkpoint({})
    assert (w.directory.failure if synced else w.directory.full) is not None
    if not synced:
        w.disk.plan(Fault("write", errno.ENOSPC, is_sticky=True))
    assert not w.directory.close()
    assert not w.disk.exists("/data/.kafka_cleanshutdown")
    w.disk.heal()
    w.disk.kill()
    w.open()
    w.after_open()


def test_one_directory_fails_and_the_other_serves_on(world: Callable[..., Any]) -> None:
    failing, healthy = world(5), world(6)
    failing.produce()
    failing.disk.plan(Fault("write", errno.EIO, 1, ".log", is_sticky=True))
    with pytest.raises(StorageError):
        failing.produce()
    healthy.produce()
    healthy.directory.checkpoint({})


def test_a_failure_reaches_every_log_of_the_directory(world: Callable[..., Any]) -> None:
    w = world(7)
    other = w.directory.open_partition("t", 1, bytes(range(16)), w.config)
    told: list[StorageError] = []
    w.directory.on_failure = told.append
    w.disk.plan(Fault("write", errno.EIO, 1, "t-0/"))
    with pytest.raises(StorageError):
        w.produce()
    assert other.failure is w.log.failure
    assert told == [w.log.failure]


@pytest.mark.parametrize("step", range(1, 40))
def test_kill_at_every_step_of_a_clean_stop(world: Callable[..., Any], step: int) -> None:
    """KAFKA-10471, KAFKA-15375: the marker stands only behind a stop that went well."""
    w = world(8)
    for _ in range(12):
        w.produce()
    w.directory.checkpoint({})
    end = w.log.log_end_offset
    with killed_at(w, step):
        w.directory.close()
    w.synced_end = 0
    w.disk.kill()
    w.open()
    assert w.log.log_end_offset == end
    w.after_open()


@pytest.mark.parametrize("step", range(1, 40))
@pytest.mark.parametrize("stop", ["close", "kill"])
def test_kill_at_every_step_of_a_start(world: Callable[..., Any], step: int, stop: str) -> None:
    w = world(9)
    for _ in range(12):
        w.produce()
    end = w.log.log_end_offset
    if stop == "close":
        w.directory.close()
    w.disk.kill()
    with killed_at(w, step):
        w.open()
    if stop == "close":
        w.disk.crash(w.rng)
    else:
        w.disk.kill()
    w.open()
    assert w.log.log_end_offset == end
    w.after_open()
