"""Random work and random stops on a disk that loses and tears what was never synced.

L1, L2, L3 and L20 of the reliability guide at the level of one log: nothing synced is lost,
nothing is invented or changed, nothing is there twice, for every seed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.log.config import LogConfig

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_stop_keeps_what_was_synced(world: Callable[..., Any], seed: int) -> None:
    w = world(seed)
    for _ in range(8):
        for _ in range(w.rng.randint(1, 40)):
            w.step()
        w.stop_and_open(w.rng.choice(("power", "power", "kill", "close")))


def many_lives(w: Any, *, retains: bool = False, truncates: bool = False) -> None:
    w.disk.defer_syncs = w.seed % 2 == 0
    for _ in range(6):
        w.live(w.rng.randint(1, 50), retains=retains, truncates=truncates)
        w.stop_and_open(w.rng.choice(("power", "power", "kill", "close")))


CONFIGS = {
    "plain": LogConfig(segment_bytes=1500, index_interval_bytes=100),
    "dense": LogConfig(segment_bytes=3000, index_interval_bytes=0),
    "retains": LogConfig(segment_bytes=2500, retention_bytes=8000),
    "truncates": LogConfig(segment_bytes=1500, index_interval_bytes=200),
    "filled ahead": LogConfig(segment_bytes=1500, index_interval_bytes=100, fill_ahead_bytes=700),
    "filled ahead, truncates": LogConfig(segment_bytes=6000, fill_ahead_bytes=9000),
    "append time": LogConfig(segment_bytes=1500, index_interval_bytes=200, log_append_time=True),
}


@pytest.mark.parametrize("seed", [*range(8), 1374])
@pytest.mark.parametrize("kind", CONFIGS)
def test_many_lives(world: Callable[..., Any], kind: str, seed: int) -> None:
    w = world(seed, CONFIGS[kind])
    many_lives(w, retains=kind == "retains", truncates="truncates" in kind)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1000, 100))
@pytest.mark.parametrize("kind", CONFIGS)
def test_very_many_lives(world: Callable[..., Any], kind: str, first: int) -> None:
    for seed in range(first + 10_000, first + 10_100):
        w = world(seed, CONFIGS[kind])
        many_lives(w, retains=kind == "retains", truncates="truncates" in kind)


@pytest.mark.parametrize("seed", range(20))
def test_a_second_power_cut_during_recovery_changes_nothing(
    world: Callable[..., Any], seed: int
) -> None:
    w = world(seed)
    for _ in range(30):
        w.step()
    w.disk.crash(w.rng)
    steps = w.directory.__class__.open(
        w.disk, "/data", w.clock, w.log.files, cluster_id="c", node_id=1, random=w.rng
    ).opening_partition("t", 0, bytes(range(16)), w.config)
    for _ in range(w.rng.randint(0, 3)):
        next(steps, None)
    steps.close()
    w.disk.crash(w.rng)
    w.open()
    w.after_open()


@pytest.mark.parametrize("seed", range(20))
def test_recovery_is_idempotent(world: Callable[..., Any], seed: int) -> None:
    w = world(seed)
    for _ in range(40):
        w.step()
    w.stop_and_open("power")
    tree = w.disk.tree()
    w.disk.kill()
    w.open()
    assert w.disk.tree() == tree
    w.after_open()


@pytest.mark.parametrize("seed", range(10))
def test_flush_messages_one_survives_power_loss_of_all(
    world: Callable[..., Any], seed: int
) -> None:
    w = world(seed, LogConfig(segment_bytes=3000, index_interval_bytes=200, flush_messages=1))
    for _ in range(40):
        w.produce()
        assert w.log.needs_flush_before_ack
        outcomes: list[object] = []
        w.log.flush(outcomes.append)
        assert outcomes == [None]
        w.synced_end = w.log.log_end_offset
    w.stop_and_open("power")
    assert w.log.log_end_offset == w.synced_end


@pytest.mark.parametrize("seed", range(10))
def test_deferred_syncs_acknowledge_only_what_is_durable(
    world: Callable[..., Any], seed: int
) -> None:
    w = world(seed)
    w.disk.defer_syncs = True
    durable = 0

    def acknowledge(end: int) -> Callable[[object], None]:
        def on_done(error: object) -> None:
            nonlocal durable
            assert error is None
            durable = max(durable, end)

        return on_done

    for _ in range(60):
        w.produce()
        if w.rng.random() < 0.5:
            w.log.flush(acknowledge(w.log.log_end_offset))
        if w.rng.random() < 0.4:
            w.disk.complete_syncs(w.rng.randint(1, 2))
        assert w.log.recovery_point >= durable
    w.synced_end = durable
    w.stop_and_open("power")


@pytest.mark.parametrize("seed", range(10))
def test_retention_between_crashes(world: Callable[..., Any], seed: int) -> None:
    w = world(seed, LogConfig(segment_bytes=2000, index_interval_bytes=200, retention_bytes=6000))
    for _ in range(6):
        for _ in range(30):
            w.step()
        w.log.retain(w.clock.now_ms(), w.log.log_end_offset)
        assert w.log.size_bytes < 6000 + 2000 + 1500
        w.directory.checkpoint({})
        w.directory.sweep(w.clock.now_ms() + 60_000)
        start = w.log.log_start_offset
        w.stop_and_open(w.rng.choice(("power", "kill", "close")))
        # A deletion that was not synced may be undone; what was kept is still kept.
        assert w.log.log_start_offset <= start


@pytest.mark.parametrize("seed", range(10))
def test_deleted_records_stay_deleted(world: Callable[..., Any], seed: int) -> None:
    w = world(seed)
    for _ in range(40):
        w.step()
    start = w.rng.randint(0, w.log.log_end_offset)
    assert w.log.delete_records(start) == start
    w.note_synced()
    w.directory.checkpoint_log_starts()
    w.log.retain(w.clock.now_ms(), w.log.log_end_offset)
    w.disk.crash(w.rng)
    w.open()
    assert w.log.log_start_offset == start
    with pytest.raises(Exception, match="is not in"):
        w.log.read(start - 1, 1, w.log.log_end_offset)


@pytest.mark.parametrize("seed", range(20))
def test_truncation_survives_a_crash_anywhere(world: Callable[..., Any], seed: int) -> None:
    w = world(seed)
    for _ in range(50):
        w.step()
    w.log.flush_now()
    w.directory.checkpoint({})
    cut = w.rng.choice(w.written)
    w.log.truncate_to(cut.base_offset)
    assert w.log.log_end_offset == cut.base_offset
    w.synced_end = 0
    w.disk.crash(w.rng)
    try:
        w.open()
    except CorruptionError as error:
        raise AssertionError(f"a truncation looked like damage: {error}") from error
    assert w.log.log_end_offset >= cut.base_offset
    w.after_open()
