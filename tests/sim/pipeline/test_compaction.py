"""Small files are merged while drivers run, sleep and die: a reader who lists notices nothing.

As in `test_publication`, all that is promised is looked at after every single operation.
"""

import random

import pytest
from tests.sim.pipeline.test_publication import STEPS, finish, operations_of, simulation

from headrace.pipeline.compact import CannotCompact
from headrace.pipeline.fence import Fenced
from headrace.pipeline.target_files import FilesError
from headrace.testing.pipeline_simulation import (
    Faults,
    InvariantViolation,
    Killed,
    PipelineSimulation,
    SimulatedCompaction,
)

RANDOM_SEEDS = 10
LONG_SEEDS = 3_000
OPERATIONS_MAX = 1_000


def flushed(seed: int = 1) -> PipelineSimulation:
    """Two batches of small files, and more in the log."""
    sim = simulation(seed, has_sets=True)
    assert sim.drive(2) is None
    sim.log.append("orders", 0, 5, sim.dice)
    assert sim.drive(2) is None
    sim.log.append("orders", 1, 4, sim.dice)
    return sim


def test_a_driver_sleeps_at_every_single_operation_while_another_commits_and_compacts() -> None:
    total, _ = operations_of(True)
    fenced = merged = 0
    for pause_at in range(total):
        sim = simulation(1, has_sets=True)
        files: list[int] = []

        def other(sim: PipelineSimulation = sim, files: list[int] = files) -> None:
            sim.log.append("orders", 0, 4, sim.dice)
            assert sim.drive(2) is None
            files.append(len(sim.visible()))
            assert sim.compact() is None
            files.append(len(sim.visible()))

        sim.while_paused = other
        fenced += isinstance(sim.drive(3, Faults(pause_at=pause_at)), Fenced)
        merged += files[1] < files[0]
        finish(sim)
    assert merged == total
    assert fenced > total * 0.8


@STEPS
def test_a_driver_sleeps_while_another_dies_and_files_are_merged(step: int) -> None:
    total, _ = operations_of(True)
    dice = random.Random(5)
    for pause_at in range(0, total, step):
        sim = flushed(pause_at)

        def other(sim: PipelineSimulation = sim, kill_at: int = dice.randrange(total)) -> None:
            sim.drive(2, Faults(kill_at=kill_at))
            assert sim.compact() is None

        sim.while_paused = other
        sim.drive(3, Faults(pause_at=pause_at))
        finish(sim)


@pytest.mark.parametrize("power_cut", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_compaction_dies_before_every_single_operation(power_cut: bool) -> None:
    for kill_at in range(OPERATIONS_MAX):
        sim = flushed()
        end = sim.compact(Faults(kill_at=kill_at, power_cut=power_cut))
        if end is None:
            assert kill_at > 20
            return
        assert isinstance(end, Killed)
        finish(sim)
        assert sim.compact() is None
        sim.check_complete()
        assert not [path for path in sim.files.files if "/compaction/" in path]
    pytest.fail("it never came to its end")


@STEPS
def test_a_compaction_sleeps_while_others_work(step: int) -> None:
    lost = 0
    for pause_at in range(0, OPERATIONS_MAX, step):
        sim = flushed()
        slept: list[bool] = []

        def others(sim: PipelineSimulation = sim, slept: list[bool] = slept) -> None:
            slept.append(True)
            assert sim.drive(2) is None
            assert sim.compact() is None

        sim.while_paused = others
        end = sim.compact(Faults(pause_at=pause_at))
        # What another has merged or swept meanwhile is gone, which is all that may happen to it.
        assert end is None or isinstance(end, FilesError)
        lost += end is not None
        finish(sim)
        if not slept:
            assert pause_at > 20
            assert lost > 0
            return
    pytest.fail("it never came to its end")


def test_on_apaches_nothing_is_touched() -> None:
    sim = simulation(1, has_sets=False)
    assert sim.drive(2) is None
    before = sim.visible()
    assert isinstance(sim.compact(), CannotCompact)
    assert sim.visible() == before


def test_a_replacement_in_two_steps_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = flushed()
    rename_set = sim.files.rename_set

    def in_two_steps(renames: list[tuple[str, str]], deletes: tuple[str, ...] = ()) -> bool:
        rename_set(renames)
        return rename_set([], deletes)

    monkeypatch.setattr(sim.files, "rename_set", in_two_steps)
    with pytest.raises(InvariantViolation, match="P1"):
        sim.compact()


def test_a_compaction_of_what_is_not_committed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver dies between the renames and the commit: the next one looks for its files."""
    replace = SimulatedCompaction._replace
    monkeypatch.setattr(
        SimulatedCompaction, "_replace", lambda self, merge, _: replace(self, merge, 1 << 30)
    )
    total, _ = operations_of(True)
    failures = 0
    for kill_at in range(total):
        sim = simulation(1, has_sets=True)
        sim.drive(3, Faults(kill_at=kill_at))
        sim.compact()
        failures += sim.drive(4) is not None
    assert failures > 0


def run_random(seed: int) -> None:
    """Drivers and compactions in any order and within each other, each with its own end."""
    dice = random.Random(seed)
    sim = simulation(seed, has_sets=True)

    def faults() -> Faults:
        return Faults(
            kill_at=dice.choice((None, dice.randrange(150))),
            pause_at=dice.choice((None, dice.randrange(150))),
            task_kill_at=dice.choice((None, dice.randrange(40))),
            power_cut=dice.random() < 0.5,
        )

    def act(*, is_inner: bool) -> None:
        found = faults()
        if is_inner:
            # A cut would take bytes of the one that sleeps, whose writer would not live on either.
            found.pause_at, found.power_cut = None, False
        if dice.random() < 0.4:
            sim.compact(found)
        else:
            sim.drive(dice.randrange(1, 6), found)

    for _ in range(dice.randrange(2, 8)):
        if dice.random() < 0.6:
            sim.log.append("orders", dice.randrange(3), dice.randrange(1, 8), sim.dice)
        if dice.random() < 0.3:
            sim.files.lose_reply_of = dice.randrange(10)
        sim.while_paused = lambda: act(is_inner=True)
        act(is_inner=False)
    sim.files.lose_reply_of = None
    finish(sim)
    assert sim.compact() is None
    sim.check_complete()


@pytest.mark.parametrize("seed", range(RANDOM_SEEDS))
def test_everything_at_random(seed: int) -> None:
    run_random(seed)


@pytest.mark.long
def test_everything_at_random_for_long() -> None:
    for seed in range(RANDOM_SEEDS, RANDOM_SEEDS + LONG_SEEDS):
        run_random(seed)
