"""The publication protocol killed at every single operation, paused, haunted, without power.

After every operation of every run a reader lists the target and must see each record at most once,
whole and in its place; after a last driver had its way, every record exactly once.
"""

import random

import pytest

from headrace.pipeline.fence import Fenced
from headrace.testing.pipeline_simulation import Faults, Killed, PipelineSimulation

SETS = pytest.mark.parametrize("has_sets", [True, False], ids=["ours", "apache"])
STEPS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
"""Every operation, or every so many of them where there is little time."""
RANDOM_SEEDS = 25
LONG_SEEDS = 5_000


def simulation(
    seed: int, *, has_sets: bool, make: type[PipelineSimulation] = PipelineSimulation
) -> PipelineSimulation:
    sim = make(seed, has_sets=has_sets)
    for partition in range(2):
        sim.log.append("orders", partition, 7, sim.dice)
    return sim


def finish(sim: PipelineSimulation) -> None:
    assert sim.drive(4) is None
    for partition in range(2):
        sim.log.append("orders", partition, 3, sim.dice)
    assert sim.drive(5) is None
    sim.check_complete()
    while sim.ghosts:
        sim._maybe_move_ghosts()
        sim.check("a ghost's step")
    # What ghosts left is swept with the next batch.
    sim.log.append("orders", 0, 1, sim.dice)
    assert sim.drive(5) is None
    sim.check_complete()
    staged = [path for path in sim.files.files if path.startswith(sim.rooms.staging)]
    assert staged == []


def operations_of(has_sets: bool, records_per_file: int = 3) -> tuple[int, int]:
    """How many operations and task steps a run without faults has."""
    sim = simulation(1, has_sets=has_sets)
    counted = [0]
    look = sim.files.before

    def count(operation: str, path: str) -> None:
        counted[0] += 1
        look(operation, path)

    sim.files.before = count
    steps: list[int] = []
    run_task = sim._run_task

    def count_steps(task):  # type: ignore[no-untyped-def]
        done = run_task(task)
        steps.append(sim.task_steps)
        return done

    sim._run_task = count_steps  # type: ignore[method-assign]
    assert sim.drive(records_per_file) is None
    sim.check_complete()
    return counted[0], max(steps)


@SETS
def test_a_driver_dies_before_every_single_operation(has_sets: bool) -> None:
    total, _ = operations_of(has_sets)
    assert total > 40
    for kill_at in range(total):
        sim = simulation(1, has_sets=has_sets)
        end = sim.drive(3, Faults(kill_at=kill_at, power_cut=has_sets))
        assert isinstance(end, Killed)
        finish(sim)


@SETS
def test_a_task_dies_before_every_single_step_and_goes_on_as_a_ghost(has_sets: bool) -> None:
    _, steps = operations_of(has_sets)
    for kill_at in range(steps):
        sim = simulation(kill_at, has_sets=has_sets)
        assert sim.drive(3, Faults(task_kill_at=kill_at)) is None
        finish(sim)


@SETS
def test_a_driver_sleeps_at_every_single_operation_while_another_runs(has_sets: bool) -> None:
    total, _ = operations_of(has_sets)
    fenced = 0
    for pause_at in range(total):
        sim = simulation(1, has_sets=has_sets)

        def other(sim: PipelineSimulation = sim) -> None:
            sim.log.append("orders", 0, 4, sim.dice)
            assert sim.drive(2) is None

        sim.while_paused = other
        fenced += isinstance(sim.drive(3, Faults(pause_at=pause_at)), Fenced)
        finish(sim)
    # It says so, unless it had nothing more to write, or claimed after the other.
    assert fenced > total * 0.8


@SETS
def test_of_two_drivers_the_second_dies_too(has_sets: bool) -> None:
    total, _ = operations_of(has_sets)
    dice = random.Random(7)
    for pause_at in range(total):
        sim = simulation(pause_at, has_sets=has_sets)

        def other(sim: PipelineSimulation = sim, kill_at: int = dice.randrange(total)) -> None:
            sim.drive(2, Faults(kill_at=kill_at))

        sim.while_paused = other
        sim.drive(3, Faults(pause_at=pause_at))
        finish(sim)


@SETS
def test_the_answer_of_a_rename_is_lost(has_sets: bool) -> None:
    for lost in range(12):
        sim = simulation(lost, has_sets=has_sets)
        sim.files.lose_reply_of = lost
        sim.drive(3)
        finish(sim)


def run_random(seed: int) -> None:
    """Deaths, pauses, ghosts, lost answers and power cuts, several drivers, growing log."""
    dice = random.Random(seed)
    sim = simulation(seed, has_sets=dice.random() < 0.5)
    for _ in range(dice.randrange(1, 6)):
        if dice.random() < 0.6:
            sim.log.append("orders", dice.randrange(3), dice.randrange(1, 8), sim.dice)
        if dice.random() < 0.3:
            sim.files.lose_reply_of = dice.randrange(10)
        other = Faults(kill_at=dice.choice((None, dice.randrange(150))))
        records_per_file = dice.randrange(1, 6)
        sim.while_paused = lambda faults=other, count=records_per_file: sim.drive(count, faults)
        sim.drive(
            dice.randrange(1, 6),
            Faults(
                kill_at=dice.choice((None, dice.randrange(150))),
                pause_at=dice.choice((None, dice.randrange(150))),
                task_kill_at=dice.choice((None, dice.randrange(40))),
                power_cut=dice.random() < 0.5,
            ),
        )
    sim.files.lose_reply_of = None
    finish(sim)


@pytest.mark.parametrize("seed", range(RANDOM_SEEDS))
def test_everything_at_random(seed: int) -> None:
    run_random(seed)


@pytest.mark.long
def test_everything_at_random_for_long() -> None:
    for seed in range(RANDOM_SEEDS, RANDOM_SEEDS + LONG_SEEDS):
        run_random(seed)
